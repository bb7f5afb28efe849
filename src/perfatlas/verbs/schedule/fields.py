"""The vocabulary of `fleet schedule`: flags, TOML keys, table columns and arguments of one name."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from perfatlas.quantities import InvalidSpecError, did_you_mean, shown
from perfatlas.verbs.goodput import Duration, Number, Pause, Share, Whole, parsed
from perfatlas.vocabulary.fields import Count

if TYPE_CHECKING:
    from collections.abc import Mapping

MOST_COMPARED: Final = 64
Text = Annotated[str, BeforeValidator(str), Field(min_length=1, max_length=4096)]
Rate = Annotated[float, Number, Field(gt=0.0, le=1e6, allow_inf_nan=False)]
Load = Annotated[float, Number, Field(gt=0.0, le=1e3, allow_inf_nan=False)]
Factor = Annotated[float, Number, Field(ge=1.0, le=1e3, allow_inf_nan=False)]
Sigma = Annotated[float, Number, Field(ge=0.0, le=10.0, allow_inf_nan=False)]
ManyJobs = Annotated[Count, Field(le=3 * 10**6)]  # some 300 bytes each
Nodes = Annotated[Count, Field(le=10**6)]
NodeGpus = Annotated[Count, Field(le=1024)]
Launcher = Literal["slurm_requeue", "slurm_no_kill", "drain", "jobset", "kueue", "torchrun"]
Format = Literal[
    "perfatlas", "philly", "helios", "acme", "alibaba_gpu_v2020", "sacct", "sacct_json"
]


def _shares(value: object) -> object:
    """Return shares written as ann=2,bob=1, or as a table, as a mapping."""
    if not isinstance(value, str):
        return value
    found: dict[str, str] = {}
    for part in value.split(","):
        user, equals, share = part.rpartition("=")
        if not equals or not user.strip():
            raise ValueError("expected users and their shares, such as ann=2,bob=1")
        found[user.strip()] = share
    return found


class Schedule(BaseModel):
    """Jobs, the cluster they share, the rules they are served by, and what fails.

    Every field is a name of the vocabulary; None means "derive it" or "none". Times in seconds.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, str_strip_whitespace=True)

    jobs: Text | None = None
    job_format: Format = "perfatlas"
    zone: str | None = None
    num_jobs: ManyJobs | None = None
    job_rate: Rate | None = None
    load: Load | None = None
    run_median_s: Duration = 1800.0
    run_sigma: Sigma = 1.5
    max_job_gpus: Count | None = None
    limit_factor: Factor = 2.0
    checkpoint_interval_s: Pause | None = None
    restart_s: Pause | None = None
    fewest_share: Share | None = None
    leave_out_larger: bool = False

    nodes: Nodes | None = None
    gpus_per_node: NodeGpus | None = None
    nodes_per_domain: Count | None = None
    nodes_per_leaf: Count | None = None

    order: Literal["fifo", "priority", "fair_share"] = "fifo"
    backfill: Literal["none", "easy", "conservative"] = "easy"
    depth: Count = 500
    preemption: Literal["none", "requeue", "cancel"] = "none"
    placement: Literal["pack", "best_fit"] = "pack"
    together: Literal["anywhere", "domain", "leaf"] = "anywhere"
    required: bool = False
    keeps_place: bool = False
    half_life_s: Duration = 7 * 86400.0
    shares: Annotated[dict[str, float], BeforeValidator(_shares)] = Field(default_factory=dict)

    response: Launcher = "slurm_requeue"
    detection_s: Pause | None = None
    max_restarts: Whole | None = None
    patience_s: Pause | None = None
    node_mtbf_s: Duration | None = None
    repair_s: Pause | None = None
    fleet: Text | None = None
    failures: Text | None = None

    until_s: Duration | None = None
    seed: Annotated[int, Field(ge=0, le=2**31)] = 0


SCHEDULE_NAMES: Final = tuple(Schedule.model_fields)
JOB_NAMES: Final = (
    "jobs", "job_format", "zone", "num_jobs", "job_rate", "load", "run_median_s", "run_sigma",
    "max_job_gpus", "seed",
)  # fmt: skip


