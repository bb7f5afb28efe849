"""The fields of `fleet schedule`, checked; the table of fields declares them."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np

from perfatlas.declarations import verb_fields
from perfatlas.quantities import HOUR_S, InvalidSpecError, Rule, did_you_mean, repr_for_error
from perfatlas.scenario.fields import IDLE_POWER_RULE, InputFields
from perfatlas.vocabulary.fields import (
    ClusterPower,
    ScheduledFailures,
    SchedulingPolicy,
    SharedCluster,
    SitePowerFields,
    SubmittedJobs,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from perfatlas.scenario.fields import Columns

MAX_COMPARED_SCHEDULES: Final = 64


FAILURES: Final = ("node_mtbf_s", "fleet", "failures")


# the groups from the last to the first: Python collects annotations from the last base on
class ScheduleFields(
    InputFields,
    SitePowerFields,
    ClusterPower,
    ScheduledFailures,
    SchedulingPolicy,
    SharedCluster,
    SubmittedJobs,
):
    """Jobs, the cluster they share, the rules they are served by, what fails and what it draws."""

    @property
    def watches_site(self) -> bool:
        """Whether the power of the site is asked for, or limited."""
        return (self.trace_resolution_s, self.site_cap_w, self.site_profile) != (None, None, None)

    rules: ClassVar[Sequence[Rule[Columns]]] = (
        Rule(
            lambda c: (
                (c.is_set("jobs") == c.is_set("num_jobs"))
                & (c.is_set("jobs") | ~(c.is_set("load") | c.is_set("job_rate")))
            ),
            lambda c, row: (
                "expected exactly one of jobs (a file) and num_jobs (generated);"
                f" {'both' if c.is_set('jobs')[row] else 'neither'} set"
            ),
        ),
        Rule(
            lambda c: ~c.is_set("jobs") & (c.is_set("job_rate") == c.is_set("load")),
            "generated jobs require either load (requested GPU-time over capacity, such as 0.8) or"
            " job_rate (submissions per second)",
        ),
        Rule(
            lambda c: ~c.is_set("nodes") & ~c.is_set("fleet"),
            "nodes is required: the number of nodes of the cluster",
        ),
        Rule(
            lambda c: np.sum([c.is_set(name) for name in FAILURES], axis=0) > 1,
            lambda c, row: (
                f"{' and '.join(name for name in FAILURES if c.is_set(name)[row])} are mutually"
                " exclusive"
            ),
        ),
        Rule(
            lambda c: c.is_set("node_mtbf_s") & ~c.is_set("repair_s"),
            "node_mtbf_s requires repair_s",
        ),
        Rule(
            lambda c: c.is_set("power_w") & ~c.is_set("idle_power_w"),
            "power_w requires idle_power_w, the power of a GPU without a job, such as 80",
        ),
        IDLE_POWER_RULE,
        Rule(
            lambda c: (
                (c.is_set("site_cap_w") | c.is_set("site_profile")) & c.equals("response", "drain")
            ),
            "response = drain lets jobs end above a cap of the site",
            "set another response, such as slurm_requeue",
        ),
        Rule(
            lambda c: (
                c.is_set("site_profile")
                & c.is_set("trace_resolution_s")
                & (
                    np.abs(np.remainder(HOUR_S / c.numbers("trace_resolution_s") + 0.5, 1.0) - 0.5)
                    > 1e-9
                )
            ),
            "trace_resolution_s = {trace_resolution_s:g} does not divide the hours of site_profile",
            "set 1h, or a part of it such as 15min",
        ),
        Rule(
            lambda c: c.numbers("pue_fixed_share") + c.numbers("pue_square_share") > 1.0,
            "pue_fixed_share = {pue_fixed_share:g} and pue_square_share = {pue_square_share:g} add"
            " to more than 1",
            "lower one of them: they are shares of the overhead at full load",
        ),
        Rule(
            lambda c: (
                ~c.is_set("jobs")
                & ~c.is_set("num_jobs")
                & (c.is_set("trace_resolution_s") | c.is_set("site_profile"))
            ),
            "power over time, and caps by hour, need a schedule with an end",
            "set num_jobs",
        ),
        Rule(
            lambda c: ~c.is_set("jobs") & ~c.is_set("num_jobs") & c.is_set("until_s"),
            "until_s = {until_s:g}: without num_jobs the precision of the mean wait sets the length"
            " of the stream",
            "set num_jobs too, or leave until_s out",
        ),
    )


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
    return ScheduleFields.read(fields).checked()


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
