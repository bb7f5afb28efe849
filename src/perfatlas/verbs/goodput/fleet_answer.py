"""`goodput` of a job on a fleet, by simulation: interval, time by category, factors, cost."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from perfatlas.answer import Answer, AnsweredRun, Evidence
from perfatlas.declarations import verb_fields
from perfatlas.quantities import InvalidSpecError, counted, significant, two_digits
from perfatlas.reliability.fleet.closed_form import (
    Expected,
    expected_goodput,
    known_mtti_s,
    late_detection_remarks,
    restart_remark,
    snapshots_in_flight,
)
from perfatlas.reliability.fleet.laws import BUCKETS, IDLE, TICKS_PER_SECOND, Constant
from perfatlas.reliability.fleet.model import (
    NARROWER,
    NINETY,
    NO_REPAIR_TIMES,
    initial_ages_text,
    mean_repair_s,
    rate_interval,
    recovery_policies,
    scaled_rates,
)
from perfatlas.reliability.fleet.simulator import (
    Outcome,
    exact_sum,
    loss_probability,
    simulate,
    simulate_until,
)
from perfatlas.scenario.fields import complete_scenario, unused_warnings
from perfatlas.verbs.goodput.energy import with_energy
from perfatlas.verbs.goodput.fleet_job import FleetJob, fleet_job
from perfatlas.verbs.goodput.interruptions import bucket_rows, half_width_text
from perfatlas.verbs.goodput.predicted_step import predicted_step, with_training
from perfatlas.verbs.goodput.question import DAY_S, HOUR_S, FleetGoodput
from perfatlas.verbs.goodput.seeds import over_seeds, seeds_of
from perfatlas.verbs.goodput.topology import units_of_another_size
from perfatlas.verbs.goodput.training_step import measured_step
from perfatlas.verbs.goodput.what_if import Gains, single_changes, unevaluated_changes
from perfatlas.vocabulary.fields import Missing
from perfatlas.vocabulary.metrics import METRICS, gpu_hours, statistics

if TYPE_CHECKING:
    from collections.abc import Callable

    from perfatlas.reliability.fleet.model import Strategy
    from perfatlas.verbs.goodput.training_step import StepFacts


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
    documented = response and recovery_policies()[response].spares

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


REPLICAS: Final = 500  # replicas per level and run; some seconds


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
        late_probability with its 90% interval; nothing without finish_by_s.
    """
    if inputs.finish_by_s is None or inputs.work_s is None:
        return {}
    tail = loss_probability(
        ready.job,
        ready.strategy,
        inputs.finish_by_s - inputs.work_s,
        replicas=REPLICAS,
        seed=inputs.seed,
    )
    low, high = tail.interval(NINETY)
    return {
        "finish_by_s": inputs.finish_by_s,
        "late_probability": tail.probability,
        "late_probability_low": low,
        "late_probability_high": high,
    }


def deadline_remarks(results: dict[str, Any]) -> list[str]:
    """Return remarks on the probability of missing the deadline."""
    if results.get("late_probability", 1.0) > 0.0:
        return []
    return ["no copy of any replica missed finish_by_s: the event is too rare for the simulation"]


MOST_FAILURES: Final = 100_000_000  # total of all replicas; well under a minute
MOST_REPLICAS: Final = 100_000
MOST_PAIRED: Final = 4096  # replicas run again with other failure rates
SIGNIFICANT_HALF_WIDTHS: Final = 2.0  # of a 95% interval: larger deviations are significant
EXPOSED_SHARE: Final = 0.99  # share of exposed time below which a remark is added
WITH_P5: Final = METRICS["cost_usd"].statistics