def parse_schedule(fields: Mapping[str, Any]) -> Schedule:
    """Return named fields as one question; None and empty text count as not given.

    Args:
        fields: As given.

    Raises:
        InvalidSpecError: A name is unknown, a value breaks its rule, or two contradict each other.

    Example:
        >>> from perfatlas.verbs.schedule.fields import parse_schedule
        >>> parse_schedule({"nodes": "64", "num_jobs": 100, "load": 0.8}).backfill
        'easy'
    """
    asked = parsed(Schedule, fields)
    _check_jobs(asked)
    if asked.nodes is None and asked.fleet is None:
        raise InvalidSpecError("nodes is required: how many nodes the cluster has")
    ways = [n for n in ("node_mtbf_s", "fleet", "failures") if getattr(asked, n) is not None]
    if len(ways) > 1:
        raise InvalidSpecError(f"{' and '.join(ways)} both say what fails: give one")
    if (asked.node_mtbf_s is None) != (asked.repair_s is None):
        given, other = ("node_mtbf_s", "repair_s")
        if asked.node_mtbf_s is None:
            given, other = other, given
        if ways and given == "repair_s":
            raise InvalidSpecError(
                f"repair_s is of node_mtbf_s, and {ways[0]} tells repairs itself; leave repair_s"
                " out"
            )
        raise InvalidSpecError(f"{given} is given without {other}: failures need both")
    if asked.together == "domain" and asked.nodes_per_domain is None:
        raise InvalidSpecError("together = 'domain': give nodes_per_domain, such as 18")
    if asked.together == "leaf" and asked.nodes_per_leaf is None:
        raise InvalidSpecError("together = 'leaf': give nodes_per_leaf, such as 32")
    return asked


def _check_jobs(asked: Schedule) -> None:
    if (asked.jobs is None) == (asked.num_jobs is None):
        both = "both" if asked.jobs is not None else "neither"
        raise InvalidSpecError(
            f"which jobs? {both} of jobs (a file) and num_jobs (generated) given: give one"
        )
    if asked.num_jobs is not None and (asked.job_rate is None) == (asked.load is None):
        raise InvalidSpecError(
            "num_jobs: give load (GPU-time asked for over what there is, such as 0.8) or job_rate"
            " (submissions per second), one of the two"
        )
    if asked.jobs is not None:
        generated = ("job_rate", "load", "max_job_gpus")
        told = [name for name in generated if getattr(asked, name) is not None]
        shaped = {"run_median_s": asked.run_median_s, "run_sigma": asked.run_sigma}
        told += [n for n, value in shaped.items() if value != Schedule.model_fields[n].default]
        if told:
            raise InvalidSpecError(
                f"{', '.join(told)}: of generated jobs, not of a file; leave that out, or give"
                " num_jobs in place of jobs"
            )
    if asked.zone is not None and asked.job_format != "sacct":
        raise InvalidSpecError(
            f"zone = {shown(asked.zone)}: only the times of sacct's text need a zone (job_format ="
            " sacct); leave zone out"
        )


def variants(compare: list[str], fields: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return what changes in each schedule that is compared.

    Args:
        compare: Fields and their values, as backfill=none,easy; of several, every combination.
        fields: The base.

    Raises:
        InvalidSpecError: Not a field and values, a field named twice, or too many combinations.

    Example:
        >>> from perfatlas.verbs.schedule.fields import variants
        >>> variants(["backfill=none,easy"], {"num_jobs": 9, "load": 0.8, "nodes": 4})
        [{'backfill': 'none'}, {'backfill': 'easy'}]
    """
    choices: dict[str, list[str]] = {}
    for text in compare:
        name, equals, values = str(text).partition("=")
        name = name.strip().replace("-", "_")
        found = [value.strip() for value in values.split(",") if value.strip()]
        if not equals or not found:
            raise InvalidSpecError(
                f"compare = {shown(text)}: expected a field and its values, such as"
                " backfill=none,easy,conservative"
            )
        if name not in SCHEDULE_NAMES:
            raise InvalidSpecError(
                f"compare: unknown field {name!r}: expected a name such as backfill, placement or"
                f" nodes{did_you_mean(name, SCHEDULE_NAMES)}"
            )
        if name in choices:
            raise InvalidSpecError(f"compare: {name} is named twice: put its values together")
        choices[name] = found
    rows = [
        dict(zip(choices, values, strict=True)) for values in itertools.product(*choices.values())
    ]
    if len(rows) > MOST_COMPARED:
        raise InvalidSpecError(f"compare asks for {len(rows)} schedules: at most {MOST_COMPARED}")
    for row in rows:
        parse_schedule({**fields, **row})
    return rows
