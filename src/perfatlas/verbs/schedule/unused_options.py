"""Options of a schedule without effect for its jobs: errors and remarks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.declarations import verb_fields
from perfatlas.quantities import InvalidSpecError
from perfatlas.scenario.fields import refuse_unused
from perfatlas.verbs.schedule.cluster import unused_system
from perfatlas.vocabulary.fields import value_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from perfatlas.reliability.jobs.model import Jobs
    from perfatlas.reliability.jobs.run import ScheduleOutcome
    from perfatlas.verbs.schedule.question import Schedule

# options that are read only after something happened
_AFTER_LOSS: Final = (
    *("response", "detection_s", "restart_s", "checkpoint_interval_s", "fewest_share"),
    *("keeps_place", "max_restarts", "patience_s"),
)
_READ_AFTER: Final[dict[str, tuple[str, ...]]] = {
    "no job waits for nodes": ("backfill", "depth", "half_life_s", "shares", "required"),
    "no job is backfilled": ("backfill", "depth"),
    "no node fails in the simulated time": ("repair_s", "repair_power_w", *_AFTER_LOSS),
    "no job loses a node": _AFTER_LOSS,
    "no job starts again": ("restart_s", "keeps_place"),
}
FIELD_COLUMNS: Final = (
    # option, column of `Jobs`, column of the table
    ("limit_factor", "limit_J", "limit_s"),
    ("restart_s", "restart_J", "restart_s"),
    ("checkpoint_interval_s", "checkpoint_J", "checkpoint_interval_s"),
    ("fewest_share", "fewest_J", "fewest_nodes"),
)


def check_source_columns(ones: Sequence[tuple[Schedule, Jobs]]) -> None:
    """Raise for defaults of columns that the source has.

    This is not a field condition, as the jobs must be read first.

    Args:
        ones: Each schedule, and its jobs as in their source.

    Raises:
        InvalidSpecError: All jobs define the option, or checkpoints have no effect.
    """
    fields = verb_fields("fleet schedule")
    for name, column, seconds_field in FIELD_COLUMNS:
        needs = fields[name].row.needs
        given = [one for one, _ in ones if getattr(one, name) not in (fields[name].default, 0.0)]
        if not given:
            continue
        reading = [jobs for one, jobs in ones if needs and not needs.missing(one.values, {})]
        if reading and all(getattr(jobs, column) is not None for jobs in reading):
            raise InvalidSpecError(
                f"{name} = {value_text(getattr(given[0], name))} has no effect here:"
                f" {given[0].jobs} has a column {seconds_field}; omit {name}"
            )
    if any(_killed(jobs) for _, jobs in ones):
        return
    inputs = [{**one.values, "jobs": None} for one, _ in ones]  # if time limits end no job
    checkpoints = {name: fields[name] for name in ("checkpoint_interval_s",)}
    refuse_unused(inputs[0], checkpoints, others=inputs[1:])


def draws(one: Schedule) -> bool:
    """Return whether a schedule has random draws, so that the seed has an effect.

    Args:
        one: The schedule.
    """
    needs = verb_fields("fleet schedule")["seed"].row.needs
    return needs is None or not needs.missing(one.values, {})


def _killed(jobs: Jobs) -> bool:
    """Return whether a time limit ends a job."""
    return jobs.limit_J is not None and bool((jobs.limit_J < np.asarray(jobs.run_J)).any())


def no_effect_remarks(ones: Sequence[tuple[Schedule, Jobs]]) -> list[str]:
    """Return what is asked for, is legitimate and changes nothing with these jobs, in sentences.

    Args:
        ones: Each schedule and its jobs.
    """
    notes: dict[str, None] = {}
    for one, jobs in ones:
        if one.order == "priority" and _one_value(jobs.priority_J):
            also = "" if one.preemption == "none" else f", nor does preemption = {one.preemption}"
            notes[
                f"order = priority has no effect{also}: all jobs have the same priority (column"
                " priority of a job table)"
            ] = None
        if one.order == "fair_share" and _one_value(jobs.user_J):
            notes["order = fair_share has no effect: all jobs belong to the same user"] = None
    notes |= dict.fromkeys(filter(None, (unused_system(one) for one, _ in ones)))
    if all(one.together == "anywhere" for one, _ in ones):
        for name in ("nodes_per_domain", "nodes_per_leaf"):
            if any(getattr(one, name) is not None for one, _ in ones):
                notes[
                    f"{name} does not affect placement with together = anywhere: it only"
                    " determines the number of domains per job"
                ] = None
    return list(notes)


def unused_in_run(asked: Schedule, outcome: ScheduleOutcome) -> list[str]:
    """Return the options that are set and did not matter, as nothing happened that reads them.

    Args:
        asked: The fields.
        outcome: The schedule.
    """
    fields = verb_fields("fleet schedule")
    given = [
        name for name in asked.model_fields_set if getattr(asked, name) != fields[name].default
    ]
    again = any(outcome.column(name).any() for name in ("restarts", "preempted"))
    lost = again or bool(outcome.column("lost_work").any())
    lost |= "node_fail" in outcome.states
    waited = outcome.waited_s_J.any() or outcome.never_started_J.any()
    happened = {
        "no job waits for nodes": bool(waited),
        "no job is backfilled": bool(outcome.sim.state_1["backfilled"][0]),
        "no node fails in the simulated time": bool(outcome.sim.state_1["failed"][0]),
        "no job loses a node": lost,
        "no job starts again": again,
    }
    said = []
    for why, names in _READ_AFTER.items():
        without = [name for name in fields if name in given and name in names]
        given = [name for name in given if happened[why] or name not in without]
        if without and not happened[why]:
            listed = ", ".join(f"{name} = {value_text(getattr(asked, name))}" for name in without)
            said.append(f"without effect on this schedule: {listed}; {why}")
    return said


def _one_value(value_J: NDArray[np.int64] | None) -> bool:
    return value_J is None or np.unique(value_J).size == 1
