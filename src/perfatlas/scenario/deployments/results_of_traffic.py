"""Results of a simulation run, named as in the vocabulary."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from perfatlas.inference import ITEM_NAMES, memory_columns, plain_results
from perfatlas.scenario.deployments.heterogeneous_replicas import kind_results
from perfatlas.scenario.deployments.replica_results import operation_results
from perfatlas.scenario.deployments.services import fleet_of
from perfatlas.scenario.fields import tier_results
from perfatlas.serving.outcome import tail_parts
from perfatlas.serving.requests import TICKS_PER_SECOND
from perfatlas.vocabulary import metrics

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perfatlas.scenario.deployments.arrivals import ResolvedTraffic
    from perfatlas.scenario.deployments.services import Service
    from perfatlas.serving.outcome import Outcome

BOTH_ENDS: Final = [metric for metric in metrics.metrics_of("simulate") if metric.has_interval]
TIMES: Final = tuple(metric.name for metric in BOTH_ENDS if metric.better == "lower")
RATES: Final = tuple(metric.name for metric in BOTH_ENDS if metric.better == "higher")
SEARCHED: Final = (
    *("max_requests_per_s", "required_replicas", "max_sessions", "max_sessions_per_gpu"),
    *("required_prefill_workers", "required_decode_workers"),
)

KEPT: Final = ("capacity_requests_per_s", "goodput_requests_per_s")
OF_REQUESTS: Final = {"output_tokens_per_s": "throughput_per_s", **ITEM_NAMES}
# parts of names of results that requests of a graph of operators do not have
OF_TOKENS: Final = (
    *(
        "token",
        "ttft",
        "tpot",
        "itl",
        "prefill",
        "decode",
        "kv_",
        "prefix",
        "cache_hit",
        "preemptions",
    ),
    *("tail_", "energy_per_request", "requests_per_s", "max_num_seqs"),
)


def item_row(results: Mapping[str, Any]) -> dict[str, Any]:
    """Return results of requests with one output token as those of items, without tokens."""
    found: dict[str, Any] = {}
    for name, value in results.items():
        stem = metrics.stem_of(name)
        if (renamed := OF_REQUESTS.get(stem)) is not None:
            found[f"{renamed}{name.removeprefix(stem)}"] = value
        elif stem in KEPT or not any(part in name for part in OF_TOKENS):
            found[name] = value
    return found


def item_results(results: Mapping[str, Any], item: str) -> dict[str, Any]:
    """Return the results of requests of a graph of operators, each of which is an item.

    Args:
        results: Results of requests with one output token.
        item: What an item is.
    """
    found = item_row(results)
    found["series"] = {name: v for name, v in results["series"].items() if "kv_" not in name}
    passes = metrics.share(results["requests_completed"], results["steps"])
    return found | {"item": item, "items_per_pass": passes}


def traffic_results(
    ready: Service, resolved: ResolvedTraffic, outcome: Outcome, found: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the results of a run.

    Args:
        found: Its latencies and rates, from `serving.summarize`.

    Returns:
        `found` with further results, such as `utilization`: the fraction of the makespan in which
        engines ran steps, averaged over engines and including outages; with an autoscaler, the
        fraction of the time they were allocated. Two pools have `prefill_utilization` and
        `decode_utilization`.
    """
    results = dict(found)
    entry, decoding = ready.entry, ready.decoding
    results |= tail_parts(resolved.requests, outcome, fleet_of(ready).groups, ready.seen)
    if resolved.concurrency:
        results["saturated"] = False
    rate, total = results["output_tokens_per_s"], results.pop("total_tokens_per_s")
    smallest = (
        min(ready.pools, key=lambda kind: kind.capacity_tokens) if ready.heterogeneous else decoding
    )
    results |= {
        "gpus": ready.gpus,
        "output_tokens_per_s_per_gpu": metrics.output_tokens_per_s_per_gpu(rate, ready.gpus),
        "total_tokens_per_s_per_gpu": None if total is None else total / ready.gpus,
        "kv_capacity_tokens": smallest.capacity_tokens,
        "kv_blocks": smallest.limits.kv_blocks,
    }
    results |= tier_results(entry.limits, entry.tiers.block_bytes, outcome)
    if ready.heterogeneous:
        results |= kind_results(ready, resolved.requests, outcome, results["makespan_s"])
    operated = operation_results(ready.pools, outcome, results)
    scaled = bool(entry.replicas.availability.scalers)
    if (machine := ready.decoding.feed_forward) is not None:
        results["memory"] = ready.decoding.held_memory()
        results["feed_forward_memory"] = plain_results(memory_columns(machine.memory))
    if ready.named:
        return results | _pool_results(ready, outcome, results["makespan_s"], scaled) | operated
    held_s = operated["replica_time_s"] if scaled else None
    return results | _utilization(outcome, results["makespan_s"], held_s) | operated


