"""The fields of `fleet schedule`, checked; the table of fields declares them."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, Final

from perfatlas.declarations import verb_fields
from perfatlas.quantities import InvalidSpecError, did_you_mean, repr_for_error
from perfatlas.scenario.fields import InputFields
from perfatlas.vocabulary.fields import (
    ClusterPower,
    ScheduledFailures,
    SchedulingPolicy,
    SharedCluster,
    SubmittedJobs,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_COMPARED_SCHEDULES: Final = 64


# the groups from the last to the first: Python collects annotations from the last base on
class ScheduleFields(
    InputFields, ClusterPower, ScheduledFailures, SchedulingPolicy, SharedCluster, SubmittedJobs
):
    """Jobs, the cluster they share, the rules they are served by, what fails and what it draws."""


JOB_NAMES: Final = (
    "jobs", "job_format", "zone", "num_jobs", "job_rate", "load", "run_median_s", "run_sigma",
    "max_job_gpus", "seed",
)  # fmt: skip


def parse_schedule(fields: Mapping[str, Any]) -> ScheduleFields:
    """Return named fields as a scenario; None and empty text are unset.

    Raises:
        InvalidSpecError: A name is unknown, a value is invalid, or two are inconsistent.

    Example:
        >>> from perfatlas.scenario.cluster_schedules.schedule_fields import parse_schedule
        >>> parse_schedule({"nodes": "64", "num_jobs": 100, "load": 0.8}).backfill
        'easy'
    """
    inputs = ScheduleFields.read(fields)
    _check_jobs(inputs)
    if inputs.nodes is None and inputs.fleet is None:
        raise InvalidSpecError("nodes is required: the number of nodes of the cluster")
    ways = [n for n in ("node_mtbf_s", "fleet", "failures") if getattr(inputs, n) is not None]
    if len(ways) > 1:
        raise InvalidSpecError(f"{' and '.join(ways)} are mutually exclusive")
    if inputs.node_mtbf_s is not None and inputs.repair_s is None:
        raise InvalidSpecError("node_mtbf_s requires repair_s")
    if inputs.power_w is not None and inputs.idle_power_w is None:
        raise InvalidSpecError(
            "power_w requires idle_power_w, the power of a GPU without a job, such as 80"
        )
    return inputs


def _check_jobs(inputs: ScheduleFields) -> None:
    stream = inputs.num_jobs is None and (inputs.load or inputs.job_rate) is not None
    if not stream and (inputs.jobs is None) == (inputs.num_jobs is None):
        both = "both" if inputs.jobs is not None else "neither"
        raise InvalidSpecError(
            f"expected exactly one of jobs (a file) and num_jobs (generated); {both} set"
        )
    if inputs.jobs is None and (inputs.job_rate is None) == (inputs.load is None):
        raise InvalidSpecError(
            "generated jobs require either load (requested GPU-time over capacity, such as 0.8) or"
            " job_rate (submissions per second)"
        )


def variants(compare: list[str], fields: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the changed fields of each compared schedule.

    Args:
        compare: Fields and their values, such as backfill=none,easy; all combinations of several.

    Raises:
        InvalidSpecError: Not a field and values, a field named twice, or too many combinations.

    Example:
        >>> from perfatlas.scenario.cluster_schedules.schedule_fields import variants
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
                f"compare = {repr_for_error(text)}: expected a field and its values, such as"
                " backfill=none,easy,conservative"
            )
        names = verb_fields("fleet schedule")
        if name not in names:
            raise InvalidSpecError(
                f"compare: unknown field {name!r}: expected a name such as backfill, placement or"
                f" nodes{did_you_mean(name, names)}"
            )
        if name in choices:
            raise InvalidSpecError(f"compare: {name} is used twice: combine its values")
        choices[name] = found
    rows = [
        dict(zip(choices, values, strict=True)) for values in itertools.product(*choices.values())
    ]
    if len(rows) > MAX_COMPARED_SCHEDULES:
        raise InvalidSpecError(
            f"compare gives {len(rows)} schedules: expected at most {MAX_COMPARED_SCHEDULES}"
        )
    for row in rows:
        parse_schedule({**fields, **row})
    return rows
