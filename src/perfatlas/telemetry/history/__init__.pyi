from .exposure import (
    JOB as JOB,
    observation_windows as observation_windows,
    parts_per_node as parts_per_node,
    utc as utc,
)
from .facts import (
    history_facts as history_facts,
)
from .history import (
    EFFECT as EFFECT,
    FAILURE as FAILURE,
    KINDS as KINDS,
    NOT_TOLD as NOT_TOLD,
    NOTICE as NOTICE,
    OVERHEAD as OVERHEAD,
    PLANNED as PLANNED,
    UNCLEAR as UNCLEAR,
    Event as Event,
    History as History,
    HistoryBuilder as HistoryBuilder,
    Labels as Labels,
    joined as joined,
)
from .history_table import (
    read_history as read_history,
    write_history as write_history,
)
from .hostlist import (
    count_hosts as count_hosts,
    expand_hosts as expand_hosts,
    lone_host as lone_host,
)
from .job_runs import (
    UNFINISHED as UNFINISHED,
    JobRuns as JobRuns,
    Run as Run,
    RunsBuilder as RunsBuilder,
    why_no_run as why_no_run,
)
from .lifetime_columns import (
    Lifetimes as Lifetimes,
    lifetimes as lifetimes,
)
from .survival_intervals import (
    ObservationWindow as ObservationWindow,
    Repair as Repair,
    SurvivalIntervals as SurvivalIntervals,
    failure_intervals as failure_intervals,
    repair_times as repair_times,
)
from .xid_codes import (
    xid_code as xid_code,
    xid_meaning as xid_meaning,
)
