"""Remarks on a job on a fleet: its repairs, spares, snapshots, and its deadline."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from perfatlas.declarations import verb_fields
from perfatlas.quantities import DAY_S, InvalidSpecError, counted, significant
from perfatlas.reliability.fleet import model
from perfatlas.reliability.fleet.closed_form import (
    late_detection_remarks,
    snapshots_in_flight,
)
from perfatlas.reliability.fleet.simulator import simulate
from perfatlas.scenario.fields import unused_warnings
from perfatlas.scenario.interrupted_jobs.step_facts import units_of_another_size
from perfatlas.vocabulary.fields import Missing

if TYPE_CHECKING:
    from collections.abc import Callable

    from perfatlas.scenario.interrupted_jobs.job_fields import FleetGoodput
    from perfatlas.scenario.interrupted_jobs.job_on_fleet import FleetJob


def fleet_remarks(inputs: FleetGoodput, ready: FleetJob) -> list[str]:
    """Return remarks on a job, its fleet and its strategy, as sentences."""
    notes = [*_of_repairs(ready), *_overlaps(ready.strategy)]
    if inputs.system is not None:
        notes += filter(None, [units_of_another_size(inputs.system, ready.job.fleet)])
    notes += late_detection_remarks(ready.job, ready.strategy)
    maintenance = ready.strategy.maintenance
    if maintenance is not None and maintenance.every_s >= ready.job.horizon_s:
        notes.append(
            f"the first maintenance is due after {maintenance.every_s / DAY_S:g} d, but only"
            f" {ready.job.horizon_s / DAY_S:g} d are simulated: increase duration_s"
        )
    facts = _spare_facts(inputs, ready)
    unused = unused_warnings(inputs.values, verb_fields("goodput"), facts)
    return [*notes, *_of_spares(ready), *unused, *_idle_units(inputs, ready)]


def _spare_facts(inputs: FleetGoodput, ready: FleetJob) -> dict[str, Callable[[], Missing | None]]:
    """Return the conditions of fields on the spares of a job: None where met."""
    spares, response = ready.strategy.spares, inputs.response
    documented = response and model.recovery_policies()[response].spares

    def no_other_kind() -> Missing | None:
        if not spares.count:
            return None if inputs.what_if else Missing("there are no spares", "set spares")
        why = f"the spares of response = {response} are {documented}"
        return Missing(why, "") if documented else None

    def in_place() -> Missing | None:
        if not spares.reallocated:
            return None
        why = "allocates all nodes anew at each restart, lowest node numbers first"
        return Missing(f"response = {response} {why}", "")

    return {"spares of no other kind": no_other_kind, "spares that join in place": in_place}


def _idle_units(inputs: FleetGoodput, ready: FleetJob) -> list[str]:
    """Return a remark on units of a fleet that its job does not use."""
    idle = ready.job.fleet.units - ready.job.units - (ready.strategy.spares.count or 0)
    if inputs.fleet_units is None or idle <= 0:
        return []
    units = f"{counted(idle, 'unit')} of fleet_units = {inputs.fleet_units:,}"
    why = "are neither used nor spares of this job and have no effect: use more gpus or spares"
    return [f"{units} {why}"]


def _of_spares(ready: FleetJob) -> list[str]:
    """Return a remark on spares in the ratio of the fleet."""
    fleet, count = ready.job.fleet, ready.strategy.spares.count
    if not (ready.spares_are_default and fleet.spares and count):
        return []
    others = counted(fleet.units - fleet.spares, "other unit")
    ref = f" ({fleet.spares_ref})" if fleet.spares_ref else ""
    stated = f"the fleet has {fleet.spares:,} for {others}{ref}, scaled to this job"
    return [f"spares = {count:,} by default: {stated}; set spares to change this"]


def _all_units(units: int) -> str:
    return f"all {units:,} units" if units > 1 else "the only unit"


def _of_repairs(ready: FleetJob) -> list[str]:
    """Return remarks on zero repair times, or on waiting for all repairs."""
    fleet, strategy, units = ready.job.fleet, ready.strategy, ready.job.units
    times = {repair.name: model.mean_repair_s(repair) for repair in fleet.repairs}
    out = [c for c in fleet.causes if c.effect == "stops" and c.takes != "nothing"]
    if not out:
        return []
    if any(times[cause.repair or fleet.repairs[0].name] for cause in out):
        if strategy.spares.count != 0 or strategy.shrink is not None:
            return []
        left = fleet.units - units
        why = (
            f"the job is on {_all_units(units)} of the fleet and waits for every repair; use fewer"
            " gpus to leave spares"
        )
        if left:
            why = (
                f"the job waits for every repair, and {counted(left, 'unit')} of the fleet are"
                " idle; set spares to use them"
            )
        return [f"there are no spares: {why}"]
    returns = "the job never waits for units and spares have no effect"
    if fleet.repairs is not model.NO_REPAIR_TIMES:
        return [f"repairs take no time in this fleet: a failed unit returns at once, so {returns}"]
    note = (
        "repair times are not given: failed units are assumed to return at once, as if their"
        f" availability were 100%, so {returns}; add a [[repair]] table with repair times"
        " (docs/fleet.md)"
    )
    return [note]


def _overlaps(strategy: model.Strategy) -> list[str]:
    """Return remarks on snapshots due before the previous one is durable."""
    notes = []
    for level in strategy.levels:
        due_s = level.every * strategy.interval_s
        count = float(snapshots_in_flight(due_s, level.write_s, level.lag_s))
        if count > 1.0:
            notes.append(
                f"snapshots overlap: {level.name} is due after every {significant(due_s, 4)} s of"
                " work and"
                f" durable {significant(level.lag_s, 4)} s later, so up to {count:.0f} are in"
                " flight at once;"
                " memory and bandwidth are assumed to suffice; a longer checkpoint_interval_s"
                " needs less"
            )
    return notes


REPLICAS: Final = 4000  # a probability of 0.1% is seen by several of them


def check_date(inputs: FleetGoodput, ready: FleetJob) -> None:
    """Raise for an impossible deadline.

    Raises:
        InvalidSpecError: The deadline is before the work can be done or after the job is abandoned.
    """
    if inputs.finish_by_s is None or inputs.work_s is None:
        return
    if not inputs.work_s < inputs.finish_by_s < ready.job.horizon_s:
        raise InvalidSpecError(
            f"finish_by_s = {inputs.finish_by_s:g}: expected more than work_s = {inputs.work_s:g}"
            f" and less than {ready.job.horizon_s:g}, the horizon of the simulation"
        )


def deadline_probability(inputs: FleetGoodput, ready: FleetJob) -> dict[str, Any]:
    """Return the probability of missing the deadline, where one is set.

    Returns:
        late_probability with its 90% interval (Clopper-Pearson); nothing without finish_by_s.
    """
    if inputs.finish_by_s is None or inputs.work_s is None:
        return {}
    from scipy.stats import binomtest

    replicas = simulate(ready.job, ready.strategy, replicas=REPLICAS, seed=inputs.seed)
    late = int((replicas.column("finished") > model.ticks(inputs.finish_by_s)).sum())
    ends = binomtest(late, REPLICAS).proportion_ci(model.NINETY)
    return {
        "finish_by_s": inputs.finish_by_s,
        "late_probability": late / REPLICAS,
        "late_probability_low": float(ends.low),
        "late_probability_high": float(ends.high),
    }


def deadline_remarks(results: dict[str, Any]) -> list[str]:
    """Return remarks on the probability of missing the deadline."""
    if results.get("late_probability", 1.0) > 0.0:
        return []
    return [f"none of {REPLICAS:,} replicas missed finish_by_s: the event is rarer than they show"]
