"""`goodput` of a job on a fleet, by simulation: interval, time by category, factors, cost."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

from perfatlas.answer import Answer, AnsweredRun, Evidence
from perfatlas.declarations import signature_of, verb_fields
from perfatlas.quantities import InvalidSpecError, counted, two_digits
from perfatlas.reliability.fleet.closed_form import (
    expected_goodput,
    restart_remark,
)
from perfatlas.reliability.fleet.laws import TICKS_PER_SECOND, Constant
from perfatlas.reliability.fleet.model import NARROWER, rate_interval
from perfatlas.reliability.fleet.simulator import (
    JobOutcome,
    exact_sum,
    simulate_until,
)
from perfatlas.scenario import interrupted_jobs
from perfatlas.scenario.fields import complete_scenario
from perfatlas.studies import pareto_points
from perfatlas.verbs.goodput.groups import FRONTIER
from perfatlas.vocabulary.metrics import JOB_TIME


@dataclass(frozen=True, kw_only=True)
class FleetRun(AnsweredRun):
    """An answer and its replicas.

    Args:
        answer: The envelope.
        outcome: Results of every replica; of several seeds, those of the first.
    """

    outcome: JobOutcome

    def _beside(self) -> dict[str, Any]:
        return {"columns": self.per_replica()}

    def per_replica(self) -> dict[str, list[float]]:
        """Return goodput and time until the end of every replica, as columns."""
        return {
            "goodput": self.outcome.goodput_R.tolist(),
            "ended_s": (self.outcome.ended_R / TICKS_PER_SECOND).tolist(),
        }


def fleet_goodput(**fields: Any) -> FleetRun:  # noqa: ANN401 - checked by schema
    """Return the simulated goodput of a job on a fleet.

    Args:
        **fields: fleet (a file, llama3 or rsc1), and strategy (one of that file, or of
            strategy_file; the first by default) or checkpoint_write_s and restart_s; gpus and
            spares (default: the whole fleet, and its ratio of spares), fleet_units (overrides the
            file), checkpoint_interval_s, checkpoint_lag_s (time until durable), detection_s
            (overrides the fleet), spare_kind, spare_start_s, fewest_gpus and replica_gpus (elastic
            operation), duration_s or work_s (work to complete) with finish_by_s (deadline), mfu or
            a measured step (`measured_step`), scheduling (share of the time the job is scheduled),
            usd_per_gpu_hour, what_if, more_spares, half_width, seed, num_seeds.

    Raises:
        InvalidSpecError: A name or value is invalid.
        InfeasibleError: The job is larger than the fleet.
    """
    predicted, fields = interrupted_jobs.predicted_step(fields)
    inputs = whole = interrupted_jobs.FleetGoodput.read(fields)
    facts = interrupted_jobs.measured_step(inputs)
    if facts.write_s is not None:
        inputs = inputs.changed(checkpoint_write_s=facts.write_s)
    ready = interrupted_jobs.fleet_job(inputs, facts.checkpoint_bytes)
    interrupted_jobs.check_date(inputs, ready)
    if (mfu := facts.mfu(ready.gpus)) is not None:
        inputs = inputs.changed(mfu=mfu)
    runs = [
        _run(inputs.changed(seed=seed), ready, facts) for seed in interrupted_jobs.seeds_of(inputs)
    ]
    answer = interrupted_jobs.over_seeds([run.answer for run in runs])
    answer = interrupted_jobs.with_training(
        replace(answer, scenario=decided_fields(whole, ready)), predicted
    )
    return FleetRun(answer=answer, outcome=runs[0].outcome)


def _run(
    inputs: interrupted_jobs.FleetGoodput,
    ready: interrupted_jobs.FleetJob,
    facts: interrupted_jobs.StepFacts,
) -> FleetRun:
    """Return the answer of one seed, without the scenario."""
    outcome = simulate_until(
        ready.job,
        ready.strategy,
        half_width=inputs.half_width,
        most_replicas=interrupted_jobs.most_replicas(ready),
        seed=inputs.seed,
    )
    answer = interrupted_jobs.with_energy(_answer(inputs, ready, outcome, facts), inputs)
    return FleetRun(answer=answer, outcome=outcome)


def decided_fields(
    inputs: interrupted_jobs.FleetGoodput, ready: interrupted_jobs.FleetJob
) -> dict[str, Any]:
    """Return the scenario with the fields that the fleet and the strategy decide.

    With what_if, other strategies have their own spares, unless they were given: then they are not
    one number, and None.
    """
    standing = ready.strategy.spares
    spares = {
        "spares": standing.count,
        "spare_kind": standing.kind,
        "spare_start_s": standing.start.value_s if isinstance(standing.start, Constant) else None,
    }
    if inputs.what_if:
        given = inputs.fields_set
        spares = {name: value if name in given else None for name, value in spares.items()}
    decided = spares | {
        "gpus": ready.gpus,
        "fleet_units": ready.job.fleet.units,
        "strategy": ready.strategy.name if ready.strategy_is_named else None,
        "seed": inputs.seed,
        "method": "simulate",
    }
    return complete_scenario(verb_fields("goodput"), inputs, **decided)


def _answer(
    inputs: interrupted_jobs.FleetGoodput,
    ready: interrupted_jobs.FleetJob,
    outcome: JobOutcome,
    facts: interrupted_jobs.StepFacts,
) -> Answer:
    """Return the envelope of an answer, without the scenario."""
    rates = rate_interval(ready.job.fleet, ready.job.units, inputs.fleet)
    expected = expected_goodput(ready.job.fleet, ready.job.units, ready.strategy)
    results = interrupted_jobs.fleet_results(
        inputs, ready, outcome
    ) | interrupted_jobs.goodput_ends(inputs, ready, outcome, rates.share)
    results["closed_form_goodput"] = expected.goodput
    results["checkpoint_bytes"] = facts.checkpoint_bytes
    results |= interrupted_jobs.deadline_probability(inputs, ready)
    gains = interrupted_jobs.Gains([], [])
    if inputs.what_if:
        gains = interrupted_jobs.single_changes(inputs, ready, outcome)
        results["changes"] = gains.rows
    held_s = ready.gpus * exact_sum(outcome.ended_R) / outcome.ticks_RF.shape[0] / TICKS_PER_SECOND
    return Answer(
        command="goodput",
        scenario={},
        results=results,
        breakdown=interrupted_jobs.bucket_rows(interrupted_jobs.ended_shares(outcome), held_s),
        evidence=Evidence(
            tier="simulate",
            assumptions=(
                *interrupted_jobs.fleet_assumptions(inputs, ready, outcome),
                *gains.text(),
                *facts.notes,
                interrupted_jobs.closed_form_text(expected, outcome),
                rates.text(),
            ),
        ),
        warnings=(
            *outcome.remarks(),
            *filter(None, [restart_remark(ready.strategy, results["mtti_s"], outcome.goodput)]),
            *interrupted_jobs.fleet_remarks(inputs, ready),
            *interrupted_jobs.deadline_remarks(results),
        ),
    )


MAX_REPLICAS: Final = 16_384  # replicas of a strategy
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
    predicted, fields = interrupted_jobs.predicted_step(fields)
    inputs = interrupted_jobs.FleetGoodput.read(fields)
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
    facts = interrupted_jobs.measured_step(inputs)
    if facts.write_s is not None:
        inputs = inputs.changed(checkpoint_write_s=facts.write_s)
    ready = interrupted_jobs.fleet_job(inputs, facts.checkpoint_bytes)
    found = interrupted_jobs.tried_strategies(inputs, ready)
    rows, outcomes = _priced(inputs, ready, found)
    answer = _frontier_answer(inputs, ready, found, rows, outcomes)
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
    inputs: interrupted_jobs.FleetGoodput,
    ready: interrupted_jobs.FleetJob,
    found: interrupted_jobs.Strategies,
) -> tuple[list[dict[str, Any]], list[JobOutcome]]:
    """Return one row and the replicas of each strategy."""
    rows, outcomes = [], []
    most = min(interrupted_jobs.most_replicas(ready), MAX_REPLICAS)
    for tried in found.tried:
        outcome = simulate_until(
            replace(ready.job, fleet=tried.fleet),
            tried.strategy,
            half_width=inputs.half_width,
            relative_to=WHOLE_TIME,
            most_replicas=most,
            seed=inputs.seed,
        )
        rows.append(_row(inputs, ready, tried, outcome))
        outcomes.append(outcome)
    return rows, outcomes


def _row(
    inputs: interrupted_jobs.FleetGoodput,
    ready: interrupted_jobs.FleetJob,
    tried: interrupted_jobs.Tried,
    outcome: JobOutcome,
) -> dict[str, Any]:
    spares = tried.strategy.spares.count or 0
    held = ready.gpus + spares * tried.fleet.gpus_per_unit
    useful = outcome.goodput * ready.gpus / held
    row: dict[str, Any] = {
        "response": tried.policy,
        "checkpoint_levels": " + ".join(level.name for level in tried.strategy.levels),
        "checkpoint_interval_s": tried.strategy.interval_s,
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


def _frontier_answer(
    inputs: interrupted_jobs.FleetGoodput,
    ready: interrupted_jobs.FleetJob,
    found: interrupted_jobs.Strategies,
    rows: list[dict[str, Any]],
    outcomes: list[JobOutcome],
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
        index
        for index, row in enumerate(rows)
        if any(
            row[name] != rows[best][name] for name in ("response", "checkpoint_levels", "spares")
        )
    ]
    return max(others, key=lambda place: rows[place]["useful_share_of_held"], default=None)


def _why(rows: list[dict[str, Any]], outcomes: list[JobOutcome], best: int) -> str:
    """Return where the next best strategy loses more than the best one."""
    other = _runner_up(rows, best)
    if other is None:
        return "the only combination of policy, levels and spares that applies"
    ours, theirs = (_lost(rows[index], outcomes[index]) for index in (best, other))
    more = {name: theirs[name] - ours[name] for name in ours}
    most = max(more, key=lambda name: more[name])
    behind = rows[best]["useful_share_of_held"] - rows[other]["useful_share_of_held"]
    label = "idle spares" if most == _SPARES else JOB_TIME[most]
    return (
        f"of each GPU-hour held {100.0 * rows[best]['useful_share_of_held']:.4g}% is useful; the"
        f" next, {strategy_text(rows[other])}, is {two_digits(100.0 * behind)} points behind and"
        f" loses {two_digits(100.0 * more[most])} points more to {label}"
    )


_SPARES: Final = "spares"


def _lost(row: dict[str, Any], outcome: JobOutcome) -> dict[str, float]:
    """Return the losses of a strategy as shares of the GPU-hours held."""
    of_job = row["useful_share_of_held"] / row["goodput"] if row["goodput"] else 1.0
    shares = {
        name: share * of_job
        for name, share in interrupted_jobs.ended_shares(outcome).items()
        if name != "productive"
    }
    return {**shares, _SPARES: 1.0 - of_job}


def strategy_text(row: dict[str, Any]) -> str:
    """Return a strategy as text.

    Example:
        >>> from perfatlas.verbs.goodput.fleet_answer import strategy_text
        >>> strategy_text({"response": "jobset", "spares": 2, "checkpoint_levels": "checkpoint"})
        'jobset with 2 spares and level checkpoint'
    """
    levels = str(row["checkpoint_levels"])
    kind = "levels" if "+" in levels else "level"
    return f"{row['response']} with {counted(row['spares'], 'spare')} and {kind} {levels}"


def _warnings(rows: list[dict[str, Any]], outcomes: list[JobOutcome], best: int) -> list[str]:
    """Return what the simulation cannot tell apart, and remarks on the best strategy."""
    other = _runner_up(rows, best)
    told = list(outcomes[best].remarks())
    wide = [
        outcome for outcome in outcomes if not outcome.converged and outcome is not outcomes[best]
    ]
    if wide:
        widest = max(outcome.half_width for outcome in wide)
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
