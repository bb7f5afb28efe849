"""Simulation of measured serving runs, as in their benchmark: closed loop, engine limits."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

from perfatlas.quantities import PerfatlasError
from perfatlas.scenario.deployments import Service, deployment, resolve_traffic, run_traffic
from perfatlas.scenario.resolution import split_fields
from perfatlas.serving.config import Control
from perfatlas.serving.outcome import request_latencies
from perfatlas.vocabulary.metrics import statistics
from validation.runs.deduplication import is_dense
from validation.runs.predictions import OF_CLIENTS, run_question

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from perfatlas.scenario.deployments import Deployment, Priced
    from validation.runs.pool_launches import PoolLaunch
    from validation.runs.run_selection import ServingRules
    from validation.runs.serving_launches import Launch
    from validation.runs.serving_rows import ServingRun

Row = dict[str, Any]
Run = TypeVar("Run")
METRICS: Final = ("ttft", "tpot")
DEFAULTS: Final = "engine defaults"


def simulate_runs(
    runs: Sequence[ServingRun], rules: ServingRules, *, launched: bool = True
) -> list[Row]:
    """Return simulated and measured latencies of runs.

    A client keeps `concurrency` requests in flight, starting all at once, and sends ten times as
    many, or as its launch states; lengths are drawn as in the client's source.

    Args:
        runs: The runs, with their actual plan.
        rules: Scenario rules and engine launches.
        launched: Whether the engines have the limits of their launches; otherwise those that
            follow from the scenario alone.

    Returns:
        One row per run, in order: its fields, `ttft_s` and `tpot_s` with `_measured_s` and
        `_error`, None with the reason in `error` where not simulated.
    """
    if not launched:
        rules = rules.without_limits()
    return by_deployment(runs, _deployed, lambda run, known: _simulated_row(run, rules, known))


def by_deployment(
    runs: Sequence[Run],
    deployed: Callable[[Run], tuple[Any, ...]],
    simulated: Callable[[Run, Priced], Row],
) -> list[Row]:
    """Return a row per run, in order, with the price tables of one deployment at a time.

    Args:
        deployed: What runs share that have the same price tables.
        simulated: Returns the row of a run.
    """
    known: Priced = {}
    last: tuple[Any, ...] = ()
    rows: dict[int, Row] = {}
    for index in sorted(range(len(runs)), key=lambda place: deployed(runs[place])):
        if deployed(runs[index]) != last:
            known, last = {}, deployed(runs[index])
        rows[index] = simulated(runs[index], known)
    return [rows[index] for index in range(len(runs))]


def _deployed(run: ServingRun) -> tuple[Any, ...]:
    plan = (run.tp, run.attention_dp, run.ep, run.isl, run.osl)
    return (run.backend, run.model, run.precision, run.system, *plan)


def _simulated_row(run: ServingRun, rules: ServingRules, known: Priced) -> Row:
    launch = rules.launch(run)
    plan = {name: getattr(run, name) for name in ("tp", "attention_dp", "ep")}
    row = measured_row(run, rules, launch) | plan
    try:
        found = _statistics(run, rules, known)
    except PerfatlasError as error:
        return row | {"error": str(error)}
    return row | simulated_times(row, found, rules)


def measured_row(run: ServingRun, rules: ServingRules, launch: Launch | PoolLaunch | None) -> Row:
    """Return the fields of a run that is not simulated yet."""
    row: Row = {
        "id": run.id,
        "model": run.model,
        "network": rules.network(run),
        "precision": run.precision,
        "system": run.system,
        "backend": run.backend,
        "kind": run.kind,
        "dense": is_dense(run),
        "concurrency": run.concurrency,
        "isl": run.isl,
        "osl": run.osl,
        "launch": DEFAULTS if launch is None else launch.name,
        "unsimulated": "" if launch is None else launch.unsimulated,
        "ttft_measured_s": run.ttft_s,
        "tpot_measured_s": run.tpot_s,
        "error": "",
    }
    return row | dict.fromkeys(f"{name}_{end}" for name in METRICS for end in ("s", "error"))


def simulated_times(row: Row, found: Mapping[str, Any], rules: ServingRules) -> Row:
    """Return simulated times of a row and their errors.

    Args:
        row: From `measured_row`.
        found: Statistics by metric.
    """
    times = {name: found[name]["mean"] for name in METRICS}
    times["ttft"] = found["ttft"][rules.ttft_statistic[row["kind"]]]
    errors = {f"{name}_error": times[name] / row[f"{name}_measured_s"] - 1.0 for name in METRICS}
    return {f"{name}_s": time_s for name, time_s in times.items()} | errors


def run_fields(run: ServingRun, rules: ServingRules) -> Row:
    """Return the arguments of `perfatlas.simulate` for a run, by vocabulary name.

    Args:
        run: The run, with its actual plan.
        rules: Scenario rules and engine launches.
    """
    question = run_question(run, rules, {"as_served": True})
    unasked = ("mode", "method", *OF_CLIENTS)  # the simulation sends their requests itself
    fields = {n: value for n, value in question.items() if value is not None and n not in unasked}
    fields |= drawn_lengths(rules.length_ratio[run.kind])
    fields["prompt_text"] = rules.prompt_text[run.kind]
    launch = rules.launch(run)
    if launch is not None and not launch.limited:
        fields.pop("stream_interval", None)
    fields["num_requests"] = run.concurrency * (10 if launch is None else launch.rounds)
    return fields if launch is None else fields | launch.fields(run)


def drawn_lengths(ratio: float) -> Row:
    """Return the length distribution, by vocabulary name: uniform up to the nominal length.

    Args:
        ratio: Mean over nominal length; 1 for clients whose requests are equal.
    """
    if ratio == 1.0:
        return {"length_distribution": "fixed"}
    return {"length_distribution": "uniform", "length_spread": (1.0 - ratio) / ratio}


def _statistics(
    run: ServingRun, rules: ServingRules, known: Priced
) -> dict[str, dict[str, float | None]]:
    """Return mean and percentiles of TTFT and TPOT of simulated traffic [s]."""
    traffic, scenario = split_fields(run_fields(run, rules))
    launch = rules.launch(run)
    resolved = resolve_traffic(traffic, scenario)
    ready = deployment(scenario, traffic, resolved, known)
    if launch is not None:
        ready = as_launched(ready, launch.changes(ready.limits))
    outcome = run_traffic(Service(pools=(ready,)), resolved, Control())
    found = request_latencies(resolved.requests, outcome, ready.seen)
    return {name: statistics(getattr(found, f"{name}_s")) for name in METRICS}


def as_launched(ready: Deployment, changes: Mapping[str, Any]) -> Deployment:
    """Return a deployment with the launch limits that have no vocabulary name.

    Args:
        changes: Changed limits.
    """
    ready = replace(ready, limits=ready.limits._replace(**changes))
    if changes.get("async_scheduling", True):
        return ready
    prices = ready.table.prices._replace(host_overlapped=False)
    return replace(ready, table=replace(ready.table, prices=prices))
