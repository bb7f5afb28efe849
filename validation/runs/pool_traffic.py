"""Simulation of measured runs of two pools, as in their benchmark: closed loop, pool limits."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from perfatlas.quantities import InfeasibleError, PerfatlasError
from perfatlas.scenario.deployments import resolve_traffic, run_traffic, service
from perfatlas.scenario.resolution import split_fields
from perfatlas.serving.config import Control
from perfatlas.serving.outcome import request_latencies
from perfatlas.vocabulary.metrics import statistics
from validation.runs.pool_runs import POOLS
from validation.runs.predictions import run_question
from validation.runs.serving_traffic import (
    METRICS,
    as_launched,
    by_deployment,
    drawn_lengths,
    measured_row,
    simulated_times,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfatlas.scenario.deployments import Priced, Service
    from validation.runs.pool_launches import PoolRun
    from validation.runs.run_selection import ServingRules

Row = dict[str, Any]
ROUNDS: Final = 10  # requests per request in flight: num_prompts of the benchmark's scripts
OF_A_WORKER: Final = ("system", "tp", "attention_dp", "ep")


def simulate_pool_runs(runs: Sequence[PoolRun], rules: ServingRules) -> list[Row]:
    """Return simulated and measured latencies of runs of two pools.

    A client keeps `concurrency` requests in flight, starting all at once, and sends ten times as
    many; lengths are drawn as in the client's source.

    Args:
        runs: The runs, with their actual plans.
        rules: Scenario rules and engine launches.

    Returns:
        One row per run, in order, with the columns of `simulate_runs` and the workers.
    """
    return by_deployment(runs, _deployed, lambda run, known: _simulated_row(run, rules, known))


def _deployed(run: PoolRun) -> tuple[Any, ...]:
    worker = run.decode
    return (worker.backend, worker.model, worker.precision, worker.system)


def _simulated_row(run: PoolRun, rules: ServingRules, known: Priced) -> Row:
    worker, launch = run.decode, rules.pool_launch(run)
    row = measured_row(worker, rules, launch) | {
        "id": run.id,
        "split": next((k for k, v in rules.pool_split.items() if worker.system in v), ""),
        "pools": " + ".join(_words(run, role) for role in POOLS),
        "kv_transfer_s": None,
    }
    try:
        found = _statistics(run, rules, known)
    except PerfatlasError as error:
        return row | {"error": str(error)}
    times = {"kv_transfer_s": found["kv_transfer"]["mean"]}
    return row | times | simulated_times(row, found, rules)


def _words(run: PoolRun, role: str) -> str:
    worker = getattr(run, role)
    ranks = f" dp {worker.attention_dp}" if worker.attention_dp > 1 else ""
    return f"{worker.dp} x tp {worker.tp}{ranks} {role}"


def pool_fields(run: PoolRun, rules: ServingRules) -> Row:
    """Return the arguments of `perfatlas.simulate` for a run, by vocabulary name.

    Args:
        run: The run, with its actual plans.
        rules: Scenario rules.
    """
    question = run_question(run.decode, rules, {})
    fields = {name: value for name, value in question.items() if value is not None}
    for name in ("method", "dp", "stream_interval", *OF_A_WORKER):
        fields.pop(name, None)
    fields["mode"] = "disaggregated"
    for role in POOLS:
        own = run_question(getattr(run, role), rules, {})
        fields |= {f"{role}_{name}": own[name] for name in OF_A_WORKER if own[name] is not None}
        fields[f"{role}_workers"] = own["dp"]
    fields["num_requests"] = run.decode.concurrency * ROUNDS
    launch = rules.pool_launch(run)
    fields |= {} if launch is None else launch.fields(run)
    fields["prompt_text"] = rules.prompt_text[run.decode.kind]
    return fields | drawn_lengths(rules.length_ratio[run.decode.kind])


def _statistics(
    run: PoolRun, rules: ServingRules, known: Priced
) -> dict[str, dict[str, float | None]]:
    """Return mean and percentiles of TTFT, TPOT and the transfer of simulated traffic [s]."""
    traffic, scenario = split_fields(pool_fields(run, rules))
    resolved = resolve_traffic(traffic, scenario)
    ready = service(scenario, traffic, resolved, known)
    ready = launched_pools(ready, run, rules)
    outcome = run_traffic(ready, resolved, Control())
    found = request_latencies(resolved.requests, outcome, ready.seen)
    if found.place_N.size < resolved.requests.isl_N.size:
        missing = resolved.requests.isl_N.size - found.place_N.size
        raise InfeasibleError(f"{missing:,} requests exceed the capacity of every scheduler")
    names = (*METRICS, "kv_transfer")
    return {name: statistics(getattr(found, f"{name}_s")) for name in names}


def launched_pools(ready: Service, run: PoolRun, rules: ServingRules) -> Service:
    """Return a service with the launch limits of its engines.

    Args:
        ready: The service with default limits.
        rules: Engine launches.
    """
    launch, batch = rules.pool_launch(run), rules.decode_batch(run)
    pools = []
    for role, pool in ready.named.items():
        limits = pool.limits
        changes = {} if launch is None else launch.changes(role, getattr(run, role), limits)
        if role == "decode" and batch is not None:
            changes["max_num_seqs"] = min(batch, limits.max_num_seqs)
        pools.append(as_launched(pool, changes))
    return replace(ready, pools=tuple(pools))
