"""What a reader must know of a job on a fleet beside its numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfatlas.fleet.closed_form import late_finds, snapshots_in_flight
from perfatlas.fleet.model import mean_repair_s
from perfatlas.quantities import counted
from perfatlas.verbs.goodput.question import DAY_S
from perfatlas.verbs.goodput.unused_options import idle_fleet

if TYPE_CHECKING:
    from perfatlas.fleet.model import Strategy
    from perfatlas.verbs.goodput.fleet_job import FleetJob
    from perfatlas.verbs.goodput.question import FleetGoodput

MANY_SPARES: Final = 0.1  # of the units of the job


def fleet_remarks(asked: FleetGoodput, ready: FleetJob) -> list[str]:
    """Return what a reader must know of a job, its fleet and its strategy, in sentences.

    Args:
        asked: The fields.
        ready: The job.
    """
    said = [*_of_repairs(ready), *_overlaps(ready.strategy)]
    said += late_finds(ready.job, ready.strategy)
    upkeep = ready.strategy.maintenance
    if upkeep is not None and upkeep.every_s >= ready.job.horizon_s:
        said.append(
            f"the first maintenance is due after {upkeep.every_s / DAY_S:g} d, and the job is"
            f" watched for {ready.job.horizon_s / DAY_S:g} d: duration_s says for how long"
        )
    spares = ready.strategy.spares.count or 0
    all_the_rest = asked.spares is None and ready.job.units + spares == ready.job.fleet.units
    if all_the_rest and spares > MANY_SPARES * ready.job.units:
        said.append(
            f"the rest of the fleet, {counted(spares, 'unit')}, stands by for this job and is"
            " counted as held; spares says how many do"
        )
    return [*said, *idle_fleet(asked, ready)]


def _all_units(units: int) -> str:
    return f"all {units:,} units" if units > 1 else "the only unit"


def _of_repairs(ready: FleetJob) -> list[str]:
    """Return that what fails is back at once, or that the job waits for all that fails."""
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
            f"the job is on {_all_units(units)} of the fleet and waits for every repair; fewer gpus"
            " leave spares"
        )
        if left:
            why = (
                f"the job waits for every repair, and {counted(left, 'unit')} of the fleet are"
                " idle; spares says how many stand by"
            )
        return [f"no unit stands by: {why}"]
    said = (
        "REPAIRS TAKE NO TIME in this fleet: a unit that fails is back at once, so the job never"
        " waits, availability is 100 % and spares change nothing; a [[repair]] table says how long"
        " units are out (docs/fleet.md)"
    )
    return [said]


def _overlaps(strategy: Strategy) -> list[str]:
    """Return which snapshots are due before the previous one is durable."""
    said = []
    for level in strategy.levels:
        due_s = level.every * strategy.interval_s
        count = float(snapshots_in_flight(due_s, level.write_s, level.lag_s))
        if count > 1.0:
            said.append(
                f"snapshots overlap: {level.name} is due after every {due_s:.4g} s of work and"
                f" durable {level.lag_s:.4g} s later, so up to {count:.0f} are in flight at once;"
                " the answer takes memory and bandwidth for all of them, a longer"
                " checkpoint_interval_s needs less"
            )
    return said
