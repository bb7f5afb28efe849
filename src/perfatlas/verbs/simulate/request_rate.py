"""The maximum request rate at which a deployment meets its SLOs.

All rates use common random numbers: arrivals of one seed with scaled times, and equal lengths.
Generated traffic that is too short to decide whether a rate is served is extended, and the search
is repeated.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from perfatlas.declarations import signature_of, verb_fields
from perfatlas.quantities import InfeasibleError, InvalidSpecError, significant
from perfatlas.scenario.deployments import (
    ResolvedTraffic,
    Service,
    flow,
    growing_queue,
    has_steady_rate,
    offered_load,
    price_ends,
    refuse_unused_options,
    required_requests,
    resolve_traffic,
    service,
    slowed,
    too_short,
)
from perfatlas.scenario.fields import plain_values
from perfatlas.serving.outcome import request_latencies, saturated
from perfatlas.serving.requests import TICKS_PER_SECOND
from perfatlas.studies import bisected
from perfatlas.verbs.simulate.answer import Simulation, simulate, simulated
from perfatlas.verbs.simulate.objectives import missed_slos, slo_statistics
from perfatlas.verbs.simulate.question import split_fields
from perfatlas.verbs.simulate.results import containing_predictions
from perfatlas.verbs.simulate.run_length import WatchedRuns

if TYPE_CHECKING:
    from collections.abc import Callable

    from perfatlas.scenario.deployments import Flow, StepScale
    from perfatlas.scenario.fields import Scenario, Traffic
    from perfatlas.serving.outcome import Outcome
    from perfatlas.serving.requests import Requests

SMALLEST: Final = 1024.0  # full-load rate / minimum tested rate
LARGEST: Final = 64.0  # maximum tested rate / full-load rate
PRECISION: Final = 1.01  # ratio of the bracketing rates at the end
DOWN: Final = 4.0  # step from a first rate that misses the SLOs to the next
UP: Final = 2.0  # step from one that meets them
LONGEST: Final = 200_000  # maximum generated requests of a search
EXPECTED: Final = 40  # expected runs of a search with its interval, for the progress


class Run(NamedTuple):
    """Requests at a rate that meets the SLOs, and their results."""

    resolved: ResolvedTraffic
    outcome: Outcome


@dataclass(kw_only=True)
class Search:
    """State of a rate search.

    Args:
        scenario: The deployment.
        traffic: The traffic, at a rate of 1 or as recorded in its file.
        ready: The priced deployment.
        unit: Requests/s at a factor of 1.
        slower: How the steps of each pool or replica type are slower.
        watch: Called regularly; returns True to stop the search.
        met: Largest factor known to meet the SLOs, 0 for none.
        missed: Smallest factor known to miss them.
        reason: Why that factor misses them.
        run: The run at `met`.
        capacity: Largest sustainable rate [requests/s], infinite where traffic has no steady rate.
    """

    scenario: Scenario
    traffic: Traffic
    ready: Service
    unit: float
    runs: WatchedRuns
    slower: tuple[StepScale, ...] = ()  # per pool or replica type; empty as priced
    met: float = 0.0
    missed: float = math.inf
    reason: str = ""
    run: Run | None = None
    capacity: float = math.inf

    def at_prices(self, slower: tuple[StepScale, ...]) -> Search:
        """Return the same search with scaled step times.

        Args:
            slower: How each pool or replica type is slower.
        """
        return replace(
            self,
            ready=slowed(self.ready, slower),
            slower=slower,
            met=0.0,
            missed=math.inf,
            reason="",
            run=None,
            capacity=capacity_of(self.traffic, self.scenario, slower),
        )

    def longer(self, requests: int) -> None:
        """Draw more requests and restart the search.

        Args:
            requests: Number of requests.

        Raises:
            InvalidSpecError: There are too many, or they come from a file.
        """
        had = resolve_traffic(self.traffic, self.scenario).requests.isl_N.size
        known = f"; {significant(self.met * self.unit, 4)} requests/s is met" if self.met else ""
        if self.traffic.requests is not None:
            raise InvalidSpecError(
                f"the {had:,} requests of {self.traffic.requests} are too few to determine the"
                f" maximum rate: at a rate that meets the SLOs they end before a steady state is"
                f" reached{known}; use a longer file or stricter SLOs"
            )
        if requests > LONGEST:
            raise InvalidSpecError(
                f"{requests:,} requests would be required to determine the maximum rate, more than"
                f" the limit of {LONGEST:,}{known}; use stricter SLOs or shorter think times, or"
                " simulate a request_rate"
            )
        self.traffic = self.traffic.model_copy(update={"num_requests": requests})
        resolved = resolve_traffic(self.traffic, self.scenario)
        self.ready = service(self.scenario, self.traffic, resolved)
        if self.slower:
            self.ready = slowed(self.ready, self.slower)
        self.met, self.missed, self.reason, self.run = 0.0, math.inf, "", None


def capacity_of(traffic: Traffic, scenario: Scenario, slower: tuple[StepScale, ...] = ()) -> float:
    """Return the largest sustainable rate [requests/s], infinite for traffic without a steady rate.

    Args:
        traffic: The traffic.
        scenario: The deployment.
        slower: How the steps of each pool or replica type are slower; none are as priced.
    """
    if not has_steady_rate(traffic, scenario):
        return math.inf
    load = offered_load(scenario, traffic, {}, slower=slower).load
    return math.inf if load is None else load.capacity_requests_per_s


class TooShortError(Exception):
    """Traffic is too short to decide whether a rate is served; contains the required requests."""


def find(search: Search, start: float) -> None:
    """Find the maximum factor on the rate that meets the SLOs.

    Args:
        search: The search, updated in place.
        start: Initial factor.

    Raises:
        InfeasibleError: The minimum tested factor misses the SLOs.
        InvalidSpecError: The maximum tested factor meets them, or the traffic is too short.
    """
    first = start
    while True:
        try:
            _bracketed(search, first, (start / SMALLEST, start * LARGEST))
            bisected(
                partial(_try, search),
                search.met,
                search.missed,
                lambda met, missed: math.sqrt(met * missed),
                lambda met, missed: missed / met <= PRECISION,
            )
        except TooShortError as short:
            first = search.met or first
            search.longer(int(short.args[0]))
        else:
            return


def _bracketed(search: Search, first: float, bounds: tuple[float, float]) -> None:
    """Find a factor that meets the SLOs and a larger one that misses them."""
    low, high = bounds
    factor = first
    while not _try(search, factor):
        if factor <= low:
            raise InfeasibleError(
                "no request rate meets the SLOs: at"
                f" {significant(factor * search.unit)} requests/s {search.reason}"
            )
        factor = max(factor / DOWN, low)
    while math.isinf(search.missed):
        if search.met >= high:
            raise InvalidSpecError(
                f"the SLOs are met even at {significant(search.met * search.unit, 4)} requests/s,"
                " the maximum"
                " tested rate, so they do not limit the rate; use stricter SLOs or more requests"
            )
        _try(search, min(search.met * UP, high))


def full_rate(search: Search) -> float:
    """Return the request rate of a fully loaded deployment [requests/s].

    Args:
        search: The search.

    Raises:
        InfeasibleError: All requests need more KV cache than available.
        KeyboardInterrupt: The search was stopped.
    """
    resolved = resolve_traffic(search.traffic, search.scenario)
    once = resolved.requests._replace(arrival_N=np.zeros_like(resolved.requests.arrival_N))
    outcome = search.runs.run(search.ready, resolved._replace(requests=once))
    done = outcome.finished_N >= 0
    if not done.any():
        raise InfeasibleError("all requests need more KV cache than available")
    return float(done.sum() * TICKS_PER_SECOND / outcome.finished_N.max())


def _try(search: Search, factor: float) -> bool:
    """Return whether a factor on the rate meets all SLOs, and update the search.

    Raises:
        KeyboardInterrupt: It was stopped.
        TooShortError: The traffic is too short.
    """
    runs: list[Run] = []
    reason = _missed(search, factor, runs)
    if reason:
        search.missed, search.reason = factor, reason
        return False
    search.met, search.run = factor, runs[0]
    return True


def _missed(search: Search, factor: float, runs: list[Run]) -> str:
    """Return the SLO that is missed at a factor on the rate, "" if all are met."""
    if factor * search.unit > search.capacity:
        return f"the rate exceeds the capacity of {significant(search.capacity, 4)} requests/s"
    values: dict[str, list[float]] = {}
    flows: list[Flow] = []
    for seed in range(search.traffic.seed, search.traffic.seed + search.traffic.num_seeds):
        traffic = search.traffic.model_copy(update={"seed": seed})
        resolved = resolve_traffic(traffic, search.scenario)
        times_N = np.rint(resolved.requests.arrival_N / factor).astype(np.int64)
        resolved = resolved._replace(requests=resolved.requests._replace(arrival_N=times_N))
        outcome = search.runs.run(search.ready, resolved)
        runs.append(Run(resolved, outcome))
        if outcome.rejected().any():
            return "requests that need more KV cache than available are rejected"
        if (outcome.finished_N < 0).any():
            return "requests are lost or never served"
        found = request_latencies(resolved.requests, outcome, search.ready.seen)
        for name, value in slo_statistics(found, traffic).items():
            values.setdefault(name, []).append(value)
        flows.append(flow(resolved.requests, outcome))
    said = missed_slos(search.traffic, {name: float(np.mean(v)) for name, v in values.items()})
    said = said or growing_queue(flows)
    if not said and any(saturated(run.outcome) for run in runs):
        said = "the load exceeds the capacity"
    needed = 0 if said else required_requests(flows)
    if needed and search.traffic.requests is not None and not too_short(flows):
        return "the number of requests in flight grows, and the file is too short for significance"
    if needed:
        raise TooShortError(math.ceil(needed * resolved.requests.isl_N.size / flows[0].units))
    return said


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
    done = simulate(progress=search.runs.look, **_inputs_at(fields, search))
    return _enveloped(done, fields, rates | ends, _drawn(search, num_requests))


def _at_end(search: Search, slower: tuple[StepScale, ...]) -> float:
    """Return the maximum rate with scaled step times, 0 if no rate meets the SLOs."""
    moved = search.at_prices(slower)
    try:
        find(moved, search.met / max(scale.decode for scale in slower))
    except InfeasibleError:
        return 0.0  # no rate meets the SLOs with steps this slow
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
        runs=WatchedRuns(watch=watch, expected=EXPECTED),
        capacity=capacity_of(traffic, scenario),
    )


def _rate(requests: Requests) -> float:
    """Return the mean rate of arrivals [requests/s]."""
    span = int(requests.arrival_N[-1] - requests.arrival_N[0])
    if span <= 0:
        raise InvalidSpecError("all requests arrive at the same time; a rate needs distinct times")
    return (requests.arrival_N.size - 1) * TICKS_PER_SECOND / span
