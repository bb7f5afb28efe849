"""Single changes to a job and its fleet, ranked by the GPU-hours they gain.

Each changed job meets the same failures as the job itself: the gain is a mean of differences.

Shape legend: R replicas.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from perfatlas.fleet.expected import best_interval_s
from perfatlas.fleet.laws import mean_s, scaled
from perfatlas.fleet.model import Fleet, Repair, Restart, Shrink, Spares, Strategy
from perfatlas.fleet.simulate import simulate
from perfatlas.fleet.state import TICKS_PER_SECOND

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perfatlas.fleet.laws import Law
    from perfatlas.fleet.outcome import Outcome
    from perfatlas.scenario.fleet_job import FleetJob
    from perfatlas.scenario.goodput_fields import FleetGoodput

HOUR_S: Final = 3600.0


class _Change(NamedTuple):
    """A change and what it makes of the job.

    Args:
        name: As tables show it.
        fleet: The fleet with it.
        strategy: The strategy with it.
        gpus_added: GPUs held beside those held before.
    """

    name: str
    fleet: Fleet
    strategy: Strategy
    gpus_added: int = 0


def single_changes(asked: FleetGoodput, ready: FleetJob, before: Outcome) -> list[dict[str, Any]]:
    """Return what single changes gain, the largest gain first.

    Args:
        asked: The fields.
        ready: The job.
        before: Replicas of the job as it is.

    Returns:
        Rows of name, gpu_hours_gained, gpu_hours_gained_half_width (of its 90 % interval),
        gpu_hours_added (held by spares beside those there were), goodput.

    Raises:
        InvalidSpecError: A changed number is outside its range.

    Source: common random numbers: replica r of both has the same failures, and the interval is that
        of the paired differences, by Student's t.
    """
    from scipy.special import stdtrit

    count = before.ticks_RF.shape[0]
    hours = ready.gpus * ready.job.horizon_s / HOUR_S
    rows = []
    for change in _changes(asked, ready):
        job = replace(ready.job, fleet=change.fleet)
        after = simulate(job, change.strategy, replicas=count, seed=asked.seed)
        difference_R = (
            (after.column("productive") - before.column("productive"))
            / TICKS_PER_SECOND
            * (ready.gpus / HOUR_S)
        )
        error = float(difference_R.std(ddof=1)) / math.sqrt(count) if count > 1 else math.inf
        rows.append(
            {
                "name": change.name,
                "gpu_hours_gained": float(difference_R.mean()),
                "gpu_hours_gained_half_width": float(stdtrit(max(count - 1, 1), 0.95)) * error,
                "gpu_hours_added": change.gpus_added * ready.job.horizon_s / HOUR_S,
                "goodput": after.goodput,
                "share_gained": float(difference_R.mean()) / hours,
            }
        )
    return sorted(rows, key=lambda row: -row["gpu_hours_gained"])


def _changes(asked: FleetGoodput, ready: FleetJob) -> Iterator[_Change]:
    fleet, strategy = ready.job.fleet, ready.strategy
    yield from _of_checkpoints(ready)
    if any(_time(phase) for restart in strategy.restarts for phase in restart.phases.values()):
        restarts = tuple(_quicker(restart) for restart in strategy.restarts)
        yield _Change("restart in half the time", fleet, replace(strategy, restarts=restarts))
    if any(mean_s(cause.detection) for cause in fleet.causes):
        causes = tuple(
            replace(cause, detection=scaled(cause.detection, 0.5)) for cause in fleet.causes
        )
        yield _Change("detection in half the time", replace(fleet, causes=causes), strategy)
    causes = tuple(replace(cause, lifetime=scaled(cause.lifetime, 2.0)) for cause in fleet.causes)
    yield _Change("half as many failures", replace(fleet, causes=causes), strategy)
    yield from _of_spares(asked, ready)
    for other in ready.others:
        more = (other.spares.count or 0) - (strategy.spares.count or 0)
        units = max(fleet.units, ready.job.units + (other.spares.count or 0))
        room = replace(fleet, units=units)
        added = more * fleet.gpus_per_unit
        yield _Change(f"strategy {other.name!r} instead", room, other, added)


def _of_checkpoints(ready: FleetJob) -> Iterator[_Change]:
    """Yield changes to checkpoints; an interval that was the optimum stays the optimum."""
    fleet, strategy = ready.job.fleet, ready.strategy
    if any(level.write_s for level in strategy.levels):
        levels = tuple(replace(level, write_s=level.write_s / 2.0) for level in strategy.levels)
        faster = replace(strategy, levels=levels)
        if not ready.interval_is_given:
            best_s, _ = best_interval_s(fleet, ready.job.units, faster)
            faster = replace(faster, interval_s=best_s or strategy.interval_s)
        yield _Change("checkpoints written twice as fast", fleet, faster)
        if not any(level.lag_s for level in strategy.levels):
            behind = tuple(
                replace(level, write_s=0.0, lag_s=level.write_s) for level in strategy.levels
            )
            later = replace(strategy, levels=behind)
            yield _Change("checkpoints written in the background", fleet, later)
    if ready.interval_is_given and ready.optimal_interval_s:
        best = replace(strategy, interval_s=ready.optimal_interval_s)
        yield _Change("checkpoints at the optimal interval", fleet, best)


def _of_spares(asked: FleetGoodput, ready: FleetJob) -> Iterator[_Change]:
    """Yield changes to spares and repairs, where units can be missing at all."""
    fleet, strategy = ready.job.fleet, ready.strategy
    count = strategy.spares.count or 0
    more = asked.more_spares
    units = max(fleet.units, ready.job.units + count + more)
    larger = replace(strategy, spares=replace(strategy.spares, count=count + more))
    added = more * fleet.gpus_per_unit
    yield _Change(f"{more} more spares", replace(fleet, units=units), larger, added)
    if strategy.spares.kind != "hot" and count and mean_s(strategy.spares.start):
        hot = replace(strategy, spares=Spares(count=count, kind="hot"))
        yield _Change("spares that stand by hot", fleet, hot)
    if any(mean_s(stage.lasts) for repair in fleet.repairs for stage in repair.stages):
        repairs = tuple(_faster(repair) for repair in fleet.repairs)
        yield _Change("repairs in half the time", replace(fleet, repairs=repairs), strategy)
    if strategy.shrink is None and ready.job.units > 1:
        fewer = replace(strategy, shrink=Shrink(replica_units=1, fewest=ready.job.units // 2))
        yield _Change("going on with fewer nodes", fleet, fewer)


def _time(phase: float | Law) -> float:
    return float(phase) if isinstance(phase, float | int) else mean_s(phase)


def _quicker(restart: Restart) -> Restart:
    """Return a restart whose phases take half the time."""
    phases = {
        name: phase / 2.0 if isinstance(phase, float | int) else scaled(phase, 0.5)
        for name, phase in restart.phases.items()
    }
    return replace(restart, phases=phases)


def _faster(repair: Repair) -> Repair:
    stages = tuple(replace(stage, lasts=scaled(stage.lasts, 0.5)) for stage in repair.stages)
    return replace(repair, stages=stages)
