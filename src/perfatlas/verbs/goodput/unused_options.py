"""Options of goodput that are legitimate and change nothing in this question: remarks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from perfatlas.quantities import counted
from perfatlas.verbs.goodput.question import SimpleGoodput

if TYPE_CHECKING:
    from perfatlas.verbs.goodput.fleet_job import FleetJob
    from perfatlas.verbs.goodput.question import FleetGoodput, SpareNodes, Stragglers


def idle_simple(asked: SimpleGoodput) -> list[str]:
    """Return what is asked of a simulation where a closed form answers, in sentences.

    Args:
        asked: The fields, of a question that a closed form answers.
    """
    given = {"half_width": asked.half_width, "seed": asked.seed}
    return [
        f"{name} = {value:g} changes nothing here: it is of a simulation, and a closed form answers"
        for name, value in given.items()
        if value != _default(name)
    ]


def _default(name: str) -> Any:  # noqa: ANN401 - of any field
    return SimpleGoodput.model_fields[name].default


def idle_fleet(asked: FleetGoodput, ready: FleetJob) -> list[str]:
    """Return what is asked, is legitimate and changes nothing for this job, in sentences.

    Args:
        asked: The fields.
        ready: The job.
    """
    said = []
    spares = ready.strategy.spares.count or 0
    if not spares and asked.spare_kind != "cold" and not asked.what_if:
        said.append(f"spare_kind = {asked.spare_kind} changes nothing here: no spare stands by")
    idle = ready.job.fleet.units - ready.job.units - spares
    if asked.fleet_units is not None and idle > 0:
        said.append(
            f"{counted(idle, 'unit')} of fleet_units = {asked.fleet_units:,} neither work nor stand"
            " by for this job and change nothing: more gpus or more spares use them"
        )
    return said


def idle_spares(asked: SpareNodes, spares: int) -> list[str]:
    """Return what changes nothing for nodes and spares, in sentences.

    Args:
        asked: The fields.
        spares: Given or found.
    """
    if asked.warm and not spares:
        return ["warm changes nothing here: no spare stands by that could fail"]
    return []


def idle_stragglers(asked: Stragglers) -> list[str]:
    """Return what changes nothing for GPUs that wait for the slowest, in sentences.

    Args:
        asked: The fields.
    """
    if asked.gpus == 1:
        return ["1 GPU waits for no other: give gpus, how many wait for one another"]
    if asked.synchronisations > 1 and not asked.transient_cv:
        idle = (
            f"synchronisations = {asked.synchronisations:,} changes nothing here: what a GPU that"
            " is always slow loses does not depend on how often it is waited for; transient_cv"
            " does"
        )
        return [idle]
    return []
