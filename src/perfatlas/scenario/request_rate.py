"""The largest request rate at which a deployment meets its objectives.

Every rate sees the same draws: arrivals are those of one seed with their times scaled, lengths
stay. What differs between two rates is the rate.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from perfatlas.quantities import InfeasibleError, InvalidSpecError
from perfatlas.scenario.service import Service, price_ends, run_traffic, service, slowed
from perfatlas.scenario.simulate import Simulation, simulate, split_fields
from perfatlas.scenario.traffic import Traffic, arriving
from perfatlas.serving import (
    TICKS_PER_SECOND,
    Control,
    request_latencies,
    saturated,
)

if TYPE_CHECKING:
    from perfatlas.scenario.vocabulary import Scenario
    from perfatlas.serving import Outcome, Requests

SMALLEST: Final = 1024.0  # of the rate of a full engine, the first rate that is tried
LARGEST: Final = 64.0  # times the rate of a full engine; short traffic may meet much
UNIT: Final = 1.0  # requests/s at which traffic is drawn
PRECISION: Final = 1.01  # ratio of the rates between which the answer lies
# the objectives that stand for a column of their own
COLUMNS: Final = {"itl_s": "tpot_s"}


class _Search(NamedTuple):
    """What is searched.

    Args:
        scenario: What runs where.
        traffic: What arrives, at a rate of 1 or as its file says.
        ready: What serves it, priced.
        unit: Requests/s at a factor of 1.
    """

    scenario: Scenario
    traffic: Traffic
    ready: Service
    unit: float


def max_request_rate(**fields: Any) -> Simulation:  # noqa: ANN401 - checked by schema
    """Return the largest request rate that meets the objectives, and what it is like there.

    A rate meets them where the asked percentile (or the mean) of every metric is within its
    objective, no request is rejected and the queue does not grow to the end. Rates are halved and
    doubled between, as ratios, to 1 %.

    Args:
        **fields: As for `simulate`, with at least one slo_*; slo_percentile for a percentile. A
            request_rate is not needed: the rates of generated traffic, or the times of a file, are
            scaled.

    Returns:
        The simulation at that rate; its results also hold `max_request_rate`, with `_low` and
        `_high` where all steps are as much slower or faster as serving runs were.

    Raises:
        InfeasibleError: No rate meets the objectives, or the model does not fit.
        InvalidSpecError: A name or value breaks a rule; no objective is given.
        UnsupportedError: No model, data or scheduler for the combination.

    Example:
        >>> from perfatlas import max_request_rate
        >>> found = max_request_rate(model="meta-llama/Llama-3.1-8B", system="h200_sxm",
        ...     num_requests=200, slo_ttft_s=0.1, slo_percentile=90)
        >>> 5 < found.answer.results["max_request_rate"] < 100
        True
    """
    search = _prepared(fields)
    factor = _largest_factor(search)
    rates: dict[str, Any] = {"max_request_rate": factor * search.unit}
    rates |= {"max_request_rate_low": None, "max_request_rate_high": None}
    other = {"low": "high", "high": "low"}
    for end, slower in price_ends(search.ready).items():
        try:
            moved = search._replace(ready=slowed(search.ready, slower))
            found = _largest_factor(moved) * search.unit
        except InfeasibleError:
            found = 0.0  # with steps that slow no rate meets the objectives
        rates[f"max_request_rate_{other[end]}"] = found
    done = simulate(**_asked_at(fields, factor * search.unit, factor))
    answer = replace(
        done.answer,
        command="simulate --find-rate",
        scenario=fields | {k: v for k, v in done.answer.scenario.items() if k not in _SCALED},
        results=rates | dict(done.answer.results),
    )
    return replace(done, answer=answer)


_SCALED: Final = ("request_rate", "rate_scale")


def _asked_at(fields: dict[str, Any], rate: float, factor: float) -> dict[str, Any]:
    """Return the fields of the simulation at the rate found."""
    if fields.get("requests"):
        return fields | {"rate_scale": factor}
    return fields | {"request_rate": rate}


def _prepared(fields: dict[str, Any]) -> _Search:
    """Return the search of named fields, its traffic at a factor of 1."""
    for name in _SCALED:
        if fields.get(name) not in (None, ""):
            raise InvalidSpecError(f"{name} = {fields[name]}: the rate is what is searched")
    probe = fields if fields.get("requests") else fields | {"request_rate": UNIT}
    traffic, scenario = split_fields(probe)
    if not traffic.objectives():
        raise InvalidSpecError(
            "no objective: give at least one of slo_ttft_s, slo_tpot_s, slo_itl_s,"
            " slo_request_latency_s; slo_percentile makes it one of a percentile"
        )
    came = arriving(traffic, scenario)
    if came.concurrency:
        raise InvalidSpecError("a closed loop has no rate; leave concurrency and arrival out")
    ready = service(scenario, traffic, came)
    unit = _rate(came.requests) if traffic.requests is not None else UNIT
    return _Search(scenario, traffic, ready, unit)


def _rate(requests: Requests) -> float:
    """Return the mean rate of arrivals [requests/s]."""
    span = int(requests.arrival_N[-1] - requests.arrival_N[0])
    if span <= 0:
        raise InvalidSpecError("all requests arrive at once; a rate needs times that differ")
    return (requests.arrival_N.size - 1) * TICKS_PER_SECOND / span


def _largest_factor(search: _Search) -> float:
    """Return the largest factor on the rate that meets the objectives.

    Raises:
        InfeasibleError: The smallest one tried does not.
    """
    full = _full_rate(search) / search.unit
    low, high = full / SMALLEST, full * LARGEST
    missed = _missed(search, low)
    if missed:
        raise InfeasibleError(
            f"no request rate meets the objectives: at {low * search.unit:.3g} requests/s {missed}"
        )
    while high / low > PRECISION:
        middle = math.sqrt(low * high)
        if _missed(search, middle):
            high = middle
        else:
            low = middle
    return low


def _full_rate(search: _Search) -> float:
    """Return the rate at which an engine that never lacks requests serves them [requests/s]."""
    came = arriving(search.traffic, search.scenario)
    once = came.requests._replace(arrival_N=np.zeros_like(came.requests.arrival_N))
    outcome = run_traffic(search.ready, came._replace(requests=once), Control())
    done = outcome.finished_N >= 0
    if not done.any():
        raise InfeasibleError("every request needs more cache than there is")
    return float(done.sum() * TICKS_PER_SECOND / outcome.finished_N.max())


def _missed(search: _Search, factor: float) -> str:
    """Return which objective is missed at a factor on the rate, "" where all are met."""
    values: dict[str, list[float]] = {}
    for seed in range(search.traffic.seed, search.traffic.seed + search.traffic.num_seeds):
        traffic = search.traffic.model_copy(update={"seed": seed})
        came = arriving(traffic, search.scenario)
        times_N = np.rint(came.requests.arrival_N / factor).astype(np.int64)
        came = came._replace(requests=came.requests._replace(arrival_N=times_N))
        outcome = run_traffic(search.ready, came, Control())
        if outcome.rejected().any():
            return "requests need more cache than there is and are rejected"
        if (outcome.finished_N < 0).any():
            return "requests are lost or never served"
        if saturated(outcome):
            return "requests come faster than they are served"
        for name, value in _statistics(search, came.requests, outcome).items():
            values.setdefault(name, []).append(value)
    return _words(search.traffic, {name: float(np.mean(v)) for name, v in values.items()})


def _statistics(search: _Search, requests: Requests, outcome: Outcome) -> dict[str, float]:
    """Return the asked statistic of every metric that has an objective."""
    found = request_latencies(requests, outcome, search.ready.seen)
    percentile = search.traffic.slo_percentile
    statistics = {}
    for name in search.traffic.objectives():
        values_N = getattr(found, COLUMNS.get(name, name))
        known_N = values_N[np.isfinite(values_N)]
        if known_N.size:
            at = known_N.mean() if percentile is None else np.percentile(known_N, percentile)
            statistics[name] = float(at)
    return statistics


def _words(traffic: Traffic, values: dict[str, float]) -> str:
    percentile = traffic.slo_percentile
    statistic = "mean" if percentile is None else f"p{percentile:g}"
    said = [
        f"{statistic} {name} is {values[name]:.4g}, over {most:g}"
        for name, most in traffic.objectives().items()
        if values.get(name, 0.0) > most
    ]
    return "; ".join(said)
