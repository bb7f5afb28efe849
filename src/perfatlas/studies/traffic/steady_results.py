"""Results and remarks about the steady state of traffic: load, warm-up and precision."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.quantities import significant
from perfatlas.sampling import batch_precision
from perfatlas.serving.outcome import measured_window, request_latencies
from perfatlas.studies.probability import probability_at_most
from perfatlas.studies.traffic.run_length import FIRST
from perfatlas.vocabulary.metrics import SEEDS, STATISTICS

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from perfatlas.scenario.deployments import OfferedLoad
    from perfatlas.serving.outcome import Outcome
    from perfatlas.studies.traffic.run_length import TrafficRun

QUEUED: Final = ("ttft_s", "request_latency_s", "queue_s")  # include queueing
TAILS: Final = ("tail_ttft_s", "tail_request_latency_s")
MEASURED: Final = ("ttft_s", "tpot_s", "request_latency_s")
KEPT_OF_SAMPLE: Final = "latencies are those of this sample and grow with its length"
UNSTABLE: Final = "TTFT, queue time and request latency grow without bound and have no steady mean"


def load_results(run: TrafficRun) -> dict[str, Any]:
    """Return offered load and capacity, nothing where the traffic has no steady rate."""
    if run.load is None:
        return {}
    return {
        "capacity_requests_per_s": run.load.capacity_requests_per_s,
        "offered_load": run.load.share,
        "stability": run.load.stability,
        "saturated": run.load.stability == "overloaded",
    }


def window_results(run: TrafficRun, outcome: Outcome) -> dict[str, Any]:
    """Return which requests are measured, and how precise their latencies are.

    Returns:
        Half-widths are of 90% confidence intervals over the random draws, from batches of requests.
        A run of a fixed number of requests has its warm-up only: its results contain it.
    """
    if run.load is None:
        return {}
    latencies = request_latencies(run.resolved.requests, outcome, run.ready.seen)
    window = run.window
    if window is None:
        return {"warm_up_requests": measured_window(latencies, outcome, grows=run.load.grows).first}
    latencies = latencies.between(window)
    results: dict[str, Any] = {
        "warm_up_requests": window.first,
        "measured_requests": window.last - window.first,
        "precision_reached": run.precise,
    }
    for name in MEASURED:
        values_N = getattr(latencies, name)
        precise = {
            key: batch_precision(values_N, None if key == "mean" else float(key[1:])).half_width
            for key in STATISTICS
        }
        finite = {key: width if math.isfinite(width) else None for key, width in precise.items()}
        results[f"{name}{SEEDS}"] = finite
    return results


def gaps_between(run: TrafficRun) -> tuple[int, int] | None:
    """Return the times between which gaps between tokens count: arrivals of measured requests [ps].

    Args:
        run: What runs; None is returned where all its requests are measured.
    """
    if run.window is None:
        return None
    arrival_N = run.resolved.requests.arrival_N
    last = min(run.window.last, arrival_N.size) - 1
    return int(arrival_N[run.window.first]), int(arrival_N[last])


def without_steady_mean(results: Mapping[str, Any], load: OfferedLoad | None) -> dict[str, Any]:
    """Return results without the latencies that grow without bound above the capacity.

    Args:
        results: Results of a run that lasts as long as its precision asks.
    """
    if load is None or not load.grows:
        return dict(results)
    grows = [f"{name}{end}" for name in QUEUED for end in ("", "_low", "_high", SEEDS)]
    shown = {name: value for name, value in results.items() if name not in TAILS}
    return _without_values(shown, grows)


def steady_rates(
    results: Mapping[str, Any], load: OfferedLoad | None, slow: OfferedLoad | None
) -> dict[str, Any]:
    """Return results with the throughput of a deployment that keeps up as its interval.

    It is the offered rate while the deployment keeps up with it, and the capacity where slower
    steps would overload it; that of a run of finite length differs by chance.

    Args:
        results: Results of a run that lasts as long as its precision asks.
        slow: Load at the slow end of the interval of step times, None where it is unknown.
    """
    rate = results["requests_per_s"]
    if load is None or load.grows or slow is None or not rate:
        return dict(results)
    least = min(slow.capacity_requests_per_s / rate, 1.0) if slow.grows else 1.0
    changed: dict[str, Any] = {}
    for name in ("requests_per_s", "output_tokens_per_s"):
        changed |= {f"{name}_low": least * results[name], f"{name}_high": results[name]}
    return {**results, **changed}


def without_upper_limit(results: Mapping[str, Any], slow: OfferedLoad | None) -> dict[str, Any]:
    """Return results without upper limits where slower steps would overload the deployment.

    Args:
        results: With `_high` of latencies.
        slow: Load at the slow end of the interval of step times, None where it is unknown.
    """
    if slow is None or slow.stability == "stable":
        return dict(results)
    return _without_values(results, [f"{name}_high" for name in (*QUEUED, "tpot_s", "itl_s")])


def stable_probability(load: OfferedLoad | None, slow: OfferedLoad | None) -> dict[str, float]:
    """Return the probability of a stable load by name, where slower steps overload the deployment.

    Args:
        load: Offered load and capacity, None where they are unknown.
        slow: Load at the slow end of the interval of step times, None where it is unknown.
    """
    if load is None or load.grows or slow is None or slow.stability == "stable":
        return {}
    gap_s, slow_s = (
        np.array([1.0 / offered_load.capacity_requests_per_s]) for offered_load in (load, slow)
    )
    probability = probability_at_most(gap_s, gap_s, slow_s, 1.0 / load.requests_per_s)
    return {"stable_probability": float(probability[0])}


def _without_values(results: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    """Return results in which the statistics of some metrics are None."""
    return {
        name: dict.fromkeys(value) if name in names and isinstance(value, dict) else value
        for name, value in results.items()
    }


def steady_warnings(run: TrafficRun, slow: OfferedLoad | None) -> list[str]:
    """Return the warnings about load, warm-up and precision.

    Args:
        slow: Load at the slow end of the interval of step times, None where it is unknown.
    """
    load = run.load
    if load is None:
        return []
    shown = KEPT_OF_SAMPLE if run.window is None else UNSTABLE
    notes = _stability(load, shown.replace("TTFT, ", "") if run.ready.item else shown)
    if load.stability == "stable" and slow is not None and slow.stability != "stable":
        notes.append(
            "no upper limits of latencies: at the slow end of the step-time interval the capacity"
            f" is {significant(slow.capacity_requests_per_s)} requests/s, and the offered rate is"
            f" {slow.share:.0%} of it"
        )
    if run.window is not None and not run.precise:
        notes.append(
            f"sampling_precision = {run.traffic.sampling_precision:.3g} is not reached with"
            f" {run.traffic.num_requests:,} requests, the most that are simulated by default: see"
            " the half-widths, or set num_requests"
        )
    return notes


def _stability(load: OfferedLoad, shown: str) -> list[str]:
    rate, capacity = load.requests_per_s, load.capacity_requests_per_s
    if load.stability == "near capacity":
        side = "above" if load.grows else "below"
        notes = (
            f"{significant(rate, 4)} requests/s is within 3% of the capacity of"
            f" {significant(capacity, 4)} requests/s, and"
            f" {side} it: latencies depend on how long the traffic lasts"
        )
        return [notes]
    if load.stability == "stable":
        return []
    notes = (
        f"overloaded: {significant(rate, 4)} requests/s exceed the capacity of"
        f" {significant(capacity, 4)} requests/s; the"
        f" queue grows by {significant(rate - capacity)} requests/s; {shown}"
    )
    return [notes]


def length_note(run: TrafficRun, results: Mapping[str, Any]) -> list[str]:
    """Return the remark on what decided the length of a run, one text at most.

    Results of a fixed number of requests include the warm-up; a precision that the shortest run
    has leaves that run as it is.
    """
    traffic = run.traffic
    if run.window is not None and run.precise and "sampling_precision" in traffic.fields_set:
        if traffic.num_requests is None or traffic.num_requests > FIRST:
            return []
        reached = f"sampling_precision = {traffic.sampling_precision:.3g} is reached by"
        return [f"{reached} the shortest run, of {traffic.num_requests:,} requests"]
    warm_up = results.get("warm_up_requests") or 0
    if run.window is not None or not warm_up:
        return []
    notes = (
        f"the first {warm_up:,.0f} requests are warm-up (MSER-5) and are included, as num_requests"
        " is set; without it the run is as long as sampling_precision asks, and starts after them"
    )
    return [notes]
