"""Jobs, the cluster they share and the scheduling policy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.reliability.jobs.model.generated import (
        Mix as Mix,
        generate_jobs as generate_jobs,
        with_running_jobs as with_running_jobs,
    )
    from perfatlas.reliability.jobs.model.model import (
        Cluster as Cluster,
        Failures as Failures,
        Jobs as Jobs,
        Policy as Policy,
        Response as Response,
        ticks as ticks,
    )
    from perfatlas.reliability.jobs.model.packing import never_fit as never_fit, pack as pack
    from perfatlas.reliability.jobs.model.records import (
        BUCKETS as BUCKETS,
        CANCEL as CANCEL,
        COMPLETED as COMPLETED,
        CONSERVATIVE as CONSERVATIVE,
        DETECTION as DETECTION,
        DOWN as DOWN,
        DOWN_GPUS as DOWN_GPUS,
        DRAINING as DRAINING,
        DRAINING_GPUS as DRAINING_GPUS,
        EASY as EASY,
        ELASTIC as ELASTIC,
        FAIR_SHARE as FAIR_SHARE,
        FIFO as FIFO,
        HELD as HELD,
        IDLE_EMPTY as IDLE_EMPTY,
        IDLE_QUEUED as IDLE_QUEUED,
        LONGEST as LONGEST,
        LOST_WORK as LOST_WORK,
        NEVER as NEVER,
        NODE_FAIL as NODE_FAIL,
        PREEMPTED as PREEMPTED,
        PRIORITY as PRIORITY,
        PRODUCTIVE as PRODUCTIVE,
        QUEUED as QUEUED,
        REPLACE as REPLACE,
        REPLACING as REPLACING,
        RESTART as RESTART,
        RUNNING as RUNNING,
        SHRINK as SHRINK,
        STALLED as STALLED,
        STATES as STATES,
        TICKS_PER_SECOND as TICKS_PER_SECOND,
        TIMEOUT as TIMEOUT,
        UP as UP,
        WAITING as WAITING,
        ScheduleState as ScheduleState,
    )
    from perfatlas.reliability.jobs.model.responses import (
        LAUNCHERS as LAUNCHERS,
        SOURCES as SOURCES,
        kueue_replacement as kueue_replacement,
    )
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