@dataclass(frozen=True, kw_only=True)
class FleetRun(AnsweredRun):
    """An answer and its replicas.

    Args:
        answer: The envelope.
        outcome: Results of every replica; of several seeds, those of the first.
    """

    outcome: Outcome

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
    predicted, fields = predicted_step(fields)
    inputs = whole = FleetGoodput.read(fields)
    facts = measured_step(inputs)
    if facts.write_s is not None:
        inputs = inputs.model_copy(update={"checkpoint_write_s": facts.write_s})
    if inputs.what_if and inputs.work_s is not None:
        raise InvalidSpecError("what_if requires duration_s and cannot be combined with work_s")
    ready = fleet_job(inputs, facts.checkpoint_bytes)
    check_date(inputs, ready)
    if (mfu := facts.mfu(ready.gpus)) is not None:
        inputs = inputs.model_copy(update={"mfu": mfu})
    runs = [
        _run(inputs.model_copy(update={"seed": seed}), ready, facts) for seed in seeds_of(inputs)
    ]
    answer = over_seeds([run.answer for run in runs])
    answer = with_training(replace(answer, scenario=decided_fields(whole, ready)), predicted)
    return FleetRun(answer=answer, outcome=runs[0].outcome)


def _run(inputs: FleetGoodput, ready: FleetJob, facts: StepFacts) -> FleetRun:
    """Return the answer of one seed, without the scenario."""
    outcome = simulate_until(
        ready.job,
        ready.strategy,
        half_width=inputs.half_width,
        most_replicas=most_replicas(ready),
        seed=inputs.seed,
    )
    answer = with_energy(_answer(inputs, ready, outcome, facts), inputs)
    return FleetRun(answer=answer, outcome=outcome)


def decided_fields(inputs: FleetGoodput, ready: FleetJob) -> dict[str, Any]:
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
        given = inputs.model_fields_set
        spares = {name: value if name in given else None for name, value in spares.items()}
    decided = spares | {
        "gpus": ready.gpus,
        "fleet_units": ready.job.fleet.units,
        "strategy": ready.strategy.name if ready.strategy_is_named else None,
        "seed": inputs.seed,
        "method": "simulate",
    }
    return complete_scenario(verb_fields("goodput"), inputs, **decided)


def _answer(inputs: FleetGoodput, ready: FleetJob, outcome: Outcome, facts: StepFacts) -> Answer:
    """Return the envelope of an answer, without the scenario."""
    rates = rate_interval(ready.job.fleet, ready.job.units, inputs.fleet)
    expected = expected_goodput(ready.job.fleet, ready.job.units, ready.strategy)
    results = _results(inputs, ready, outcome) | _ends(inputs, ready, outcome, rates.share)
    results["closed_form_goodput"] = expected.goodput
    results["checkpoint_bytes"] = facts.checkpoint_bytes
    results |= deadline_probability(inputs, ready)
    gains = Gains([], [])
    if inputs.what_if:
        gains = single_changes(inputs, ready, outcome)
        results["changes"] = gains.rows
    held_s = ready.gpus * exact_sum(outcome.ended_R) / outcome.ticks_RF.shape[0] / TICKS_PER_SECOND
    return Answer(
        command="goodput",
        scenario={},
        results=results,
        breakdown=bucket_rows(ended_shares(outcome), held_s),
        evidence=Evidence(
            tier="simulate",
            assumptions=(
                *_assumptions(inputs, ready, outcome),
                *gains.text(),
                *facts.notes,
                _closed_form_text(expected, outcome),
                rates.text(),
            ),
        ),
        warnings=(
            *outcome.remarks(),
            *filter(None, [restart_remark(ready.strategy, results["mtti_s"], outcome.goodput)]),
            *fleet_remarks(inputs, ready),
            *deadline_remarks(results),
        ),
    )


def most_replicas(ready: FleetJob) -> int:
    """Return the number of replicas that are simulated at most."""
    from perfatlas.reliability.fleet.model import fleet_rate_per_s

    failures = fleet_rate_per_s(ready.job.fleet, ready.job.units) * ready.job.horizon_s
    return int(min(max(MOST_FAILURES / max(failures, 1.0), 2.0), MOST_REPLICAS))


def ended_shares(outcome: Outcome) -> dict[str, float]:
    """Return the share of each category in the time until replicas ended; they sum to 1."""
    total = exact_sum(outcome.ended_R)
    return {
        name: exact_sum(outcome.column(name)) / total for name in BUCKETS if name != BUCKETS[IDLE]
    }


