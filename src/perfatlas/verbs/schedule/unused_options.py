"""Options of a schedule that its jobs leave without effect: refused, or remarked on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.quantities import InvalidSpecError
from perfatlas.scenario.fields import refuse_unused
from perfatlas.vocabulary.fields import value_text, verb_fields

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from perfatlas.jobs.model import Jobs
    from perfatlas.verbs.schedule.question import Schedule

TOLD: Final = (
    # option, column of `Jobs`, column of the table
    ("limit_factor", "limit_J", "limit_s"),
    ("restart_s", "restart_J", "restart_s"),
    ("checkpoint_interval_s", "checkpoint_J", "checkpoint_interval_s"),
    ("fewest_share", "fewest_J", "fewest_nodes"),
)


def refuse_told(ones: Sequence[tuple[Schedule, Jobs]]) -> None:
    """Refuse options for what a source does not tell, where it tells.

    No condition of a field: the jobs of each schedule have to be read first.

    Args:
        ones: Each schedule, and its jobs as their source tells them.

    Raises:
        InvalidSpecError: All jobs tell what an option says, or no checkpoint is of use.
    """
    fields = verb_fields("fleet schedule")
    for name, column, told in TOLD:
        needs = fields[name].row.needs
        given = [one for one, _ in ones if getattr(one, name) not in (fields[name].default, 0.0)]
        reading = [jobs for one, jobs in ones if needs and not needs.missing(dict(one), {})]
        if given and reading and all(getattr(jobs, column) is not None for jobs in reading):
            raise InvalidSpecError(
                f"{name} = {value_text(getattr(given[0], name))} has no effect here:"
                f" {given[0].jobs} has a column {told}; leave {name} out"
            )
    if any(_killed(jobs) for _, jobs in ones):
        return
    asked = [{**dict(one), "jobs": None} for one, _ in ones]  # whose limits kill no job
    checkpoints = {name: fields[name] for name in ("checkpoint_interval_s",)}
    refuse_unused(asked[0], checkpoints, others=asked[1:])


def draws(one: Schedule) -> bool:
    """Return whether anything of a schedule is drawn at random, so that the seed has an effect.

    Args:
        one: The schedule.
    """
    needs = verb_fields("fleet schedule")["seed"].row.needs
    return needs is None or not needs.missing(dict(one), {})


def _killed(jobs: Jobs) -> bool:
    """Return whether a time limit ends a job."""
    return jobs.limit_J is not None and bool((jobs.limit_J < np.asarray(jobs.run_J)).any())


def no_effect_remarks(ones: Sequence[tuple[Schedule, Jobs]]) -> list[str]:
    """Return what is asked for, is legitimate and changes nothing with these jobs, in sentences.

    Args:
        ones: Each schedule and its jobs.
    """
    said: dict[str, None] = {}
    for one, jobs in ones:
        if one.order == "priority" and _one_value(jobs.priority_J):
            also = "" if one.preemption == "none" else f", nor does preemption = {one.preemption}"
            said[
                f"order = priority changes nothing here{also}: no job has a higher priority than"
                " another (column priority of a table of one's own)"
            ] = None
        if one.order == "fair_share" and _one_value(jobs.user_J):
            said["order = fair_share changes nothing here: all jobs are of one user"] = None
    if all(one.together == "anywhere" for one, _ in ones):
        for name in ("nodes_per_domain", "nodes_per_leaf"):
            if any(getattr(one, name) is not None for one, _ in ones):
                said[
                    f"{name} places no job with together = anywhere: it only counts, job by job,"
                    " over how many domains each is spread (--per-job, domains)"
                ] = None
    return list(said)


def _one_value(value_J: NDArray[np.int64] | None) -> bool:
    return value_J is None or np.unique(value_J).size == 1
