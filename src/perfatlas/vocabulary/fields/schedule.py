"""Fields of a schedule: jobs, cluster, policy and failures."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Final, Literal

from perfatlas.quantities import DAY_S
from perfatlas.vocabulary.fields import clusters, conditions
from perfatlas.vocabulary.fields.numbers import Count, CountOrZero, Number
from perfatlas.vocabulary.fields.rows import InputFile, Text, Written, group

WEEK_S: Final = 7.0 * DAY_S
File = Annotated[str, Text(), InputFile()]


def _shares(value: object) -> object:
    """Return text such as ann=2,bob=1 as a mapping; other values unchanged."""
    if not isinstance(value, str):
        return value
    shares: dict[str, str] = {}
    for part in value.split(","):
        user, equals, share = part.rpartition("=")
        if not equals or not user.strip():
            raise ValueError("expected users and their shares, such as ann=2,bob=1")
        shares[user.strip()] = share
    return shares


SHRINKING: Final = ("slurm_no_kill", "torchrun")
PATIENT: Final = ("kueue", "torchrun")
GENERATED: Final = conditions.NotSet("jobs", "replaces generated jobs")
FAILING: Final = conditions.WithMessage(
    conditions.AnySet("node_mtbf_s", "fleet", "failures", "site_cap_w", "site_profile"),
    "no node failures are set",
    "set node_mtbf_s with repair_s, fleet or failures",
    "failures of nodes (node_mtbf_s, fleet or failures), or a cap of the site",
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

    jobs: File | None = None
    job_format: Annotated[
        Literal["perfatlas", "sacct"], conditions.AnySet("jobs", example="jobs.csv")
    ] = "perfatlas"
    zone: Annotated[Annotated[str, Text(64)] | None, conditions.Equals("job_format", "sacct")] = (
        None
    )
    num_jobs: Annotated[int, Number(at_least=1, at_most=3 * 10**6)] | None = None
    load: Annotated[
        Annotated[float, Number(unit="fraction", above=0.0, at_most=10.0)] | None, GENERATED
    ] = None
    job_rate: Annotated[
        Annotated[float, Number(unit="1/s", above=0.0, at_most=1e6)] | None, GENERATED
    ] = None
    run_median_s: Annotated[clusters.Duration, GENERATED] = 1800.0
    run_sigma: Annotated[Annotated[float, Number(at_least=0.0, at_most=10.0)], GENERATED] = 1.5
    max_job_gpus: Annotated[Count | None, GENERATED] = None
    limit_factor: Annotated[Annotated[float, Number(at_least=1.0, at_most=1e3)], BACKFILL] = 2.0
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
    fewest_share: Annotated[clusters.Share | None, SHRINKS] = None
    leave_out_larger: Annotated[
        bool,
        conditions.WithMessage(
            conditions.AnySet("jobs", "required", "max_job_gpus"),
            "generated jobs always fit the cluster",
            "set jobs (a file)",
        ),
    ] = False


@group("Policy", 3)
class SchedulingPolicy:
    """Queue order, backfill, preemption and placement."""

    order: Literal["fifo", "priority", "fair_share"] = "fifo"
    backfill: Literal["none", "easy", "conservative"] = "easy"
    depth: Annotated[Count, BACKFILL] = 500
    preemption: Annotated[
        Literal["none", "requeue", "cancel"], conditions.Equals("order", "priority")
    ] = "none"
    placement: Literal["pack", "best_fit"] = "pack"
    together: Literal["anywhere", "domain", "leaf"] = "anywhere"
    required: Annotated[bool, conditions.Equals("together", "domain", "leaf")] = False
    keeps_place: Annotated[bool, REQUEUED] = False
    half_life_s: Annotated[clusters.Duration, FAIR_SHARE] = WEEK_S
    shares: Annotated[Annotated[dict[str, float], Written(_shares)] | None, FAIR_SHARE] = None


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
    failures: File | None = None
    response: Annotated[
        Literal["slurm_requeue", "slurm_no_kill", "drain", "jobset", "kueue", "torchrun"], FAILING
    ] = "slurm_requeue"
    detection_s: Annotated[
        clusters.Pause | None, replace(clusters.DETECTION, default="the launcher's", needs=LOSING)
    ] = None
    max_restarts: Annotated[CountOrZero | None, LOSING] = None
    patience_s: Annotated[clusters.Pause | None, WAITS] = None
    until_s: clusters.Duration | None = None
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
