"""Remarks on valid options of goodput without effect in a scenario."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from perfatlas.quantities import counted
from perfatlas.verbs.goodput.question import SimpleGoodput

if TYPE_CHECKING:
    from perfatlas.verbs.goodput.fleet_job import FleetJob
    from perfatlas.verbs.goodput.question import FleetGoodput, SpareNodes, Stragglers


def unused_simple_options(asked: SimpleGoodput) -> list[str]:
    """Return remarks on simulation options where a closed form is used, as sentences.

    Args:
        asked: The fields, for a closed form.
    """
    given = {"half_width": asked.half_width, "seed": asked.seed}
    return [
        f"{name} = {value:g} has no effect: it applies only to simulation, and a closed form is"
        " used"
        for name, value in given.items()
        if value != _default(name)
    ]


def _default(name: str) -> Any:  # noqa: ANN401 - of any field
    return SimpleGoodput.model_fields[name].default


def unused_fleet_options(asked: FleetGoodput, ready: FleetJob) -> list[str]:
    """Return remarks on valid options without effect for this job, as sentences.

    Args:
        asked: The fields.
        ready: The job.
    """
    said = []
    spares = ready.strategy.spares.count or 0
    if not spares and asked.spare_kind != "cold" and not asked.what_if:
        said.append(f"spare_kind = {asked.spare_kind} has no effect: there are no spares")
    idle = ready.job.fleet.units - ready.job.units - spares
    if asked.fleet_units is not None and idle > 0:
        said.append(
            f"{counted(idle, 'unit')} of fleet_units = {asked.fleet_units:,} are neither used nor"
            " spares of this job and have no effect: use more gpus or spares"
        )
    return said


def unused_spare_options(asked: SpareNodes, spares: int) -> list[str]:
    """Return remarks on options without effect for nodes and spares, as sentences.

    Args:
        asked: The fields.
        spares: Number of spares, set or found.
    """
    if asked.warm and not spares:
        return ["warm has no effect: there are no spares"]
    return []


def unused_straggler_options(asked: Stragglers) -> list[str]:
    """Return remarks on options without effect for stragglers, as sentences.

    Args:
        asked: The fields.
    """
    if asked.gpus == 1:
        return ["gpus = 1 has no synchronisation: set gpus, the number of GPUs that synchronise"]
    if asked.synchronisations > 1 and not asked.transient_cv:
        idle = (
            f"synchronisations = {asked.synchronisations:,} has no effect: the slowdown by"
            " persistently slow GPUs does not depend on the number of synchronisations, only that"
            " by transient_cv does"
        )
        return [idle]
    return []
