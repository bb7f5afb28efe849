"""Histories of failures and repairs: a common columnar form of all logs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.reliability.telemetry.history.exposure import (
        JOB as JOB,
        SEEN_UNDER_JOBS as SEEN_UNDER_JOBS,
        observation_windows as observation_windows,
        utc as utc,
        with_service_starts as with_service_starts,
    )
    from perfatlas.reliability.telemetry.history.facts import history_facts as history_facts
    from perfatlas.reliability.telemetry.history.history import (
        ACTIONS as ACTIONS,
        EFFECT as EFFECT,
        FAILURE as FAILURE,
        GPU_RESET as GPU_RESET,
        NODE_STATE as NODE_STATE,
        NOT_TOLD as NOT_TOLD,
        NOTICE as NOTICE,
        PLANNED as PLANNED,
        PROCESS as PROCESS,
        UNCLEAR as UNCLEAR,
        Event as Event,
        History as History,
        HistoryBuilder as HistoryBuilder,
        joined as joined,
    )
    from perfatlas.reliability.telemetry.history.history_table import (
        read_history as read_history,
        write_history as write_history,
    )
    from perfatlas.reliability.telemetry.history.hostlist import (
        count_hosts as count_hosts,
        expand_hosts as expand_hosts,
        lone_host as lone_host,
    )
    from perfatlas.reliability.telemetry.history.job_runs import (
        UNFINISHED as UNFINISHED,
        JobRuns as JobRuns,
        Run as Run,
        RunsBuilder as RunsBuilder,
        why_no_run as why_no_run,
    )
    from perfatlas.reliability.telemetry.history.labels import Labels as Labels
    from perfatlas.reliability.telemetry.history.lifetime_columns import (
        Lifetimes as Lifetimes,
        lifetimes as lifetimes,
    )
    from perfatlas.reliability.telemetry.history.occupancy import (
        Occupancy as Occupancy,
        OccupancyBuilder as OccupancyBuilder,
        OperatingTime as OperatingTime,
    )
    from perfatlas.reliability.telemetry.history.survival_intervals import (
        ObservationWindow as ObservationWindow,
        Repair as Repair,
        Repairs as Repairs,
        SurvivalIntervals as SurvivalIntervals,
        check_window as check_window,
        failure_intervals as failure_intervals,
        lasting_states as lasting_states,
        operating_intervals as operating_intervals,
        repair_times as repair_times,
    )
    from perfatlas.reliability.telemetry.history.xid_codes import (
        xid_code as xid_code,
        xid_meaning as xid_meaning,
    )
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