def _results(inputs: FleetGoodput, ready: FleetJob, outcome: Outcome) -> dict[str, Any]:
    replicas = outcome.ticks_RF.shape[0]
    ended_s = exact_sum(outcome.ended_R) / TICKS_PER_SECOND / replicas
    interruptions = float(outcome.column("interruptions").sum()) / replicas
    results: dict[str, Any] = {
        "goodput": outcome.goodput,
        "goodput_low": None,
        "goodput_high": None,
        "checkpoint_interval_s": ready.strategy.interval_s,
        "optimal_checkpoint_interval_s": ready.optimal_interval_s,
        "mtti_s": known_mtti_s(ready.job, ready.strategy) or outcome.mtti_s,
        "interruptions_per_day": interruptions / ended_s * DAY_S,
        "interruptions": interruptions,
        "duration_s": ended_s,
        "gpu_hours": gpu_hours(ready.gpus * ended_s),
        "lost_gpu_hours": gpu_hours((1.0 - outcome.goodput) * ready.gpus * ended_s),
        "gpus": ready.gpus,
        "gpus_held": _held(ready),
        "spares": ready.strategy.spares.count,
        "method": "simulate",
        "replicas": replicas,
        "seed": inputs.seed,
    }
    if inputs.work_s is None:
        useful_R = outcome.goodput_R * results["gpu_hours"]
        results["useful_gpu_hours"] = statistics(useful_R, WITH_P5)
    else:
        results["finish_s"] = statistics(outcome.ended_R / TICKS_PER_SECOND, WITH_P5)
        results["unfinished"] = outcome.unfinished
    results |= _costs(inputs, ready, outcome, results)
    return results | {"factors": factors(inputs, ended_shares(outcome))}


def _ends(
    inputs: FleetGoodput, ready: FleetJob, outcome: Outcome, share: float
) -> dict[str, float]:
    """Return the interval of goodput, from the failure rates and the error of the mean.

    What a change of the rates does is a paired difference of the same replicas, of which
    `MOST_PAIRED` are enough.
    """
    found = {}
    count = outcome.ticks_RF.shape[0]
    paired = outcome.first(MOST_PAIRED)
    for end, sign in (("low", 1.0), ("high", -1.0)):
        goodput, half_width, unsaved = outcome.goodput, outcome.half_width, outcome.unsaved
        if share:
            job = replace(ready.job, fleet=scaled_rates(ready.job.fleet, 1.0 + sign * share))
            size = paired.ticks_RF.shape[0]
            moved = simulate(job, ready.strategy, replicas=size, seed=inputs.seed)
            goodput, half_width, unsaved = moved.goodput, moved.half_width, moved.unsaved
            if size < count:
                goodput += outcome.goodput - paired.goodput
                half_width = math.hypot(outcome.half_width, moved.difference_half_width(paired))
        value = goodput - sign * NARROWER * half_width
        value -= unsaved if sign > 0.0 else 0.0  # it may still be lost
        found[f"goodput_{end}"] = min(max(value, 0.0), 1.0)
    return found


def _costs(
    inputs: FleetGoodput, ready: FleetJob, outcome: Outcome, results: dict[str, Any]
) -> dict[str, Any]:
    """Return the cost of job and spares [USD], where a price is set."""
    if inputs.usd_per_gpu_hour is None:
        return {}
    cost_R = gpu_hours(_held(ready) * outcome.ended_R / TICKS_PER_SECOND) * inputs.usd_per_gpu_hour
    cost = statistics(cost_R, WITH_P5)
    useful = outcome.goodput * results["gpu_hours"]
    return {
        "cost_usd": cost,
        "usd_per_useful_gpu_hour": cost["mean"] / useful if useful else None,
    }


def _held(ready: FleetJob) -> int:
    """Return the GPUs of the job and its spares."""
    return ready.gpus + (ready.strategy.spares.count or 0) * ready.job.fleet.gpus_per_unit


def factors(inputs: FleetGoodput, shares: dict[str, float]) -> dict[str, float]:
    """Return the goodput factors and their product.

    Args:
        shares: Share of each category, summing to 1.

    Source: an identity: with w waiting and maintenance, d running slower and p productive,
        p = (1 - w) ((p + d) / (1 - w)) (1 - d / (p + d)).
    """
    away = shares["waiting_for_spares"] + shares["maintenance"]
    running = shares["productive"] + shares["degraded"]
    found = {
        "availability": 1.0 - away,
        "scheduling": 1.0 if inputs.scheduling is None else inputs.scheduling,
        "ettr": running / (1.0 - away) if away < 1.0 else 0.0,
        "not_degraded": shares["productive"] / running if running else 1.0,
    }
    if inputs.mfu is not None:
        found["mfu"] = inputs.mfu
    return found | {"product": math.prod(found.values())}


