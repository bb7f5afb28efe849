"""How far runs of as many requests differ by their random arrivals and lengths.

A run is compared with another one of as many requests, that of a benchmark: both draw their own
arrivals and lengths. The spread is composed with the interval of the step times in quadrature.

Shape legend: N requests, G gaps between arrivals.
"""

from __future__ import annotations

import math
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from perfatlas.sampling import batch_precision
from perfatlas.scenario.deployments import has_steady_rate
from perfatlas.serving.outcome import request_latencies
from perfatlas.serving.requests import TICKS_PER_SECOND
from perfatlas.vocabulary.metrics import STATISTICS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perfatlas.operators import FloatArray
    from perfatlas.scenario.fields import Scenario, Traffic
    from perfatlas.serving.outcome import Outcome
    from perfatlas.studies.traffic.run_length import TrafficRun

NORMAL: Final = 1.645  # standard deviations of the half-width of a 90% interval
LATENCIES: Final = ("ttft_s", "tpot_s", "request_latency_s")
REQUEST_RATES: Final = ("requests_per_s", "goodput_requests_per_s")

Spread = dict[str, "float | dict[str, float]"]


class RateSpread(NamedTuple):
    """Half-widths of the 90% intervals of ln(rate of one run / rate of another)."""

    requests: float  # Of requests per second
    tokens: float  # Of output tokens per second


def draws_traffic(traffic: Traffic, scenario: Scenario) -> bool:
    """Return whether another seed gives other arrivals or lengths at the same mean rate."""
    if not has_steady_rate(traffic, scenario):
        return False
    timed = traffic.arrival != "constant" and math.isfinite(traffic.request_rate or math.inf)
    return timed or traffic.length_distribution not in (None, "fixed")


def arrival_spread(run: TrafficRun, outcome: Outcome) -> Spread:
    """Return the half-widths of ln(one run / another) by result, by statistic for latencies.

    Args:
        run: What ran, with random traffic.

    Returns:
        Latencies of fewer than 100 requests have none.

    Limits: Latencies by batch means, which underestimate the spread of a queue that is not in
        steady state.
    """
    factor = math.sqrt(1.0 + 1.0 / run.traffic.num_seeds)
    rates = _rate_spread(run, outcome)
    spread: Spread = dict.fromkeys(REQUEST_RATES, factor * rates.requests)
    spread |= {"output_tokens_per_s": factor * rates.tokens, "makespan_s": factor * rates.requests}
    latencies = request_latencies(run.resolved.requests, outcome, run.ready.seen)
    if run.window is not None:
        latencies = latencies.between(run.window)
    for name in LATENCIES:
        values_N = getattr(latencies, name)
        widths = {}
        for key in STATISTICS:
            relative = batch_precision(values_N, None if key == "mean" else float(key[1:])).relative
            if math.isfinite(relative):
                widths[key] = factor * math.log1p(relative)
        spread[name] = widths
    return spread


def _rate_spread(run: TrafficRun, outcome: Outcome) -> RateSpread:
    """Return the spread of the rates of as many requests.

    While a deployment keeps up, the last arrival decides how long a run lasts, and the drain after
    it adds a constant. An overloaded one is limited by the work of its requests.
    """
    requests = run.resolved.requests
    first, last = (0, None) if run.window is None else (run.window.first, run.window.last)
    arrival_N, osl_N = requests.arrival_N[first:last], requests.osl_N[first:last]
    lengths = NORMAL * _relative(osl_N.astype(np.float64)) / math.sqrt(max(osl_N.size, 1))
    if run.load is not None and run.load.grows:
        return RateSpread(lengths, lengths)
    gap_G = np.diff(arrival_N.astype(np.float64))
    times = NORMAL * _relative(gap_G) / math.sqrt(max(gap_G.size, 1))
    done_N = outcome.finished_N >= 0
    if run.window is None and done_N.any():
        span = float(arrival_N[-1] - arrival_N[0]) / TICKS_PER_SECOND
        ended = float(outcome.finished_N[done_N].max() - arrival_N[0]) / TICKS_PER_SECOND
        times *= min(span / ended, 1.0)
    return RateSpread(times, math.hypot(times, lengths))


def _relative(values_N: FloatArray) -> float:
    """Return the standard deviation over the mean, 0 without a mean."""
    mean = float(values_N.mean()) if values_N.size else 0.0
    return float(values_N.std()) / mean if mean > 0.0 else 0.0


def widened(results: Mapping[str, Any], spread: Spread) -> dict[str, Any]:
    """Return results whose intervals hold the spread too, composed in quadrature.

    Args:
        results: With `_low` and `_high` by name; ends that are missing or None stay.
        spread: From `arrival_spread`.

    Example:
        >>> from perfatlas.studies.traffic.spread_of_draws import widened
        >>> found = {"requests_per_s": 1.0, "requests_per_s_low": 1.0, "requests_per_s_high": 1.0}
        >>> round(widened(found, {"requests_per_s": 0.1})["requests_per_s_high"], 4)
        1.1052
    """
    clipped = dict(results)
    for name, width in spread.items():
        for end in ("low", "high"):
            key = f"{name}_{end}"
            if results.get(key) is not None:
                clipped[key] = _end(results[name], results[key], width, end)
    return clipped


def _end(value: Any, end: Any, width: Any, which: str) -> Any:  # noqa: ANN401 - number or mapping
    if isinstance(value, dict):
        ends = {key: _end(value[key], end[key], width.get(key, 0.0), which) for key in value}
        # a higher percentile has no lower end
        percentiles = [key for key, end in ends.items() if key.startswith("p") and end is not None]
        ordered = sorted(percentiles, key=lambda key: float(key[1:]), reverse=which == "low")
        outer = min if which == "low" else max
        reached = accumulate((ends[key] for key in ordered), outer)
        return ends | dict(zip(ordered, reached, strict=True))
    if value is None or end is None or value <= 0.0 or end <= 0.0:
        return end
    away = math.hypot(math.log(end / value), width)
    return value * math.exp(-away if which == "low" else away)
