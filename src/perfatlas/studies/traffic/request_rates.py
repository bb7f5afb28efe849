"""The maximum request rate at which a deployment meets its SLOs.

All rates use common random numbers: arrivals of one seed with scaled times, and equal lengths.
Generated traffic that is too short to decide whether a rate is served is extended, and the search
is repeated.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfatlas.quantities import InfeasibleError, InvalidSpecError, significant
from perfatlas.scenario import deployments
from perfatlas.serving.outcome import request_latencies, saturated
from perfatlas.serving.requests import TICKS_PER_SECOND
from perfatlas.studies.bisection import bisected
from perfatlas.studies.traffic.run_length import served
from perfatlas.studies.traffic.slo_checks import REJECTED, missed_slos, slo_statistics

if TYPE_CHECKING:
    from perfatlas.scenario.fields import Scenario, Traffic
    from perfatlas.serving.outcome import Outcome
    from perfatlas.studies.traffic.run_length import WatchedRuns

MIN_RATE_RATIO: Final = 1024.0  # full-load rate / minimum tested rate
MAX_RATE_RATIO: Final = 64.0  # maximum tested rate / full-load rate
PRECISION: Final = 1.01  # ratio of the bracketing rates at the end
DOWN: Final = 4.0  # step from a first rate that misses the SLOs to the next
UP: Final = 2.0  # step from one that meets them
MAX_REQUESTS: Final = 200_000  # maximum generated requests of a search


class RateRun(NamedTuple):
    """Requests at a rate that meets the SLOs, and their results."""

    resolved: deployments.ResolvedTraffic
    outcome: Outcome


@dataclass(kw_only=True)
class RateSearch:
    """State of a rate search.

    Args:
        traffic: The traffic, at a rate of 1 or as recorded in its file.
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
    ready: deployments.Service
    unit: float
    runs: WatchedRuns
    slower: tuple[deployments.StepScale, ...] = ()  # per pool or replica type; empty as priced
    met: float = 0.0
    missed: float = math.inf
    reason: str = ""
    run: RateRun | None = None
    capacity: float = math.inf

    def at_prices(self, slower: tuple[deployments.StepScale, ...]) -> RateSearch:
        """Return the same search with scaled step times."""
        return replace(
            self,
            ready=deployments.slowed(self.ready, slower),
            slower=slower,
            met=0.0,
            missed=math.inf,
            reason="",
            run=None,
            capacity=capacity_of(self.traffic, self.scenario, slower),
        )

    def longer(self, requests: int) -> None:
        """Draw more requests and restart the search.

        Raises:
            InvalidSpecError: There are too many, or they come from a file.
        """
        had = deployments.resolve_traffic(self.traffic, self.scenario).requests.isl_N.size
        met = f"; {significant(self.met * self.unit, 4)} requests/s is met" if self.met else ""
        if self.traffic.requests is not None:
            raise InvalidSpecError(
                f"the {had:,} requests of {self.traffic.requests} are too few to determine the"
                f" maximum rate: at a rate that meets the SLOs they end before a steady state is"
                f" reached{met}; use a longer file or stricter SLOs"
            )
        if requests > MAX_REQUESTS:
            raise InvalidSpecError(
                f"{requests:,} requests would be required to determine the maximum rate, more than"
                f" the limit of {MAX_REQUESTS:,}{met}; use stricter SLOs or shorter think times,"
                " or simulate a request_rate"
            )
        self.traffic = self.traffic.changed(num_requests=requests)
        self.ready = served(self.traffic, self.scenario, {}, self.slower).ready
        self.met, self.missed, self.reason, self.run = 0.0, math.inf, "", None


def capacity_of(
    traffic: Traffic, scenario: Scenario, slower: tuple[deployments.StepScale, ...] = ()
) -> float:
    """Return the largest sustainable rate [requests/s], infinite for traffic without a steady rate.

    Args:
        slower: How the steps of each pool or replica type are slower; none are as priced.
    """
    if not deployments.has_steady_rate(traffic, scenario):
        return math.inf
    load = deployments.offered_load(scenario, traffic, {}, slower=slower).load
    return math.inf if load is None else load.capacity_requests_per_s


