"""Single changes to a job and its fleet, ranked by gained GPU-hours.

Each changed job has the same failures as the job itself: the gain is a mean of paired differences.

Shape legend: R replicas.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from perfatlas.quantities import significant
from perfatlas.reliability.fleet import model
from perfatlas.reliability.fleet.closed_form import kept_for
from perfatlas.reliability.fleet.laws import mean_s, scaled
from perfatlas.reliability.fleet.simulator import chosen_interval_s, simulate
from perfatlas.scenario.interrupted_jobs.job_on_fleet import whole_units
from perfatlas.vocabulary.metrics import gpu_hours

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perfatlas.reliability.fleet.laws import Law
    from perfatlas.reliability.fleet.simulator import JobOutcome
    from perfatlas.scenario.interrupted_jobs.job_fields import FleetGoodput
    from perfatlas.scenario.interrupted_jobs.job_on_fleet import FleetJob

_SAME_INTERVAL: Final = "the same work between checkpoints"


class _Change(NamedTuple):
    """A change and the changed job."""

    name: str  # Name shown in tables
    fleet: model.Fleet
    strategy: model.Strategy
    gpus_added: int = 0  # Additional reserved GPUs
    assumes: str = ""  # Further assumptions, "" for none


def unevaluated_changes(ready: FleetJob) -> list[str]:
    """Return the changes that are not evaluated because their saving is unknown."""
    spares = ready.strategy.spares
    if spares.kind == "hot" or mean_s(spares.start):
        return []
    why = (
        f"hot spares are not evaluated: starting {spares.kind} spares takes no time here; set"
        " spare_start_s"
    )
    return [why]


class Gains(NamedTuple):
    """What single changes gain."""

    # Rows of name, gained_gpu_hours, gained_gpu_hours_half_width (of its 90% interval),
    # added_gpu_hours (of additional spares), goodput, gained_share, assumes (assumptions of the
    # change, "" for none); with a price also gained_usd and added_usd. Largest gain first.
    rows: list[dict[str, Any]]
    without_effect: list[str]  # Names of changes that leave every replica as it is

    def text(self) -> list[str]:
        """Return the changes without effect, as text."""
        if not self.without_effect:
            return []
        return [f"no effect on this job in any replica: {', '.join(self.without_effect)}"]


def single_changes(inputs: FleetGoodput, ready: FleetJob, before: JobOutcome) -> Gains:
    """Return the gains of single changes, largest first.

    Args:
        before: Replicas of the unchanged job.

    Raises:
        InvalidSpecError: A changed number is outside its range.
    """
    hours = gpu_hours(ready.gpus * ready.job.horizon_s)
    rows, idle = [], []
    for change in _changes(inputs, ready):
        job = replace(ready.job, fleet=change.fleet)
        replicas = before.ticks_RF.shape[0]
        after = simulate(job, change.strategy, replicas=replicas, seed=inputs.seed)
        found = after.productive_gain(before, gpu_hours(ready.gpus))
        if found is None:
            idle.append(change.name)
            continue
        gained, half_width = found
        added_s = change.gpus_added * ready.job.horizon_s
        rows.append(
            {
                "name": change.name,
                "gained_gpu_hours": gained,
                "gained_gpu_hours_half_width": half_width,
                "added_gpu_hours": gpu_hours(added_s),
                "goodput": after.goodput,
                "gained_share": gained / hours,
                "assumes": change.assumes,
                **_money(inputs, gained, added_s),
            }
        )
    return Gains(sorted(rows, key=lambda row: -row["gained_gpu_hours"]), idle)


def _money(inputs: FleetGoodput, gained: float, added_s: float) -> dict[str, float]:
    """Return what gained and added GPU-hours cost [USD], where a price is set."""
    price = inputs.usd_per_gpu_hour
    if price is None:
        return {}
    return {"gained_usd": gained * price, "added_usd": gpu_hours(added_s) * price}


def _changes(inputs: FleetGoodput, ready: FleetJob) -> Iterator[_Change]:
    fleet, strategy = ready.job.fleet, ready.strategy
    yield from _of_checkpoints(inputs, ready)
    yield from _of_silent_errors(inputs, ready)
    if any(_time(phase) for restart in strategy.restarts for phase in restart.phases.values()):
        restarts = tuple(_quicker(restart) for restart in strategy.restarts)
        quicker = replace(strategy, restarts=restarts)
        yield _Change("restart in half the time", fleet, quicker, assumes="every phase")
    if any(mean_s(cause.detection) for cause in fleet.causes):
        causes = tuple(
            replace(cause, detection=scaled(cause.detection, 0.5)) for cause in fleet.causes
        )
        sooner = replace(fleet, causes=causes)
        yield _Change("detection in half the time", sooner, strategy, assumes="for every cause")
    assumes = f"half as many parts of every cause; {_SAME_INTERVAL}"
    yield _Change(
        "half as many failures", model.scaled_rates(fleet, 0.5), strategy, assumes=assumes
    )
    yield from _of_lemons(fleet, strategy)
    yield from _of_spares(inputs, ready)
    for other in ready.others:
        more = (other.spares.count or 0) - (strategy.spares.count or 0)
        units = max(fleet.units, ready.job.units + (other.spares.count or 0))
        room = replace(fleet, units=units)
        added = more * fleet.gpus_per_unit
        assumes = "with its interval and spares"
        yield _Change(f"strategy {other.name!r} instead", room, other, added, assumes)


def _of_checkpoints(inputs: FleetGoodput, ready: FleetJob) -> Iterator[_Change]:
    """Yield changes to checkpoints.

    An optimal interval is recomputed for faster writes. Background writes have no cost and no
    optimum, so that the interval is unchanged.
    """
    fleet, strategy = ready.job.fleet, ready.strategy
    if any(level.write_s for level in strategy.levels):
        levels = tuple(replace(level, write_s=level.write_s / 2.0) for level in strategy.levels)
        faster, between = _at_its_best(inputs, ready, replace(strategy, levels=levels))
        assumes = f"at every level; {between}"
        yield _Change("checkpoints written twice as fast", fleet, faster, assumes=assumes)
        if not any(level.lag_s for level in strategy.levels):
            behind = tuple(
                replace(level, write_s=0.0, lag_s=level.write_s) for level in strategy.levels
            )
            later = replace(strategy, levels=behind)
            assumes = (
                "no stall and no slower steps; a checkpoint is durable after the unchanged write"
                f" time; {_SAME_INTERVAL}"
            )
            yield _Change("checkpoints written in the background", fleet, later, assumes=assumes)
    if ready.interval_is_given and ready.optimal_interval_s:
        best = replace(strategy, interval_s=ready.optimal_interval_s)
        name = (
            "best interval found" if model.not_memoryless(fleet, strategy) else "optimal interval"
        )
        assumes = f"{significant(best.interval_s, 4)} s of work between"
        yield _Change(f"checkpoints at the {name}", fleet, best, assumes=assumes)


def _at_its_best(
    inputs: FleetGoodput, ready: FleetJob, changed: model.Strategy
) -> tuple[model.Strategy, str]:
    """Return a changed strategy at its optimal interval, and a note on the interval.

    A set interval is unchanged, as is one without a known optimum.
    """
    if ready.interval_is_given:
        return changed, _SAME_INTERVAL
    best_s, _ = chosen_interval_s(ready.job, changed, inputs.seed)
    if best_s is None:
        return changed, _SAME_INTERVAL
    what = "the best found" if model.not_memoryless(ready.job.fleet, changed) else "the optimum"
    return replace(
        changed, interval_s=best_s
    ), f"{significant(best_s, 4)} s of work between, {what} then"


def _of_silent_errors(inputs: FleetGoodput, ready: FleetJob) -> Iterator[_Change]:
    """Yield remedies for silent errors without verification.

    The verification time is set, or taken from another strategy: without either it is not
    evaluated.
    """
    fleet, strategy = ready.job.fleet, ready.strategy
    if strategy.verify_s or all(cause.effect != "corrupts" for cause in fleet.causes):
        return
    verify_s, whose = inputs.verify_s, ""
    for other in ready.others:
        if verify_s is None and other.verify_s:
            verify_s, whose = other.verify_s, f", as in strategy {other.name!r}"
    if verify_s is not None:
        verified, between = _at_its_best(inputs, ready, replace(strategy, verify_s=verify_s))
        assumes = (
            f"{verify_s:g} s before each{whose}; all silent errors are found there, and the job"
            f" rolls back to the previous checkpoint; {between}"
        )
        yield _Change("every checkpoint verified", fleet, verified, assumes=assumes)
    if kept := kept_for(ready.job, strategy):
        more = replace(strategy, retained=kept)
        assumes = (
            f"instead of {strategy.retained:,}, with storage for them: one job in a hundred has a"
            f" silent error that outlives them all; {_SAME_INTERVAL}"
        )
        yield _Change(f"{kept:,} checkpoints kept", fleet, more, assumes=assumes)


def _of_lemons(fleet: model.Fleet, strategy: model.Strategy) -> Iterator[_Change]:
    """Yield the retirement of lemons."""
    if all(cause.lemons is None for cause in fleet.causes):
        return
    lemons = [cause.lemons for cause in fleet.causes if cause.lemons is not None]
    causes = tuple(replace(cause, lemons=None) for cause in fleet.causes)
    shares = " and ".join(f"{100.0 * lemon.share:.3g}%" for lemon in lemons)
    assumes = (
        f"{shares} of the units are replaced by normal ones before the job starts; {_SAME_INTERVAL}"
    )
    better = replace(fleet, causes=causes)
    yield _Change("suspected lemons retired", better, strategy, assumes=assumes)


def _of_spares(inputs: FleetGoodput, ready: FleetJob) -> Iterator[_Change]:
    """Yield changes to spares and repairs, where units can be missing."""
    fleet, strategy = ready.job.fleet, ready.strategy
    count = strategy.spares.count or 0
    more = inputs.more_spares
    units = max(fleet.units, ready.job.units + count + more)
    larger = replace(strategy, spares=replace(strategy.spares, count=count + more))
    added = more * fleet.gpus_per_unit
    room = replace(fleet, units=units)
    assumes = f"{strategy.spares.kind} ones"
    yield _Change(_spares_more(more), room, larger, added, assumes)
    if strategy.spares.kind != "hot" and mean_s(strategy.spares.start):
        assumes = "no start time; they can fail while idle"
        hot = replace(strategy, spares=model.Spares(count=count or more, kind="hot"))
        if count:
            yield _Change("hot spares", fleet, hot, assumes=assumes)
        else:
            yield _Change(f"{_spares_more(more)}, hot", room, hot, added, assumes)
    if any(mean_s(stage.lasts) for repair in fleet.repairs for stage in repair.stages):
        repairs = tuple(_faster(repair) for repair in fleet.repairs)
        repaired = replace(fleet, repairs=repairs)
        yield _Change("repairs in half the time", repaired, strategy, assumes="every stage")
    if strategy.shrink is None and ready.job.units > 1:
        shrink, assumes = _shrink(inputs, ready)
        fewer = replace(strategy, shrink=shrink)
        yield _Change("elastic operation", fleet, fewer, assumes=assumes)


def _spares_more(more: int) -> str:
    return f"{more:,} more {'spare' if more == 1 else 'spares'}"


def _shrink(inputs: FleetGoodput, ready: FleetJob) -> tuple[model.Shrink, str]:
    """Return the elastic operation of a job, and its assumptions.

    The size of a replica is `replica_gpus`, or that of another strategy; otherwise single units are
    dropped. The minimum is half of the replicas, rounded up.
    """
    fleet, units = ready.job.fleet, ready.job.units
    if inputs.replica_gpus is None:
        for other in ready.others:
            if other.shrink is not None:
                return other.shrink, f"as in strategy {other.name!r}"
        replica, why = 1, ", assuming one replica per unit (set replica_gpus for another size)"
    else:
        replica, why = whole_units(inputs.replica_gpus, fleet, "replica_gpus"), ", a replica"
    fewest = max((units // replica + 1) // 2, 1) * replica
    return model.Shrink(replica_units=replica, fewest=fewest), (
        f"{replica * fleet.gpus_per_unit:,} GPUs are dropped at a time{why}, down to"
        f" {fewest * fleet.gpus_per_unit:,}; throughput is proportional and units rejoin without a"
        " pause"
    )


def _time(phase: float | Law) -> float:
    return float(phase) if isinstance(phase, float | int) else mean_s(phase)


def _quicker(restart: model.Restart) -> model.Restart:
    """Return a restart with phases of half the duration."""
    phases = {
        name: phase / 2.0 if isinstance(phase, float | int) else scaled(phase, 0.5)
        for name, phase in restart.phases.items()
    }
    return replace(restart, phases=phases)


def _faster(repair: model.Repair) -> model.Repair:
    stages = tuple(replace(stage, lasts=scaled(stage.lasts, 0.5)) for stage in repair.stages)
    return replace(repair, stages=stages)
