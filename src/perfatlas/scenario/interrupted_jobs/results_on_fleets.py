"""Results of a simulated job on a fleet: goodput and its interval, factors, cost, assumptions."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from perfatlas.quantities import DAY_S, HOUR_S, counted, significant, two_digits
from perfatlas.reliability.fleet import model
from perfatlas.reliability.fleet.closed_form import (
    Expected,
    known_mtti_s,
)
from perfatlas.reliability.fleet.laws import BUCKETS, IDLE, TICKS_PER_SECOND
from perfatlas.reliability.fleet.simulator import (
    JobOutcome,
    exact_sum,
    simulate,
)
from perfatlas.scenario.interrupted_jobs.changed_jobs import unevaluated_changes
from perfatlas.scenario.interrupted_jobs.interruptions import half_width_text
from perfatlas.vocabulary.metrics import METRICS, gpu_hours, statistics

if TYPE_CHECKING:
    from perfatlas.scenario.interrupted_jobs.job_fields import FleetGoodput
    from perfatlas.scenario.interrupted_jobs.job_on_fleet import FleetJob


MAX_FAILURES: Final = 100_000_000  # total of all replicas; well under a minute
MAX_REPLICAS: Final = 100_000
MAX_PAIRED_REPLICAS: Final = 4096  # replicas run again with other failure rates
SIGNIFICANT_HALF_WIDTHS: Final = 2.0  # of a 95% interval: larger deviations are significant
EXPOSED_SHARE: Final = 0.99  # share of exposed time below which a remark is added
WITH_P5: Final = METRICS["cost_usd"].statistics


def most_replicas(ready: FleetJob) -> int:
    """Return the number of replicas that are simulated at most."""
    failures = model.fleet_rate_per_s(ready.job.fleet, ready.job.units) * ready.job.horizon_s
    return int(min(max(MAX_FAILURES / max(failures, 1.0), 2.0), MAX_REPLICAS))


def ended_shares(outcome: JobOutcome) -> dict[str, float]:
    """Return the share of each category in the time until replicas ended; they sum to 1."""
    total = exact_sum(outcome.ended_R)
    return {
        name: exact_sum(outcome.column(name)) / total for name in BUCKETS if name != BUCKETS[IDLE]
    }


def fleet_results(inputs: FleetGoodput, ready: FleetJob, outcome: JobOutcome) -> dict[str, Any]:
    """Return the results of a simulated job, without the interval of its goodput."""
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


def goodput_ends(
    inputs: FleetGoodput, ready: FleetJob, outcome: JobOutcome, share: float
) -> dict[str, float]:
    """Return the interval of goodput, from the failure rates and the error of the mean.

    What a change of the rates does is a paired difference of the same replicas, of which
    `MAX_PAIRED_REPLICAS` are enough.
    """
    found = {}
    count = outcome.ticks_RF.shape[0]
    paired = outcome.first(MAX_PAIRED_REPLICAS)
    for end, sign in (("low", 1.0), ("high", -1.0)):
        goodput, half_width, unsaved = outcome.goodput, outcome.half_width, outcome.unsaved
        if share:
            job = replace(ready.job, fleet=model.scaled_rates(ready.job.fleet, 1.0 + sign * share))
            size = paired.ticks_RF.shape[0]
            moved = simulate(job, ready.strategy, replicas=size, seed=inputs.seed)
            goodput, half_width, unsaved = moved.goodput, moved.half_width, moved.unsaved
            if size < count:
                goodput += outcome.goodput - paired.goodput
                half_width = math.hypot(outcome.half_width, moved.difference_half_width(paired))
        value = goodput - sign * model.NARROWER * half_width
        value -= unsaved if sign > 0.0 else 0.0  # it may still be lost
        found[f"goodput_{end}"] = min(max(value, 0.0), 1.0)
    return found


def _costs(
    inputs: FleetGoodput, ready: FleetJob, outcome: JobOutcome, results: dict[str, Any]
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


def closed_form_text(expected: Expected, outcome: JobOutcome) -> str:
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


def _strategy_text(strategy: model.Strategy) -> str:
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


def fleet_assumptions(inputs: FleetGoodput, ready: FleetJob, outcome: JobOutcome) -> list[str]:
    """Return the assumptions of a simulated job, as sentences."""
    fleet = ready.job.fleet
    count = outcome.ticks_RF.shape[0]
    ran = (
        f"{counted(count, 'replica')} of the job on {ready.job.units:,} of"
        f" {counted(fleet.units, 'unit')} of {counted(fleet.gpus_per_unit, 'GPU')}, seed"
        f" {inputs.seed}; jobs with equal seeds meet the same failures (common random numbers)"
    )
    met = half_width_text(inputs.half_width, outcome)
    notes = [ran, met, f"causes of failure: {', '.join(cause.name for cause in fleet.causes)}"]
    notes += model.initial_ages_text(fleet)
    if ready.strategy.name != "synchronous":
        notes.append(f"strategy {ready.strategy.name!r}: {_strategy_text(ready.strategy)}")
    if inputs.response is not None:
        notes.append(model.recovery_policies()[inputs.response].text())
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
