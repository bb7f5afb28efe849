"""Jobs, the cluster they share and the scheduling policy."""

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.reliability.jobs.model.generated import Mix, generate_jobs, with_running_jobs
    from perfatlas.reliability.jobs.model.model import (
        Cluster, Failures, Jobs, Policy, Response, ticks,
    )
    from perfatlas.reliability.jobs.model.packing import never_fit, pack
    from perfatlas.reliability.jobs.model.records import (
        BUCKETS, CANCEL, COMPLETED, CONSERVATIVE, DETECTION, DOWN, DOWN_GPUS, DRAINING,
        DRAINING_GPUS, EASY, ELASTIC, FAIR_SHARE, FIFO, HELD, IDLE_EMPTY, IDLE_QUEUED,
        LOST_WORK, MAX_INPUT_TICKS, NEVER, NODE_FAIL, PREEMPTED, PRIORITY, PRODUCTIVE, QUEUED,
        REPLACE, REPLACING, RESTART, RUNNING, SHRINK, STALLED, STATES, TICKS_PER_SECOND,
        TIMEOUT, UP, WAITING, ScheduleState,
    )
    from perfatlas.reliability.jobs.model.responses import LAUNCHERS, SOURCES, kueue_replacement
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
