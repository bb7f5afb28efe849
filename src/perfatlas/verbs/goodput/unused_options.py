"""Remarks on valid options of goodput without effect in a scenario."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from perfatlas.quantities import counted, two_digits
from perfatlas.reliability.fleet.model import recovery_policies
from perfatlas.verbs.goodput.question import SimpleGoodput

if TYPE_CHECKING:
    from perfatlas.reliability.fleet.simulator import Outcome
    from perfatlas.verbs.goodput.fleet_job import FleetJob
    from perfatlas.verbs.goodput.question import FleetGoodput, SpareNodes, Stragglers


def unused_simple_options(inputs: SimpleGoodput) -> list[str]:
    """Return remarks on simulation options where a closed form is used, as sentences.

    Args:
        inputs: The fields, for a closed form.
    """
    given = {name: getattr(inputs, name) for name in ("half_width", "seed", "num_seeds")}
    return [
        f"{name} = {value:g} has no effect: it applies only to simulation, and a closed form is"
        " used"
        for name, value in given.items()
        if value != _default(name)
    ]


def _default(name: str) -> Any:  # noqa: ANN401 - of any field
    return SimpleGoodput.model_fields[name].default


def unused_fleet_options(inputs: FleetGoodput, ready: FleetJob) -> list[str]:
    """Return remarks on valid options without effect for this job, as sentences.

    Args:
        inputs: The fields.
        ready: The job.
    """
    notes = []
    spares = ready.strategy.spares.count or 0
    if not spares and inputs.spare_kind != "cold" and not inputs.what_if:
        notes.append(f"spare_kind = {inputs.spare_kind} has no effect: there are no spares")
    documented = inputs.response and recovery_policies()[inputs.response].spares
    if spares and documented and "spare_kind" in inputs.model_fields_set:
        notes.append(
            f"spare_kind = {inputs.spare_kind} has no effect: the spares of response ="
            f" {inputs.response} are {documented}"
        )
    elif spares and "spare_kind" in inputs.model_fields_set and inputs.spare_kind != "cold":
        notes.append(
            f"spare_kind = {inputs.spare_kind}: warm and hot spares differ only in spare_start_s;"
            " both are powered on and can fail"
        )
    if "spare_order" in inputs.model_fields_set and ready.strategy.spares.reallocated:
        notes.append(
            f"spare_order = {inputs.spare_order} has no effect: response = {inputs.response}"
            " allocates all nodes anew at each restart, lowest node numbers first"
        )
    idle = ready.job.fleet.units - ready.job.units - spares
    if inputs.fleet_units is not None and idle > 0:
        notes.append(
            f"{counted(idle, 'unit')} of fleet_units = {inputs.fleet_units:,} are neither used nor"
            " spares of this job and have no effect: use more gpus or spares"
        )
    return notes


def unused_in_run(inputs: FleetGoodput, ready: FleetJob, outcome: Outcome) -> list[str]:
    """Return remarks on options that the simulated replicas did not need, as sentences.

    Args:
        inputs: The fields.
        ready: The job.
        outcome: The replicas.
    """
    notes = []
    if "spare_order" in inputs.model_fields_set and _in_any_order(inputs, ready, outcome):
        notes.append(
            f"spare_order = {inputs.spare_order} has no effect: with spares in random order,"
            " every simulated replica takes the same course"
        )
    if inputs.fewest_gpus is not None and not outcome.column("degraded").any():
        notes.append(
            f"fewest_gpus = {inputs.fewest_gpus:,} has no effect: the job never ran with fewer GPUs"
        )
    return notes


def _in_any_order(inputs: FleetGoodput, ready: FleetJob, outcome: Outcome) -> bool:
    """Return whether the replicas are the same with spares in the default order."""
    from perfatlas.reliability.fleet.model import Spares
    from perfatlas.reliability.fleet.simulator import simulate

    spares = replace(ready.strategy.spares, order=Spares().order)
    if spares == ready.strategy.spares:
        return False  # the default, stated
    usual, count = replace(ready.strategy, spares=spares), outcome.ticks_RF.shape[0]
    other = simulate(ready.job, usual, replicas=count, seed=inputs.seed)
    return bool((outcome.ticks_RF == other.ticks_RF).all())


def half_width_text(half_width: float, outcome: Outcome) -> str:
    """Return how narrow the interval of the mean is, and how narrow it was inputs to be.

    Args:
        half_width: Half-width that was asked for, relative to the mean.
        outcome: The replicas.
    """
    met = outcome.half_width / outcome.goodput if outcome.goodput else 0.0
    replicas = counted(outcome.ticks_RF.shape[0], "replica")
    return f"half_width = {half_width:g} was asked for, {two_digits(met)} is met with {replicas}"


def unused_spare_options(inputs: SpareNodes, spares: int) -> list[str]:
    """Return remarks on options without effect for nodes and spares, as sentences.

    Args:
        inputs: The fields.
        spares: Number of spares, set or found.
    """
    if inputs.warm and not spares:
        return ["warm has no effect: there are no spares"]
    return []


def unused_straggler_options(inputs: Stragglers) -> list[str]:
    """Return remarks on options without effect for stragglers, as sentences.

    Args:
        inputs: The fields.
    """
    if inputs.gpus == 1:
        return ["gpus = 1 has no synchronisation: set gpus, the number of GPUs that synchronise"]
    if inputs.synchronisations > 1 and not inputs.transient_cv:
        idle = (
            f"synchronisations = {inputs.synchronisations:,} has no effect: the slowdown by"
            " persistently slow GPUs does not depend on the number of synchronisations, only that"
            " by transient_cv does"
        )
        return [idle]
    return []
