"""Between which factors on a rate of arrivals the largest one lies that meets objectives."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfatlas.quantities import InfeasibleError, InvalidSpecError
from perfatlas.scenario.deployments import (
    ResolvedTraffic,
    Service,
    flow,
    growing_queue,
    required_requests,
    resolve_traffic,
    run_traffic,
    service,
    slowed,
    too_short,
)
from perfatlas.serving.config import Control
from perfatlas.serving.outcome import request_latencies, saturated
from perfatlas.serving.requests import TICKS_PER_SECOND

if TYPE_CHECKING:
    from collections.abc import Callable

    from perfatlas.scenario.deployments import Flow
    from perfatlas.scenario.fields import Scenario, Traffic
    from perfatlas.serving.outcome import Outcome
    from perfatlas.serving.requests import Requests

SMALLEST: Final = 1024.0  # of the rate of a full engine, the smallest rate that is tried
LARGEST: Final = 64.0  # times the rate of a full engine, the largest rate that is tried
PRECISION: Final = 1.01  # ratio of the rates between which the answer lies
DOWN: Final = 4.0  # from a first rate that misses the objectives to the next
UP: Final = 2.0  # from one that meets them
LONGEST: Final = 200_000  # generated requests that a search may need
EXPECTED: Final = 40  # runs of a search and those of its interval, for the progress
# the objectives that stand for a column of their own
COLUMNS: Final = {"itl_s": "tpot_s"}


class Run(NamedTuple):
    """Requests at a rate that meets the objectives, and what came of them."""

    came: ResolvedTraffic
    outcome: Outcome


@dataclass(kw_only=True)
class Search:
    """What is searched, and what is known of it.

    Args:
        scenario: What runs where.
        traffic: What arrives, at a rate of 1 or as its file says.
        ready: What serves it, priced.
        unit: Requests/s at a factor of 1.
        slower: Steps of each pool or kind take this much longer than priced.
        watch: Told now and then that the search goes on; true stops it.
        met: Largest factor known to meet the objectives, 0 for none.
        missed: Smallest one known to miss them.
        reason: How that one misses them.
        run: At `met`.
        tried: Runs so far.
    """

    scenario: Scenario
    traffic: Traffic
    ready: Service
    unit: float
    watch: Callable[[float], bool] | None
    slower: tuple[float, ...] = ()  # of each pool or kind; none is 1
    met: float = 0.0
    missed: float = math.inf
    reason: str = ""
    run: Run | None = None
    tried: int = 0

    def look(self, share: float) -> bool:
        """Tell how far the search is, and return whether it is stopped.

        Args:
            share: Of the run that is under way.
        """
        done = min((self.tried + share) / EXPECTED, 1.0)
        return self.watch is not None and self.watch(done)

    def at_prices(self, slower: tuple[float, ...]) -> Search:
        """Return the same search where steps take a factor as long.

        Args:
            slower: The factor of each pool or kind, above 0.
        """
        ready = slowed(self.ready, slower)
        return replace(
            self, ready=ready, slower=slower, met=0.0, missed=math.inf, reason="", run=None
        )

    def longer(self, requests: int) -> None:
        """Draw more requests and forget what fewer told.

        Args:
            requests: How many.

        Raises:
            InvalidSpecError: They are too many, or of a file.
        """
        had = resolve_traffic(self.traffic, self.scenario).requests.isl_N.size
        known = f"; {self.met * self.unit:.4g} requests/s is met" if self.met else ""
        if self.traffic.requests is not None:
            raise InvalidSpecError(
                f"the {had:,} requests of {self.traffic.requests} are too short a traffic to tell"
                f" which rate is served: at one that meets the objectives they end before what runs"
                f" has settled{known}; give a longer file, or stricter objectives"
            )
        if requests > LONGEST:
            raise InvalidSpecError(
                f"{requests:,} requests would be needed to tell which rate is served, and"
                f" {LONGEST:,} are the most a search draws{known}; set stricter objectives or"
                " shorter think times, or simulate a request_rate"
            )
        self.traffic = self.traffic.model_copy(update={"num_requests": requests})
        came = resolve_traffic(self.traffic, self.scenario)
        self.ready = service(self.scenario, self.traffic, came)
        if self.slower:
            self.ready = slowed(self.ready, self.slower)
        self.met, self.missed, self.reason, self.run = 0.0, math.inf, "", None


class TooShortError(Exception):
    """Traffic does not tell whether a rate is served; holds how many requests would."""


def find(search: Search, start: float) -> None:
    """Find the largest factor on the rate that meets the objectives, on from one that may.

    Args:
        search: What is searched; told what is found.
        start: Where to begin.

    Raises:
        InfeasibleError: The smallest one tried does not.
        InvalidSpecError: The largest one tried does, or traffic is too short to tell.
    """
    first = start
    while True:
        try:
            _bracketed(search, first, (start / SMALLEST, start * LARGEST))
            while search.missed / search.met > PRECISION:
                _try(search, math.sqrt(search.met * search.missed))
        except TooShortError as short:
            first = search.met or first
            search.longer(int(short.args[0]))
        else:
            return


def _bracketed(search: Search, first: float, bounds: tuple[float, float]) -> None:
    """Find a factor that meets the objectives and a larger one that misses them."""
    low, high = bounds
    factor = first
    while not _try(search, factor):
        if factor <= low:
            raise InfeasibleError(
                "no request rate meets the objectives: at"
                f" {factor * search.unit:.3g} requests/s {search.reason}"
            )
        factor = max(factor / DOWN, low)
    while math.isinf(search.missed):
        if search.met >= high:
            raise InvalidSpecError(
                f"the objectives are met even at {search.met * search.unit:.4g} requests/s, the"
                " largest rate that is tried: they bound no rate; set stricter ones, or let more"
                " requests come"
            )
        _try(search, min(search.met * UP, high))


def full_rate(search: Search) -> float:
    """Return the rate at which an engine that never lacks requests serves them [requests/s].

    Args:
        search: What is searched.

    Raises:
        InfeasibleError: Every request needs more cache than there is.
        KeyboardInterrupt: It was stopped.
    """
    came = resolve_traffic(search.traffic, search.scenario)
    once = came.requests._replace(arrival_N=np.zeros_like(came.requests.arrival_N))
    outcome = _outcome(search, came._replace(requests=once))
    done = outcome.finished_N >= 0
    if not done.any():
        raise InfeasibleError("every request needs more cache than there is")
    return float(done.sum() * TICKS_PER_SECOND / outcome.finished_N.max())


def _outcome(search: Search, came: ResolvedTraffic) -> Outcome:
    """Return what comes of traffic.

    Raises:
        KeyboardInterrupt: It was stopped.
    """
    outcome = run_traffic(search.ready, came, Control(watch=search.look))
    search.tried += 1
    if outcome.interrupted or search.look(0.0):
        raise KeyboardInterrupt
    return outcome


def _try(search: Search, factor: float) -> bool:
    """Return whether a factor on the rate meets all objectives, and keep what is known then.

    Raises:
        KeyboardInterrupt: It was stopped.
        TooShortError: Traffic does not tell.
    """
    runs: list[Run] = []
    reason = _missed(search, factor, runs)
    if reason:
        search.missed, search.reason = factor, reason
        return False
    search.met, search.run = factor, runs[0]
    return True


def _missed(search: Search, factor: float, runs: list[Run]) -> str:
    """Return which objective is missed at a factor on the rate, "" where all are met."""
    values: dict[str, list[float]] = {}
    flows: list[Flow] = []
    for seed in range(search.traffic.seed, search.traffic.seed + search.traffic.num_seeds):
        traffic = search.traffic.model_copy(update={"seed": seed})
        came = resolve_traffic(traffic, search.scenario)
        times_N = np.rint(came.requests.arrival_N / factor).astype(np.int64)
        came = came._replace(requests=came.requests._replace(arrival_N=times_N))
        outcome = _outcome(search, came)
        runs.append(Run(came, outcome))
        if outcome.rejected().any():
            return "requests need more cache than there is and are rejected"
        if (outcome.finished_N < 0).any():
            return "requests are lost or never served"
        for name, value in _statistics(search, came.requests, outcome).items():
            values.setdefault(name, []).append(value)
        flows.append(flow(came.requests, outcome))
    said = _words(search.traffic, {name: float(np.mean(v)) for name, v in values.items()})
    said = said or growing_queue(flows)
    if not said and any(saturated(run.outcome) for run in runs):
        said = "requests come faster than they are served"
    needed = 0 if said else required_requests(flows)
    if needed and search.traffic.requests is not None and not too_short(flows):
        return "what is under way grows, and the file is too short to tell that from chance"
    if needed:
        raise TooShortError(math.ceil(needed * came.requests.isl_N.size / flows[0].units))
    return said


def _statistics(search: Search, requests: Requests, outcome: Outcome) -> dict[str, float]:
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