def _closed_form_text(expected: Expected, outcome: Outcome) -> str:
    """Return the closed-form result for the same job, as text."""
    if expected.goodput is None:
        return expected.form
    notes = f"closed form: {100.0 * expected.goodput:.3g}%, {expected.form}"
    if not expected.leaves_out:
        if abs(outcome.goodput - expected.goodput) <= SIGNIFICANT_HALF_WIDTHS * outcome.half_width:
            return f"{notes}, consistent with the simulation"
        days = float(outcome.ended_R.mean()) / TICKS_PER_SECOND / DAY_S
        errors = (outcome.goodput - expected.goodput) / outcome.standard_error
        return (
            f"{notes}, in steady state; the {significant(days)} d simulated are"
            f" {two_digits(abs(errors))}"
            f" standard errors {'above' if errors > 0.0 else 'below'} it"
        )
    return f"{notes}; it does not model {', '.join(expected.leaves_out)}"


def _strategy_text(strategy: Strategy) -> str:
    """Return the description of a strategy."""
    levels = [
        f"{level.name}" + (f" every {level.every}" if level.every > 1 else "")
        for level in strategy.levels
    ]
    texts = [f"checkpoints {', '.join(levels)}"]
    if strategy.verify_s:
        texts.append(f"verified in {strategy.verify_s:g} s")
    texts.append(f"restarts {', '.join(restart.name for restart in strategy.restarts)}")
    if strategy.spares.kind != "cold":
        texts.append(f"{strategy.spares.kind} spares")
    if strategy.shrink is not None:
        texts.append(f"elastic down to {counted(strategy.shrink.fewest, 'unit')}")
    if strategy.maintenance is not None:
        every_d = strategy.maintenance.every_s / DAY_S
        texts.append(
            f"maintenance of {strategy.maintenance.lasts_s / HOUR_S:g} h every {every_d:g} d"
        )
    return "; ".join(texts)


def _assumptions(inputs: FleetGoodput, ready: FleetJob, outcome: Outcome) -> list[str]:
    fleet = ready.job.fleet
    count = outcome.ticks_RF.shape[0]
    ran = (
        f"{counted(count, 'replica')} of the job on {ready.job.units:,} of"
        f" {counted(fleet.units, 'unit')} of {counted(fleet.gpus_per_unit, 'GPU')}, seed"
        f" {inputs.seed}; jobs with equal seeds meet the same failures (common random numbers)"
    )
    met = half_width_text(inputs.half_width, outcome)
    notes = [ran, met, f"causes of failure: {', '.join(cause.name for cause in fleet.causes)}"]
    notes += initial_ages_text(fleet)
    if ready.strategy.name != "synchronous":
        notes.append(f"strategy {ready.strategy.name!r}: {_strategy_text(ready.strategy)}")
    if inputs.response is not None:
        notes.append(recovery_policies()[inputs.response].text())
    if not ready.interval_is_given:
        notes.append(f"work between checkpoints: {ready.interval_note}")
    if inputs.scheduling is None:
        notes.append("the job is assumed scheduled all the time; set scheduling to a smaller share")
    if inputs.mfu is None:
        notes.append("no MFU is set: the product is a share of time, not of peak FLOP/s")
    exposed = exact_sum(outcome.column("exposed")) / exact_sum(outcome.ended_R)
    if exposed < EXPOSED_SHARE:
        notes.append(
            f"the mean time to interruption counts exposed time, {exposed:.1%} of the total;"
            " interruptions per day refer to the total time"
        )
    notes += unevaluated_changes(ready) if inputs.what_if else []
    if inputs.work_s is not None:
        notes.append(
            f"a job not finished after {significant(ready.job.horizon_s / DAY_S, 4)} d is abandoned"
        )
    return notes
