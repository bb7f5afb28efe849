"""Recovery strategies of a job on a fleet: goodput against GPUs held, and what no strategy beats.

Every strategy is simulated by the method of a single answer, with the same failures in all.

Shape legend: N strategies, R replicas.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from perfatlas.answer import Answer, AnsweredRun, Evidence
from perfatlas.declarations import signature_of
from perfatlas.quantities import InvalidSpecError, counted, two_digits
from perfatlas.reliability.fleet.closed_form import likely_interval_s, spares_covering
from perfatlas.reliability.fleet.model import (
    NARROWER,
    cause_rate_per_s,
    check_strategy,
    mean_repair_s,
    recovery_policies,
    under_policy,
    with_policy,
)
from perfatlas.reliability.fleet.simulator import chosen_interval_s, simulate_until
from perfatlas.studies import pareto_points
from perfatlas.verbs.goodput.fleet_answer import decided_fields, ended_shares, most_replicas
from perfatlas.verbs.goodput.fleet_job import check_spare_kind, fleet_job
from perfatlas.verbs.goodput.frontier_metrics import FRONTIER
from perfatlas.verbs.goodput.predicted_step import predicted_step
from perfatlas.verbs.goodput.question import FleetGoodput
from perfatlas.verbs.goodput.training_step import measured_step

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfatlas.reliability.fleet.model import Fleet, Level, RecoveryPolicy, Strategy
    from perfatlas.reliability.fleet.simulator import Outcome
    from perfatlas.verbs.goodput.fleet_job import FleetJob

AROUND: Final = (0.5, 1.0, 2.0)  # intervals, times the optimum
COVERED: Final = (0.5, 0.9, 0.99, 0.999)  # of the time, as many nodes or fewer are under repair
MOST_SPARES: Final = 100_000


class Tried(NamedTuple):
    """A strategy to price.

    Args:
        policy: Name of its recovery policy.
        fleet: The fleet, with the detection times of the policy and room for the spares.
    """

    policy: str
    fleet: Fleet
    strategy: Strategy


class Strategies(NamedTuple):
    """Strategies to price.

    Args:
        skipped: Rows of reason and count of combinations that no policy documents.
        varied: What was varied, as sentences.
    """

    tried: list[Tried]
    skipped: list[dict[str, Any]]
    varied: tuple[str, ...]


def tried_strategies(inputs: FleetGoodput, ready: FleetJob) -> Strategies:
    """Return the strategies of a job that its recovery policies allow.

    Raises:
        InvalidSpecError: No policy applies.
    """
    policies = recovery_policies()
    names = [inputs.response] if inputs.response is not None else list(policies)
    levels, counts = _level_sets(ready.strategy), _spare_counts(inputs, ready)
    tried: list[Tried] = []
    skipped: Counter[str] = Counter()
    per_level = len(counts) * len(AROUND)
    for name in names:
        fleet = with_policy(ready.job.fleet, policies[name])
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
    ready: FleetJob, policy: RecoveryPolicy, levels: tuple[Level, ...], step_s: float | None
) -> Strategy:
    """Return the strategy of a job under a policy, which shrinks only where the policy does."""
    shrink = None if policy.elastic == "never" else ready.strategy.shrink
    draft = replace(ready.strategy, levels=levels, shrink=shrink)
    draft = under_policy(draft, policy, step_s)
    check_strategy(draft, ready.job.units)
    return draft


def _intervals(inputs: FleetGoodput, ready: FleetJob, fleet: Fleet, draft: Strategy) -> list[float]:
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


def _level_sets(strategy: Strategy) -> list[tuple[Level, ...]]:
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
    repairs = {repair.name: mean_repair_s(repair) for repair in fleet.repairs}
    mean = sum(
        cause_rate_per_s(cause, units)
        * cause.units
        * repairs[cause.repair or fleet.repairs[0].name]
        for cause in fleet.causes
        if cause.effect == "stops" and cause.takes == "unit" and fleet.repairs
    )
    found = {0, *([ready.strategy.spares.count or 0] if inputs.spares is not None else [])}
    if 0.0 < mean < MOST_SPARES:
        found |= {spares_covering(mean, covered) for covered in COVERED}
    return sorted(found)


def _varied(
    inputs: FleetGoodput,
    names: Sequence[str],
    levels: Sequence[tuple[Level, ...]],
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


MOST_REPLICAS: Final = 16_384  # replicas of a strategy
WHOLE_TIME: Final = 1.0  # strategies are compared as shares of the time of the job
# of all strategies alike, or of a single one
_NOT_COMBINED: Final = (
    *("work_s", "what_if", "power_w", "mfu", "scheduling", "step_time_s", "tokens_per_step"),
    "tokens",
)
_NOT_VARIED: Final = (
    "not varied: the size of the job, checkpoint sizes and times, restart times, verification,"
    " maintenance, and which spare joins"
)


@dataclass(frozen=True, kw_only=True)
class StrategyFrontier(AnsweredRun):
    """Strategies that no other exceeds, stored as rows of `frontier` in `results`.

    Args:
        answer: The envelope.
        strategies: All strategies, by the names of the rows, and `on_frontier`; each (N,).
    """

    strategies: dict[str, list[Any]]

    @property
    def columns(self) -> dict[str, list[Any]]:
        """Return all strategies as columns, each (N,)."""
        return self.strategies


@signature_of("goodput")
def goodput_frontier(**fields: Any) -> StrategyFrontier:  # noqa: ANN401 - checked by schema
    """Return the recovery strategies of a job that no other exceeds in goodput and GPUs held.

    Args:
        **fields: A job on a fleet, as for `goodput`, with its number of GPUs. Of strategies, the
            interval, levels of checkpoints, spares and recovery policies are varied. With train,
            a file of a training step, its GPUs and checkpoint size are those of the job.

    Raises:
        InvalidSpecError: The question is invalid, has no fleet or gpus, or no policy applies.
        InfeasibleError: The job is larger than the fleet, or the step does not fit in memory.
    """
    for name in _NOT_COMBINED:
        if fields.get(name):
            raise InvalidSpecError(f"{name} cannot be combined with a frontier of strategies")
    predicted, fields = predicted_step(fields)
    inputs = FleetGoodput.read(fields)
    if inputs.num_seeds > 1:
        raise InvalidSpecError(
            f"num_seeds = {inputs.num_seeds} cannot be combined with a frontier of strategies: all"
            " meet the failures of one seed; set a smaller half_width"
        )
    if inputs.gpus is None:
        raise InvalidSpecError(
            "gpus is missing: strategies of one job are compared; set its number of GPUs"
        )
    scenario = inputs
    facts = measured_step(inputs)
    if facts.write_s is not None:
        inputs = inputs.model_copy(update={"checkpoint_write_s": facts.write_s})
    ready = fleet_job(inputs, facts.checkpoint_bytes)
    found = tried_strategies(inputs, ready)
    rows, outcomes = _priced(inputs, ready, found)
    answer = _answer(inputs, ready, found, rows, outcomes)
    decided = decided_fields(scenario, ready)
    if inputs.spares is None:  # varied
        decided["spares"] = None
    if predicted is not None:
        decided |= predicted.in_scenario
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    best = {id(row) for row in answer.results[FRONTIER]}
    columns["on_frontier"] = [id(row) in best for row in rows]
    return StrategyFrontier(answer=replace(answer, scenario=decided), strategies=columns)


def _priced(
    inputs: FleetGoodput, ready: FleetJob, found: Strategies
) -> tuple[list[dict[str, Any]], list[Outcome]]:
    """Return one row and the replicas of each strategy."""
    rows, outcomes = [], []
    most = min(most_replicas(ready), MOST_REPLICAS)
    for one in found.tried:
        outcome = simulate_until(
            replace(ready.job, fleet=one.fleet),
            one.strategy,
            half_width=inputs.half_width,
            relative_to=WHOLE_TIME,
            most_replicas=most,
            seed=inputs.seed,
        )
        rows.append(_row(inputs, ready, one, outcome))
        outcomes.append(outcome)
    return rows, outcomes


def _row(inputs: FleetGoodput, ready: FleetJob, one: Tried, outcome: Outcome) -> dict[str, Any]:
    spares = one.strategy.spares.count or 0
    held = ready.gpus + spares * one.fleet.gpus_per_unit
    useful = outcome.goodput * ready.gpus / held
    row: dict[str, Any] = {
        "response": one.policy,
        "checkpoint_levels": " + ".join(level.name for level in one.strategy.levels),
        "checkpoint_interval_s": one.strategy.interval_s,
        "spares": spares,
        "gpus_held": held,
        "goodput": outcome.goodput,
        "goodput_half_width": NARROWER * outcome.half_width,
        "useful_share_of_held": useful,
        "replicas": outcome.ticks_RF.shape[0],
    }
    if inputs.usd_per_gpu_hour is not None:
        row["usd_per_useful_gpu_hour"] = inputs.usd_per_gpu_hour / useful if useful else None
    return row


def _answer(
    inputs: FleetGoodput,
    ready: FleetJob,
    found: Strategies,
    rows: list[dict[str, Any]],
    outcomes: list[Outcome],
) -> Answer:
    """Return the envelope, without the scenario."""
    both = [row["goodput"] for row in rows], [-row["gpus_held"] for row in rows]
    points = pareto_points(*both)[::-1].tolist()
    best = max(points, key=lambda place: rows[place]["useful_share_of_held"])
    results: dict[str, Any] = {
        FRONTIER: [rows[place] for place in points],
        "best_strategy": rows[best],
        "why": _why(rows, outcomes, best),
        "strategies": len(rows),
        "strategies_dominated": len(rows) - len(points),
        "strategies_skipped": found.skipped,
        "gpus": ready.gpus,
        "replicas": max(row["replicas"] for row in rows),
        "seed": inputs.seed,
    }
    notes = (
        (
            "each strategy: as many replicas as its goodput needs to be known to ±"
            f" {100.0 * inputs.half_width:g} points of the time (95%, half_width), at most"
            f" {results['replicas']:,}; seed {inputs.seed}; all meet the same failures (common"
            " random numbers)"
        ),
        *found.varied,
        _NOT_VARIED,
        "dominated: another strategy has no less goodput and holds no more GPUs",
        "the best strategy has the most useful GPU-hours per GPU-hour held by job and spares",
    )
    return Answer(
        command="goodput --frontier",
        scenario={},
        results=results,
        breakdown=[],
        evidence=Evidence(tier="simulate", assumptions=notes),
        warnings=tuple(_warnings(rows, outcomes, best)),
    )


def _runner_up(rows: list[dict[str, Any]], best: int) -> int | None:
    """Return the next best strategy per GPU-hour held that is not the best at another interval."""
    others = [
        place
        for place, row in enumerate(rows)
        if any(
            row[name] != rows[best][name] for name in ("response", "checkpoint_levels", "spares")
        )
    ]
    return max(others, key=lambda place: rows[place]["useful_share_of_held"], default=None)


def _why(rows: list[dict[str, Any]], outcomes: list[Outcome], best: int) -> str:
    """Return where the next best strategy loses more than the best one."""
    from perfatlas.verbs.goodput.text import BUCKETS

    other = _runner_up(rows, best)
    if other is None:
        return "the only combination of policy, levels and spares that applies"
    ours, theirs = (_lost(rows[place], outcomes[place]) for place in (best, other))
    more = {name: theirs[name] - ours[name] for name in ours}
    most = max(more, key=lambda name: more[name])
    behind = rows[best]["useful_share_of_held"] - rows[other]["useful_share_of_held"]
    label = "idle spares" if most == _SPARES else BUCKETS[most]
    return (
        f"of each GPU-hour held {100.0 * rows[best]['useful_share_of_held']:.4g}% is useful; the"
        f" next, {strategy_text(rows[other])}, is {two_digits(100.0 * behind)} points behind and"
        f" loses {two_digits(100.0 * more[most])} points more to {label}"
    )


_SPARES: Final = "spares"


def _lost(row: dict[str, Any], outcome: Outcome) -> dict[str, float]:
    """Return the losses of a strategy as shares of the GPU-hours held."""
    of_job = row["useful_share_of_held"] / row["goodput"] if row["goodput"] else 1.0
    shares = {
        name: share * of_job
        for name, share in ended_shares(outcome).items()
        if name != "productive"
    }
    return {**shares, _SPARES: 1.0 - of_job}


def strategy_text(row: dict[str, Any]) -> str:
    """Return a strategy as text.

    Example:
        >>> from perfatlas.verbs.goodput.strategy_frontier import strategy_text
        >>> strategy_text({"response": "jobset", "spares": 2, "checkpoint_levels": "checkpoint"})
        'jobset with 2 spares and level checkpoint'
    """
    levels = str(row["checkpoint_levels"])
    kind = "levels" if "+" in levels else "level"
    return f"{row['response']} with {counted(row['spares'], 'spare')} and {kind} {levels}"


def _warnings(rows: list[dict[str, Any]], outcomes: list[Outcome], best: int) -> list[str]:
    """Return what the simulation cannot tell apart, and remarks on the best strategy."""
    other = _runner_up(rows, best)
    told = list(outcomes[best].remarks())
    wide = [one for one in outcomes if not one.converged and one is not outcomes[best]]
    if wide:
        widest = max(one.half_width for one in wide)
        told.append(
            f"{len(wide):,} of {len(rows):,} strategies stopped after"
            f" {counted(wide[0].ticks_RF.shape[0], 'replica')}: their goodput is known to ±"
            f" {two_digits(100.0 * widest)} points or better"
        )
    if other is None:
        return told
    share = rows[best]["useful_share_of_held"] / max(rows[best]["goodput"], 1e-12)
    both = min(rows[best]["replicas"], rows[other]["replicas"])
    pair = outcomes[best].first(both), outcomes[other].first(both)
    width = share * pair[0].difference_half_width(pair[1])
    behind = rows[best]["useful_share_of_held"] - rows[other]["useful_share_of_held"]
    if behind < width:
        told.append(
            f"the best two strategies differ by less than the error of the simulation"
            f" ({two_digits(100.0 * behind)} of ± {two_digits(100.0 * width)} points); set a"
            " smaller half_width"
        )
    return told
