"""The largest request rate at which a deployment meets its objectives.

Every rate sees the same draws: arrivals are those of one seed with their times scaled, lengths
stay. What differs between two rates is the rate. Generated traffic that is too short to tell
whether a rate is served is drawn longer, and searched again.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from perfatlas.quantities import InfeasibleError, InvalidSpecError
from perfatlas.scenario.deployments import (
    price_ends,
    refuse_unused_options,
    resolve_traffic,
    service,
)
from perfatlas.serving.requests import TICKS_PER_SECOND
from perfatlas.verbs.simulate.answer import Simulation, simulate, simulated, split_fields
from perfatlas.verbs.simulate.rate_search import Search, find, full_rate
from perfatlas.vocabulary.fields import signature_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from perfatlas.serving.requests import Requests

UNIT: Final = 1.0  # requests/s at which traffic is drawn
_SCALED: Final = ("request_rate", "rate_scale")
_DRAWN: Final = (*_SCALED, "num_requests")  # what a search chooses


@signature_of("simulate")
def max_request_rate(
    *,
    progress: Callable[[float], bool] | None = None,
    **fields: Any,  # noqa: ANN401 - checked by schema
) -> Simulation:
    """Return the largest request rate that meets the objectives, and what it is like there.

    A rate meets them where the asked percentile (or the mean) of every metric is within its
    objective, no request is rejected, the queue does not grow to the end, and over the second half
    of the arrivals as much ends as begins, to 5 %. Rates are halved and doubled between, as ratios,
    to 1 %. Where generated traffic is over before four times what a request (a session) takes apart
    from queues, or too short to tell a growing backlog from chance, more requests are drawn.

    Args:
        progress: Told now and then that the search goes on; true stops it.
        **fields: As for `simulate`, with at least one slo_*; slo_percentile for a percentile. A
            request_rate is not needed: the rates of generated traffic, or the times of a file, are
            scaled.

    Returns:
        The simulation at that rate; its results also hold `max_requests_per_s`, with `_low` and
        `_high` where all steps are as much slower or faster as serving runs were. Where it was
        stopped before the rate was found, `interrupted` is true, `max_requests_per_s` is None, and
        `met_requests_per_s` and `missed_requests_per_s` tell between which rates it lies.

    Raises:
        InfeasibleError: No rate meets the objectives, or the model does not fit.
        InvalidSpecError: A name or value breaks a rule; no objective is given; traffic is too short
            to tell, or every rate meets the objectives.
        KeyboardInterrupt: It was stopped before any rate was known to meet them.
        UnsupportedError: No model, data or scheduler for the combination.

    Example:
        >>> from perfatlas.verbs.simulate import max_request_rate
        >>> found = max_request_rate(model="meta-llama/Llama-3.1-8B", system="h200_sxm",
        ...     num_requests=200, slo_ttft_s=0.1, slo_percentile=90)
        >>> 5 < found.answer.results["max_requests_per_s"] < 100
        True
    """
    search = _prepared(fields, progress)
    asked = resolve_traffic(search.traffic, search.scenario).requests.isl_N.size
    try:
        find(search, full_rate(search) / search.unit)
    except KeyboardInterrupt:
        if search.run is None:
            raise
        return _told(search, fields, _bracket(search), asked)
    rates: dict[str, Any] = {"max_requests_per_s": search.met * search.unit}
    rates |= {"max_requests_per_s_low": None, "max_requests_per_s_high": None}
    other = {"low": "high", "high": "low"}
    try:
        ends = {
            f"max_requests_per_s_{other[end]}": _at_end(search, slower)
            for end, slower in price_ends(search.ready).items()
        }
    except KeyboardInterrupt:
        return _told(search, fields, rates, asked)
    done = simulate(progress=search.look, **_asked_at(fields, search))
    return _enveloped(done, fields, rates | ends, _drawn(search, asked))


def _at_end(search: Search, slower: tuple[float, ...]) -> float:
    """Return the largest rate where steps take a factor as long, 0 where none meets them."""
    moved = search.at_prices(slower)
    try:
        find(moved, search.met / max(slower))
    except InfeasibleError:
        return 0.0  # with steps that slow no rate meets the objectives
    finally:
        search.tried = moved.tried
    return moved.met * search.unit


def _bracket(search: Search) -> dict[str, Any]:
    """Return between which rates the largest one lies."""
    missed = search.missed * search.unit
    return {
        "max_requests_per_s": None,
        "met_requests_per_s": search.met * search.unit,
        "missed_requests_per_s": None if math.isinf(missed) else missed,
    }


def _told(search: Search, fields: dict[str, Any], rates: dict[str, Any], asked: int) -> Simulation:
    """Return what is known when a search is stopped: the run at the largest rate that is met."""
    run = search.run
    if run is None:
        raise KeyboardInterrupt
    stopped = run.outcome._replace(interrupted=True)
    at = _asked_at(fields, search)
    done = simulated(search.ready, run.came, stopped, at)
    said = "interrupted before the interval of the rate was known"
    if rates["max_requests_per_s"] is None:
        missed = rates["missed_requests_per_s"]
        said = (
            f"interrupted: {rates['met_requests_per_s']:.4g} requests/s meets the objectives, "
            + (
                "none was found yet that misses them"
                if missed is None
                else f"{missed:.4g} misses them; the largest rate lies between"
            )
        )
    return _enveloped(done, fields, rates, [said, *_drawn(search, asked)])


def _drawn(search: Search, asked: int) -> list[str]:
    """Return that more requests were drawn than a person asked for, one text at most."""
    drawn = search.traffic.num_requests
    if drawn is None or drawn == asked:
        return []
    return [f"{asked:,} requests are too few to tell which rate is served: {drawn:,} were drawn"]


def _enveloped(
    done: Simulation, fields: dict[str, Any], rates: dict[str, Any], warnings: list[str]
) -> Simulation:
    answer = replace(
        done.answer,
        command="simulate --find-rate",
        scenario=fields | {k: v for k, v in done.answer.scenario.items() if k not in _DRAWN},
        results=rates | dict(done.answer.results),
        warnings=(*warnings, *done.answer.warnings),
    )
    return replace(done, answer=answer)


def _asked_at(fields: dict[str, Any], search: Search) -> dict[str, Any]:
    """Return the fields of the simulation at the rate found."""
    fields = {name: value for name, value in fields.items() if name != "slo_percentile"}
    if fields.get("requests"):
        return fields | {"rate_scale": search.met}
    return fields | {
        "request_rate": search.met * search.unit,
        "num_requests": search.traffic.num_requests,
    }


def _prepared(fields: dict[str, Any], watch: Callable[[float], bool] | None) -> Search:
    """Return the search of named fields, its traffic at a factor of 1."""
    for name in _SCALED:
        if fields.get(name) not in (None, ""):
            raise InvalidSpecError(f"{name} = {fields[name]}: the rate is what is searched")
    if fields.get("concurrency") not in (None, "") or fields.get("arrival") == "closed":
        raise InvalidSpecError(
            "a closed loop has no rate to find; leave concurrency and arrival out"
        )
    if fields.get("arrival") == "ramp":
        raise InvalidSpecError(
            "arrival = ramp: a rate that ramps has no single largest rate; leave arrival,"
            " ramp_to_rate and ramp_s out"
        )
    probe = fields if fields.get("requests") else fields | {"request_rate": UNIT}
    traffic, scenario = split_fields(probe)
    if not traffic.objectives():
        raise InvalidSpecError(
            "no objective: give at least one of slo_ttft_s, slo_tpot_s, slo_itl_s,"
            " slo_request_latency_s; slo_percentile makes it one of a percentile"
        )
    refuse_unused_options(traffic, scenario, finds_rate=True)
    came = resolve_traffic(traffic, scenario)
    ready = service(scenario, traffic, came)
    unit = _rate(came.requests) if traffic.requests is not None else UNIT
    return Search(scenario=scenario, traffic=traffic, ready=ready, unit=unit, watch=watch)


def _rate(requests: Requests) -> float:
    """Return the mean rate of arrivals [requests/s]."""
    span = int(requests.arrival_N[-1] - requests.arrival_N[0])
    if span <= 0:
        raise InvalidSpecError("all requests arrive at once; a rate needs times that differ")
    return (requests.arrival_N.size - 1) * TICKS_PER_SECOND / span