def _utilization(
    outcome: Outcome, makespan_s: float, held_s: float | None
) -> dict[str, float | None]:
    """Return the fraction of time in which engines without separate pools run steps."""
    busy_s = float(outcome.busy_F.sum()) / TICKS_PER_SECOND
    there_s = makespan_s * outcome.busy_F.size if held_s is None else held_s
    return {"utilization": metrics.utilization(busy_s, there_s)}


def _pool_results(
    ready: Service,
    outcome: Outcome,
    makespan_s: float,
    scaled: bool,  # noqa: FBT001 - whether replicas start and stop
) -> dict[str, Any]:
    """Return the results of each of two pools."""
    found: dict[str, Any] = {}
    first = 0
    for role, pool in ready.named.items():
        own = slice(first, first + pool.replicas.number)
        first += pool.replicas.number
        busy_s = float(outcome.busy_F[own].sum()) / TICKS_PER_SECOND
        held_s = makespan_s * pool.replicas.number
        if scaled:
            held_s = float(outcome.operated.allocated_F[own].sum()) / TICKS_PER_SECOND
        found[f"{role}_utilization"] = metrics.utilization(busy_s, held_s)
    return found | {
        "prefill_kv_capacity_tokens": ready.entry.capacity_tokens,
        "prefill_kv_blocks": ready.entry.limits.kv_blocks,
        "memory": ready.decoding.held_memory(),
        "prefill_memory": ready.entry.held_memory(),
    }


def end_of_interval(found: Mapping[str, Any], end: str) -> dict[str, Any]:
    """Return the results at one end of the interval, by name; rates at the opposite end.

    Args:
        found: Latencies and rates with all steps faster or slower.
        end: low if they are faster, high if they are slower.
    """
    other = {"low": "high", "high": "low"}[end]
    ends = {f"{name}_{end}": found[name] for name in TIMES if name in found}
    return ends | {f"{name}_{other}": found[name] for name in RATES if name in found}


def containing_predictions(results: Mapping[str, Any]) -> dict[str, Any]:
    """Return results with intervals extended to contain them.

    Slower steps may happen to end a run sooner, as batches form at other times. The interval is
    then extended to the prediction, or its ends are swapped.

    Args:
        results: Results, some with `_low` and `_high`, each a number or numbers by statistic.

    Example:
        >>> from perfatlas.scenario.deployments.results_of_traffic import containing_predictions
        >>> containing_predictions(
        ...     {"makespan_s": 5.0, "makespan_s_low": 5.1, "makespan_s_high": 6.0}
        ... )
        {'makespan_s': 5.0, 'makespan_s_low': 5.0, 'makespan_s_high': 6.0}
    """
    held = dict(results)
    for name in (*TIMES, *RATES, *SEARCHED):
        known = [f"{name}_{end}" for end in ("low", "high") if f"{name}_{end}" in results]
        for end, outer in (("low", min), ("high", max)):
            key = f"{name}_{end}"
            for other in known if key in known else ():
                held[key] = _outer(held[key], results[other], outer)
            if key in known:
                held[key] = _outer(held[key], results[name], outer)
    return held


def _outer(end: Any, value: Any, outer: Any) -> Any:  # noqa: ANN401 - a number or a mapping of them
    if isinstance(end, dict):
        return {name: _outer(at, value[name], outer) for name, at in end.items()}
    return end if end is None or value is None else outer(end, value)
