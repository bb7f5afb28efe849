"""Histories of failures and repairs: a common columnar form of all logs."""

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.reliability.telemetry.history.exposure import (
        JOB, SEEN_UNDER_JOBS, observation_windows, utc, with_service_starts,
    )
    from perfatlas.reliability.telemetry.history.facts import history_facts
    from perfatlas.reliability.telemetry.history.history import (
        ACTIONS, EFFECT, FAILURE, GPU_RESET, NODE_STATE, NOT_TOLD, NOTICE, PLANNED, PROCESS,
        UNCLEAR, Event, History, HistoryBuilder, joined,
    )
    from perfatlas.reliability.telemetry.history.history_table import read_history, write_history
    from perfatlas.reliability.telemetry.history.hostlist import (
        count_hosts, expand_hosts, lone_host,
    )
    from perfatlas.reliability.telemetry.history.job_runs import (
        UNFINISHED, JobRuns, JobRun, RunsBuilder,
    )
    from perfatlas.reliability.telemetry.history.labels import Labels
    from perfatlas.reliability.telemetry.history.lifetime_columns import Lifetimes, lifetimes
    from perfatlas.reliability.telemetry.history.occupancy import OccupancyBuilder, OperatingTime
    from perfatlas.reliability.telemetry.history.survival_intervals import (
        ObservationWindow, RepairModel, Repairs, SurvivalIntervals, check_window, failure_intervals,
        lasting_states, operating_intervals, repair_times,
    )
    from perfatlas.reliability.telemetry.history.xid_codes import xid_code, xid_meaning
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
