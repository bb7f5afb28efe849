"""The maximum request rate at which a deployment meets its SLOs.

All rates use common random numbers: arrivals of one seed with scaled times, and equal lengths.
Generated traffic that is too short to decide whether a rate is served is extended, and the search
is repeated.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from perfatlas.declarations import signature_of, verb_fields
from perfatlas.quantities import InfeasibleError, InvalidSpecError, significant
from perfatlas.scenario.deployments import (
    price_ends,
    refuse_unused_options,
    resolve_traffic,
    service,
)
from perfatlas.scenario.fields import plain_values
from perfatlas.serving.requests import TICKS_PER_SECOND
from perfatlas.verbs.simulate.answer import Simulation, simulate, simulated
from perfatlas.verbs.simulate.question import split_fields
from perfatlas.verbs.simulate.rate_search import Search, capacity_of, find, full_rate
from perfatlas.verbs.simulate.results import containing_predictions

if TYPE_CHECKING:
    from collections.abc import Callable

    from perfatlas.scenario.deployments import StepScale
    from perfatlas.serving.requests import Requests

NO_SLO: Final = (
    "no SLO specified: set at least one of slo_ttft_s, slo_tpot_s, slo_itl_s,"
    " slo_request_latency_s; slo_percentile applies them to a percentile"
)
UNIT: Final = 1.0  # requests/s at which traffic is generated
_SCALED: Final = ("request_rate", "rate_scale")
_DRAWN: Final = (*_SCALED, "num_requests")  # determined by the search


@signature_of("simulate")
def max_request_rate(
    *,
    progress: Callable[[float], bool] | None = None,
    **fields: Any,  # noqa: ANN401 - checked by schema
) -> Simulation:
    """Return the maximum request rate that meets the SLOs, and the simulation at that rate.

    A rate meets them if the selected percentile (or the mean) of each metric is within its SLO, no
    request is rejected, the queue does not grow until the end, and over the second half of the
    arrivals as many requests end as start, within 5%. Rates are bisected to 1%. If generated
    traffic is shorter than four times the unqueued duration of a request (or session), or too short
    for a significant test of a growing backlog, more requests are drawn.

    Args:
        progress: Called regularly; returns True to stop the search.
        **fields: As for `simulate`, with at least one slo_*; slo_percentile selects a percentile.
            request_rate is not used: the rates of generated traffic, or the times of a file, are
            scaled.

    Returns:
        The simulation at that rate. Its results also contain `max_requests_per_s`, with `_low` and
        `_high` for steps slower or faster by the errors of measured serving runs. If it was stopped
        before the rate was found, `interrupted` is true, `max_requests_per_s` is None, and
        `met_requests_per_s` and `missed_requests_per_s` bracket the rate.

    Raises:
        InfeasibleError: No rate meets the SLOs, or the model does not fit.
        InvalidSpecError: A name or value is invalid; no SLO is given; the traffic is too short, or
            all rates meet the SLOs.
        KeyboardInterrupt: It was stopped before any rate was known to meet them.
        UnsupportedError: There is no model, data or scheduler for the combination.

    Example:
        >>> from perfatlas.verbs.simulate import max_request_rate
        >>> found = max_request_rate(model="meta-llama/Llama-3.1-8B", system="h200_sxm",
        ...     num_requests=200, slo_ttft_s=0.1, slo_percentile=90)
        >>> 5 < found.answer.results["max_requests_per_s"] < 100
        True
    """
    search = _prepared(fields, progress)
    num_requests = resolve_traffic(search.traffic, search.scenario).requests.isl_N.size
    try:
        find(search, full_rate(search) / search.unit)
    except KeyboardInterrupt:
        if search.run is None:
            raise
        return _stopped(search, fields, _bracket(search), num_requests)
    rates: dict[str, Any] = {"max_requests_per_s": search.met * search.unit}
    rates |= {"max_requests_per_s_low": None, "max_requests_per_s_high": None}
    other = {"low": "high", "high": "low"}
    try:
        ends = {
            f"max_requests_per_s_{other[end]}": _at_end(search, slower)
            for end, slower in price_ends(search.ready).items()
        }
    except KeyboardInterrupt:
        return _stopped(search, fields, rates, num_requests)
    done = simulate(progress=search.look, **_inputs_at(fields, search))
    return _enveloped(done, fields, rates | ends, _drawn(search, num_requests))


def _at_end(search: Search, slower: tuple[StepScale, ...]) -> float:
    """Return the maximum rate with scaled step times, 0 if no rate meets the SLOs."""
    moved = search.at_prices(slower)
    try:
        find(moved, search.met / max(scale.decode for scale in slower))
    except InfeasibleError:
        return 0.0  # no rate meets the SLOs with steps this slow
    finally:
        search.tried = moved.tried
    return moved.met * search.unit


def _bracket(search: Search) -> dict[str, Any]:
    """Return the rates that bracket the maximum rate."""
    missed = search.missed * search.unit
    return {
        "max_requests_per_s": None,
        "met_requests_per_s": search.met * search.unit,
        "missed_requests_per_s": None if math.isinf(missed) else missed,
    }


def _stopped(
    search: Search, fields: dict[str, Any], rates: dict[str, Any], num_requests: int
) -> Simulation:
    """Return the result of a stopped search: the run at the largest rate that meets the SLOs."""
    run = search.run
    if run is None:
        raise KeyboardInterrupt
    stopped = run.outcome._replace(interrupted=True)
    at = _inputs_at(fields, search)
    done = simulated(search.ready, run.resolved, stopped, at)
    note = "interrupted before the interval of the rate was known"
    if rates["max_requests_per_s"] is None:
        missed = rates["missed_requests_per_s"]
        note = (
            f"interrupted: {significant(rates['met_requests_per_s'], 4)} requests/s meets the SLOs,"
            " "
            + (
                "and no rate that misses them was found yet"
                if missed is None
                else f"{significant(missed, 4)} misses them; the maximum rate lies in between"
            )
        )
    return _enveloped(done, fields, rates, [note, *_drawn(search, num_requests)])


def _drawn(search: Search, num_requests: int) -> list[str]:
    """Return a warning if more requests were drawn than configured."""
    drawn = search.traffic.num_requests
    if drawn is None or drawn == num_requests:
        return []
    return [
        f"{num_requests:,} requests are too few to determine the maximum rate; {drawn:,} were drawn"
    ]


def _enveloped(
    done: Simulation, fields: dict[str, Any], rates: dict[str, Any], warnings: list[str]
) -> Simulation:
    answer = replace(
        done.answer,
        command="simulate --find-rate",
        scenario=plain_values(verb_fields("simulate"), fields)
        | {k: v for k, v in done.answer.scenario.items() if k not in _DRAWN},
        results=containing_predictions(rates) | dict(done.answer.results),
        warnings=(*warnings, *done.answer.warnings),
    )
    return replace(done, answer=answer)


def _inputs_at(fields: dict[str, Any], search: Search) -> dict[str, Any]:
    """Return the fields of the simulation at the maximum rate."""
    fields = {name: value for name, value in fields.items() if name != "slo_percentile"}
    if fields.get("requests"):
        return fields | {"rate_scale": search.met}
    return fields | {
        "request_rate": search.met * search.unit,
        "num_requests": search.traffic.num_requests,
    }


def _prepared(fields: dict[str, Any], watch: Callable[[float], bool] | None) -> Search:
    """Return the search for named fields, with traffic at a factor of 1."""
    for name in _SCALED:
        if fields.get(name) not in (None, ""):
            raise InvalidSpecError(f"{name} = {fields[name]}: the rate is searched; remove it")
    if fields.get("concurrency") not in (None, "") or fields.get("arrival") == "closed":
        raise InvalidSpecError(
            "a rate search does not support closed loops; remove concurrency and arrival"
        )
    if fields.get("arrival") == "ramp":
        raise InvalidSpecError(
            "a rate search does not support arrival = ramp; remove arrival, ramp_to_rate and ramp_s"
        )
    probe = fields if fields.get("requests") else fields | {"request_rate": UNIT}
    traffic, scenario = split_fields(probe)
    if not traffic.objectives():
        raise InvalidSpecError(NO_SLO)
    refuse_unused_options(traffic, scenario, searched="rate")
    resolved = resolve_traffic(traffic, scenario)
    ready = service(scenario, traffic, resolved)
    unit = _rate(resolved.requests) if traffic.requests is not None else UNIT
    return Search(
        scenario=scenario,
        traffic=traffic,
        ready=ready,
        unit=unit,
        watch=watch,
        capacity=capacity_of(traffic, scenario),
    )


def _rate(requests: Requests) -> float:
    """Return the mean rate of arrivals [requests/s]."""
    span = int(requests.arrival_N[-1] - requests.arrival_N[0])
    if span <= 0:
        raise InvalidSpecError("all requests arrive at the same time; a rate needs distinct times")
    return (requests.arrival_N.size - 1) * TICKS_PER_SECOND / span