class TooShortError(Exception):
    """Traffic is too short to decide whether a rate is served; contains the required requests."""


def find_rate(search: RateSearch, start: float) -> None:
    """Find the maximum factor on the rate that meets the SLOs.

    Raises:
        InfeasibleError: The minimum tested factor misses the SLOs.
        InvalidSpecError: The maximum tested factor meets them, or the traffic is too short.
    """
    first = start
    while True:
        try:
            _bracketed(search, first, (start / MIN_RATE_RATIO, start * MAX_RATE_RATIO))
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


def _bracketed(search: RateSearch, first: float, bounds: tuple[float, float]) -> None:
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


def full_rate(search: RateSearch) -> float:
    """Return the request rate of a fully loaded deployment [requests/s].

    Raises:
        InfeasibleError: All requests need more KV cache than available.
        KeyboardInterrupt: The search was stopped.
    """
    resolved = deployments.resolve_traffic(search.traffic, search.scenario)
    once = resolved.requests._replace(arrival_N=np.zeros_like(resolved.requests.arrival_N))
    outcome = search.runs.run(search.ready, resolved._replace(requests=once))
    done = outcome.finished_N >= 0
    if not done.any():
        raise InfeasibleError("all requests need more KV cache than available")
    return float(done.sum() * TICKS_PER_SECOND / outcome.finished_N.max())


def _try(search: RateSearch, factor: float) -> bool:
    """Return whether a factor on the rate meets all SLOs, and update the search."""
    runs: list[RateRun] = []
    reason = _missed(search, factor, runs)
    if reason:
        search.missed, search.reason = factor, reason
        return False
    search.met, search.run = factor, runs[0]
    return True


def _missed(search: RateSearch, factor: float, runs: list[RateRun]) -> str:
    """Return the SLO that is missed at a factor on the rate, "" if all are met."""
    if factor * search.unit > search.capacity:
        return f"the rate exceeds the capacity of {significant(search.capacity, 4)} requests/s"
    values: dict[str, list[float]] = {}
    flows: list[deployments.Flow] = []
    for seed in range(search.traffic.seed, search.traffic.seed + search.traffic.num_seeds):
        traffic = search.traffic.changed(seed=seed)
        resolved = deployments.resolve_traffic(traffic, search.scenario)
        times_N = np.rint(resolved.requests.arrival_N / factor).astype(np.int64)
        resolved = resolved._replace(requests=resolved.requests._replace(arrival_N=times_N))
        outcome = search.runs.run(search.ready, resolved)
        runs.append(RateRun(resolved, outcome))
        if outcome.rejected().any():
            return REJECTED
        if (outcome.finished_N < 0).any():
            return "requests are lost or never served"
        latencies = request_latencies(resolved.requests, outcome, search.ready.seen)
        for name, value in slo_statistics(latencies, traffic).items():
            values.setdefault(name, []).append(value)
        flows.append(deployments.flow(resolved.requests, outcome))
    text = missed_slos(search.traffic, {name: float(np.mean(v)) for name, v in values.items()})
    text = text or deployments.growing_queue(flows)
    if not text and any(saturated(run.outcome) for run in runs):
        text = "the load exceeds the capacity"
    needed = 0 if text else deployments.required_requests(flows)
    if needed and search.traffic.requests is not None and not deployments.too_short(flows):
        return "the number of requests in flight grows, and the file is too short for significance"
    if needed:
        raise TooShortError(math.ceil(needed * resolved.requests.isl_N.size / flows[0].units))
    return text


def rate_at(search: RateSearch, slower: tuple[deployments.StepScale, ...]) -> float:
    """Return the maximum rate with scaled step times, 0 if no rate meets the SLOs [requests/s].

    Args:
        search: The search, with the rate at the predicted step times.
        slower: How the steps of each pool or replica type are slower.
    """
    moved = search.at_prices(slower)
    try:
        find_rate(moved, search.met / max(scale.decode for scale in slower))
    except InfeasibleError:
        return 0.0  # no rate meets the SLOs with steps this slow
    return moved.met * search.unit
