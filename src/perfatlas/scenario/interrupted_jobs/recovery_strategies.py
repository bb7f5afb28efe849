"""Recovery strategies of a job: intervals, checkpoint levels, spares and policies that apply."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from perfatlas.quantities import InvalidSpecError
from perfatlas.reliability.fleet import model
from perfatlas.reliability.fleet.closed_form import likely_interval_s, spares_covering
from perfatlas.reliability.fleet.simulator import chosen_interval_s
from perfatlas.scenario.interrupted_jobs.job_on_fleet import check_spare_kind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfatlas.scenario.interrupted_jobs.job_fields import FleetGoodput
    from perfatlas.scenario.interrupted_jobs.job_on_fleet import FleetJob

AROUND: Final = (0.5, 1.0, 2.0)  # intervals, times the optimum
COVERED: Final = (0.5, 0.9, 0.99, 0.999)  # of the time, as many nodes or fewer are under repair
MAX_SPARES: Final = 100_000


class Tried(NamedTuple):
    """A strategy to price."""

    policy: str  # Name of its recovery policy
    fleet: model.Fleet  # The fleet, with the detection times of the policy and room for the spares
    strategy: model.Strategy


class Strategies(NamedTuple):
    """Strategies to price."""

    tried: list[Tried]
    # Rows of reason and count of combinations that no policy documents
    skipped: list[dict[str, Any]]
    varied: tuple[str, ...]  # What was varied, as sentences


def tried_strategies(inputs: FleetGoodput, ready: FleetJob) -> Strategies:
    """Return the strategies of a job that its recovery policies allow.

    Raises:
        InvalidSpecError: No policy applies.
    """
    policies = model.recovery_policies()
    names = [inputs.response] if inputs.response is not None else list(policies)
    levels, counts = _level_sets(ready.strategy), _spare_counts(inputs, ready)
    tried: list[Tried] = []
    skipped: Counter[str] = Counter()
    per_level = len(counts) * len(AROUND)
    for name in names:
        fleet = model.with_policy(ready.job.fleet, policies[name])
        for kept in levels:
            try:
                check_spare_kind(inputs, policies[name])
                draft = _under(ready, policies[name], kept, inputs.step_time_s)
                intervals = _intervals(inputs, ready, fleet, draft)
            except InvalidSpecError as problem:
                skipped[str(problem)] += per_level
                continue
            for count in counts:
                if not count and policies[name].spares:
                    why = f"response = {name} needs spares in its allocation"
                    skipped[why] += len(intervals)
                    continue
                spares = replace(draft.spares, count=count)
                units = max(fleet.units, ready.job.units + count)
                room = replace(fleet, units=units)
                tried += [
                    Tried(name, room, replace(draft, spares=spares, interval_s=interval_s))
                    for interval_s in intervals
                ]
    if not tried:
        raise InvalidSpecError("; ".join(skipped))
    rows = [{"reason": reason, "count": count} for reason, count in skipped.items()]
    return Strategies(tried, rows, _varied(inputs, names, levels, counts))


def _under(
    ready: FleetJob,
    policy: model.RecoveryPolicy,
    levels: tuple[model.Level, ...],
    step_s: float | None,
) -> model.Strategy:
    """Return the strategy of a job under a policy, which shrinks only where the policy does."""
    shrink = None if policy.elastic == "never" else ready.strategy.shrink
    draft = replace(ready.strategy, levels=levels, shrink=shrink)
    draft = model.under_policy(draft, policy, step_s)
    model.check_strategy(draft, ready.job.units)
    return draft


def _intervals(
    inputs: FleetGoodput, ready: FleetJob, fleet: model.Fleet, draft: model.Strategy
) -> list[float]:
    """Return the intervals to try [s]: around the optimum, and the set one."""
    job = replace(ready.job, fleet=fleet)
    best_s, note = chosen_interval_s(job, draft, inputs.seed)
    if best_s is None:
        best_s, _ = likely_interval_s(fleet, job.units, draft)
    set_s = [draft.interval_s] if ready.interval_is_given else []
    if best_s is None:
        if not set_s:
            raise InvalidSpecError(f"{note}; set checkpoint_interval_s")
        return set_s
    return sorted({*set_s, *(factor * best_s for factor in AROUND)})


def _level_sets(strategy: model.Strategy) -> list[tuple[model.Level, ...]]:
    """Return the sets of checkpoint levels with the most durable one, the first one every time."""
    *near, last = strategy.levels
    sets = []
    for size in range(len(near), -1, -1):
        for kept in combinations(near, size):
            first = (*kept, last)[0].every
            chosen = tuple(replace(level, every=level.every // first) for level in (*kept, last))
            sets.append(chosen)
    return sets


def _spare_counts(inputs: FleetGoodput, ready: FleetJob) -> list[int]:
    """Return the numbers of spares to try: none, the set one, and enough for `COVERED`."""
    fleet, units = ready.job.fleet, ready.job.units
    repairs = {repair.name: model.mean_repair_s(repair) for repair in fleet.repairs}
    mean = sum(
        model.cause_rate_per_s(cause, units)
        * cause.units
        * repairs[cause.repair or fleet.repairs[0].name]
        for cause in fleet.causes
        if cause.effect == "stops" and cause.takes == "unit" and fleet.repairs
    )
    found = {0, *([ready.strategy.spares.count or 0] if inputs.spares is not None else [])}
    if 0.0 < mean < MAX_SPARES:
        found |= {spares_covering(mean, covered) for covered in COVERED}
    return sorted(found)


def _varied(
    inputs: FleetGoodput,
    names: Sequence[str],
    levels: Sequence[tuple[model.Level, ...]],
    counts: Sequence[int],
) -> tuple[str, ...]:
    """Return what was varied, as sentences."""
    sets = " or ".join(" + ".join(level.name for level in kept) for kept in levels)
    set_count = "" if inputs.spares is None else ", and the number set"
    return (
        f"varied: recovery policy {', '.join(names)}",
        f"varied: checkpoint levels {sets}",
        (
            f"varied: spares {', '.join(map(str, counts))}: none, as many as are under repair"
            f" {', '.join(f'{100.0 * share:g}%' for share in COVERED)} of the time (Poisson)"
            f"{set_count}"
        ),
        (
            "varied: work between checkpoints,"
            f" {', '.join(f'{factor:g}' for factor in AROUND)} times the optimum of each strategy,"
            " and the interval set, if any"
        ),
    )
