"""Fields of a schedule: jobs, cluster, policy and failures."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Final, Literal

from perfatlas.quantities import DAY_S
from perfatlas.vocabulary.fields import clusters, conditions
from perfatlas.vocabulary.fields.numbers import Count, CountOrZero, Number
from perfatlas.vocabulary.fields.rows import InputFile, Row, Text, Written, group

WEEK_S: Final = 7.0 * DAY_S
File = Annotated[str, Text(), InputFile()]


def _shares(value: object) -> object:
    """Return text such as ann=2,bob=1 as a mapping; other values unchanged."""
    if not isinstance(value, str):
        return value
    found: dict[str, str] = {}
    for part in value.split(","):
        user, equals, share = part.rpartition("=")
        if not equals or not user.strip():
            raise ValueError("expected users and their shares, such as ann=2,bob=1")
        found[user.strip()] = share
    return found


SHRINKING: Final = ("slurm_no_kill", "torchrun")
PATIENT: Final = ("kueue", "torchrun")
GENERATED: Final = conditions.NotSet("jobs", "replaces generated jobs")
FAILING: Final = conditions.WithMessage(
    conditions.AnySet("node_mtbf_s", "fleet", "failures"),
    "no node failures are set",
    "set node_mtbf_s with repair_s, fleet or failures",
    "failures of nodes (node_mtbf_s, fleet or failures)",
)
HIT: Final = conditions.AllOf(FAILING, conditions.NotEqual("response", "drain"))
REQUEUING: Final = conditions.AllOf(
    conditions.Equals("order", "priority"), conditions.Equals("preemption", "requeue")
)
PREEMPTING: Final = conditions.AllOf(
    conditions.Equals("order", "priority"), conditions.Equals("preemption", "requeue", "cancel")
)
LOSING: Final = conditions.WithMessage(
    HIT,
    "no job loses a node",
    "set node_mtbf_s with repair_s, fleet or failures, and a response other than drain",
    "failures of nodes, and a response other than drain",
)
SHRINKS: Final = conditions.WithMessage(
    conditions.AllOf(HIT, conditions.Equals("response", *SHRINKING)),
    "no job continues with fewer nodes",
    f"set node_mtbf_s with repair_s, fleet or failures, and response = {' or '.join(SHRINKING)}",
    f"failures of nodes, and response = {' or '.join(SHRINKING)}",
)
WAITS: Final = conditions.WithMessage(
    conditions.AllOf(HIT, conditions.Equals("response", *PATIENT)),
    "no job waits for a node",
    f"set node_mtbf_s with repair_s, fleet or failures, and response = {' or '.join(PATIENT)}",
    f"failures of nodes, and response = {' or '.join(PATIENT)}",
)
REQUEUED: Final = conditions.WithMessage(
    conditions.AnyOf(
        REQUEUING,
        conditions.AllOf(
            HIT,
            conditions.NotEqual("response", "torchrun"),
            conditions.NotEqual("max_restarts", 0),
            conditions.AnyOf(
                conditions.NotEqual("response", "jobset"), conditions.AnySet("max_restarts")
            ),
        ),
    ),
    "no job is queued again",
    "set preemption = requeue, or failures with a response that requeues",
    "preemption = requeue, or failures of nodes with a response that requeues",
)
RESTARTED: Final = conditions.WithMessage(
    conditions.AnyOf(HIT, REQUEUING, conditions.Equals("restart_s", 0.0)),
    "no job restarts",
    f"{LOSING.remedy} (or preemption = requeue)",
    "failures of nodes with a response other than drain, or preemption = requeue",
)
STOPPED: Final = conditions.WithMessage(
    conditions.AnyOf(
        HIT,
        PREEMPTING,
        conditions.AllOf(
            conditions.AnySet("jobs"), conditions.Equals("job_format", "perfatlas")
        ),  # its time limits may kill jobs
        conditions.Equals("checkpoint_interval_s", 0.0),
    ),
    "no job stops before its end",
    f"{LOSING.remedy} (or preemption)",
    "failures of nodes with a response other than drain, preemption, or time limits of jobs",
)
BACKFILL: Final = conditions.Equals("backfill", "easy", "conservative")
FAIR_SHARE: Final = conditions.Equals("order", "fair_share")


@group("Jobs", 1)
class SubmittedJobs:
    """Jobs from a file, or generated ones."""

    jobs: Annotated[
        File | None,
        Row(
            "Job trace: Slurm accounting, a public trace, or CSV, Parquet or JSON Lines with"
            " submit_s, run_s and gpus; plain or gzip-compressed.",
            elsewhere=("job_trace", "trace_file", "workload"),
            common=True,
        ),
    ] = None
    job_format: Annotated[
        Literal["perfatlas", "sacct"],
        Row("Format of the trace.", needs=conditions.AnySet("jobs", example="jobs.csv")),
    ] = "perfatlas"
    zone: Annotated[
        Annotated[str, Text(64)] | None,
        Row(
            "Time zone of sacct times, such as UTC or Europe/Berlin.",
            needs=conditions.Equals("job_format", "sacct"),
            elsewhere=("timezone", "time_zone"),
        ),
    ] = None
    num_jobs: Annotated[
        Annotated[int, Number(at_least=1, at_most=3 * 10**6)] | None,  # about 300 bytes each
        Row(
            "Number of jobs to generate. Setting it keeps a fixed sample that starts from an empty"
            " cluster.",
            default="as many as the mean wait needs to be known to 10%",
            elsewhere=("job_count", "n_jobs"),
            common=True,
        ),
    ] = None
    load: Annotated[
        Annotated[float, Number(unit="fraction", above=0.0, at_most=10.0)] | None,
        Row(
            "Offered load of generated jobs: requested GPU time over that of the cluster.",
            needs=GENERATED,
            elsewhere=("utilization", "offered_load"),
            common=True,
        ),
    ] = None
    job_rate: Annotated[
        Annotated[float, Number(unit="1/s", above=0.0, at_most=1e6)] | None,
        Row(
            "Submission rate of generated jobs, instead of load.",
            needs=GENERATED,
            elsewhere=("arrival_rate", "submit_rate"),
        ),
    ] = None
    run_median_s: Annotated[
        clusters.Duration,
        Row("Median run time of generated jobs (lognormal).", needs=GENERATED, common=True),
    ] = 1800.0
    run_sigma: Annotated[
        Annotated[float, Number(at_least=0.0, at_most=10.0)],
        Row("Standard deviation of the logarithm of the run time.", needs=GENERATED),
    ] = 1.5
    max_job_gpus: Annotated[
        Count | None,
        Row(
            "GPUs of the largest generated job.", "a quarter of the cluster", GENERATED, common=True
        ),
    ] = None
    limit_factor: Annotated[
        Annotated[float, Number(at_least=1.0, at_most=1e3)],
        Row("Ratio of time limit to run time, for jobs without time limits.", needs=BACKFILL),
    ] = 2.0
    checkpoint_interval_s: Annotated[
        clusters.Pause | None,
        replace(
            clusters.CHECKPOINT_INTERVAL,
            text="Work time between checkpoints, for jobs that do not define it.",
            default="no checkpoints: a restart loses all work",
            needs=STOPPED,
        ),
    ] = None
    restart_s: Annotated[
        clusters.Pause | None,
        replace(
            clusters.RESTART,
            text="Restart time, for jobs that do not define it.",
            default="0",
            needs=RESTARTED,
        ),
    ] = None
    fewest_share: Annotated[
        clusters.Share | None,
        Row(
            "Minimum fraction of its nodes with which an elastic job continues.",
            default="one node",
            needs=SHRINKS,
        ),
    ] = None
    leave_out_larger: Annotated[
        bool,
        Row(
            "Leave out jobs that can never run on this cluster, instead of failing.",
            needs=conditions.WithMessage(
                conditions.AnySet("jobs", "required", "max_job_gpus"),
                "generated jobs always fit the cluster",
                "set jobs (a file)",
            ),
        ),
    ] = False


@group("Policy", 3)
class SchedulingPolicy:
    """Queue order, backfill, preemption and placement."""

    order: Annotated[
        Literal["fifo", "priority", "fair_share"],
        Row("Order of the queue: submission, priority, or decayed usage per share.", common=True),
    ] = "fifo"
    backfill: Annotated[
        Literal["none", "easy", "conservative"],
        Row(
            "Backfill: none, easy (reserves a start for the first waiting job) or conservative"
            " (for the first depth jobs).",
            common=True,
        ),
    ] = "easy"
    depth: Annotated[
        Count,
        Row(
            "Number of waiting jobs, behind the first, that backfill considers.",
            needs=BACKFILL,
            elsewhere=("bf_max_job_test", "backfill_depth"),
        ),
    ] = 500
    preemption: Annotated[
        Literal["none", "requeue", "cancel"],
        Row(
            "Preemption of lower-priority jobs whose nodes the first waiting job needs.",
            needs=conditions.Equals("order", "priority"),
            common=True,
        ),
    ] = "none"
    placement: Annotated[
        Literal["pack", "best_fit"],
        Row("Placement: pack (first nodes with free GPUs) or best_fit (fewest GPUs left free)."),
    ] = "pack"
    together: Annotated[
        Literal["anywhere", "domain", "leaf"],
        Row("Place all nodes of a job within one domain or leaf if possible."),
    ] = "anywhere"
    required: Annotated[
        bool,
        Row(
            "Make a job wait until its nodes are within one domain or leaf.",
            needs=conditions.Equals("together", "domain", "leaf"),
        ),
    ] = False
    keeps_place: Annotated[
        bool,
        Row(
            "Let a requeued job keep its position in the queue instead of joining the end.",
            needs=REQUEUED,
        ),
    ] = False
    half_life_s: Annotated[
        clusters.Duration,
        Row(
            "Half-life of usage for fair_share.",
            default="7 days",
            needs=FAIR_SHARE,
            elsewhere=("priority_decay_half_life",),
        ),
    ] = WEEK_S
    shares: Annotated[
        Annotated[dict[str, float], Written(_shares)] | None,
        Row("Shares of users, such as ann=2,bob=1.", "1 per user", FAIR_SHARE),
    ] = None


@group("Failures", 4)
class ScheduledFailures:
    """Node failures, and the response of the launcher."""

    node_mtbf_s: Annotated[
        clusters.Duration | None,
        replace(clusters.NODE_MTBF, text="Mean time between failures of one node, with repair_s."),
    ] = None
    repair_s: Annotated[
        clusters.Pause | None,
        replace(
            clusters.NODE_REPAIR,
            text="Time to repair a failed node.",
            needs=conditions.AllOf(
                clusters.NO_FLEET,
                conditions.NotSet("failures", "lists repair times"),
                conditions.AnySet("node_mtbf_s"),
            ),
        ),
    ] = None
    fleet: Annotated[clusters.FleetName | None, clusters.FLEET] = None
    failures: Annotated[
        File | None,
        Row(
            "Table of failures: time_s, node, repair_s, and optionally width and drain.",
            default="none",
            elsewhere=("failure_trace",),
        ),
    ] = None
    response: Annotated[
        Literal["slurm_requeue", "slurm_no_kill", "drain", "jobset", "kueue", "torchrun"],
        Row(
            "Response of the launcher to a lost node; drain lets running jobs finish before the"
            " repair.",
            needs=FAILING,
        ),
    ] = "slurm_requeue"
    detection_s: Annotated[
        clusters.Pause | None, replace(clusters.DETECTION, default="the launcher's", needs=LOSING)
    ] = None
    max_restarts: Annotated[
        CountOrZero | None,
        Row(
            "Maximum restarts, as the launcher counts them, before a job fails for good.",
            default="the launcher's",
            needs=LOSING,
            elsewhere=("max_retries", "backoff_limit"),
        ),
    ] = None
    patience_s: Annotated[
        clusters.Pause | None,
        Row(
            "Maximum time that a job under kueue or torchrun waits for a node.",
            default="the launcher's",
            needs=WAITS,
            elsewhere=("last_call_timeout", "recovery_timeout"),
        ),
    ] = None
    until_s: Annotated[
        clusters.Duration | None,
        Row(
            "Time after the first submission at which the schedule ends.",
            default="the last submission if jobs are generated, else when all have ended",
        ),
    ] = None
    seed: Annotated[
        clusters.Seed,
        replace(
            clusters.SEED,
            needs=conditions.WithMessage(
                conditions.AnySet("num_jobs", "load", "job_rate", "node_mtbf_s", "fleet"),
                "nothing is drawn at random",
                "set load, job_rate, node_mtbf_s or fleet",
            ),
        ),
    ] = 0
