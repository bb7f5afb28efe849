"""Remarks on a job on a fleet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.quantities import counted, significant
from perfatlas.reliability.fleet.closed_form import late_detection_remarks, snapshots_in_flight
from perfatlas.reliability.fleet.model import NO_REPAIR_TIMES, mean_repair_s
from perfatlas.verbs.goodput.question import DAY_S
from perfatlas.verbs.goodput.topology import units_of_another_size
from perfatlas.verbs.goodput.unused_options import unused_fleet_options

if TYPE_CHECKING:
    from perfatlas.reliability.fleet.model import Strategy
    from perfatlas.verbs.goodput.fleet_job import FleetJob
    from perfatlas.verbs.goodput.question import FleetGoodput


def fleet_remarks(inputs: FleetGoodput, ready: FleetJob) -> list[str]:
    """Return remarks on a job, its fleet and its strategy, as sentences.

    Args:
        inputs: The fields.
        ready: The job.
    """
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
    return [*notes, *_of_spares(ready), *unused_fleet_options(inputs, ready)]


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
    times = {repair.name: mean_repair_s(repair) for repair in fleet.repairs}
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
    if fleet.repairs is not NO_REPAIR_TIMES:
        return [f"repairs take no time in this fleet: a failed unit returns at once, so {returns}"]
    note = (
        "repair times are not given: failed units are assumed to return at once, as if their"
        f" availability were 100%, so {returns}; add a [[repair]] table with repair times"
        " (docs/fleet.md)"
    )
    return [note]


def _overlaps(strategy: Strategy) -> list[str]:
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
