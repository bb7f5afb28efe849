"""How many requests a simulation runs, where that is not set: as many as its precision needs."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from perfatlas.sampling import batch_precision
from perfatlas.scenario import deployments
from perfatlas.serving.config import Control
from perfatlas.serving.outcome import measured_window, request_latencies
from perfatlas.vocabulary.metrics import statistics

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from perfatlas.sampling import Precision
    from perfatlas.scenario.fields import Scenario, Traffic
    from perfatlas.serving.outcome import Latencies, Outcome, Window

    OnProgress = Callable[[float], bool]
    Excess = Callable[[Latencies], float]

FIRST: Final = 8_000  # requests of the first run
MAX_REQUESTS: Final = 200_000  # requests of the longest one
GROWTH: Final = (2.0, 8.0)  # least and largest factor from one run to the next
MARGIN: Final = 1.2  # safety factor on the estimated number of requests
PERCENTILE: Final = 99.0
OF_PERCENTILES: Final = 2.0  # allowed half-width of percentiles relative to that of means


class TrafficRun(NamedTuple):
    """Requests, what serves them and what is measured of them."""

    traffic: Traffic  # With the number of requests that run
    resolved: deployments.ResolvedTraffic
    ready: deployments.Service  # What serves them, priced
    # Offered rate and capacity, None where the traffic has no steady rate
    load: deployments.OfferedLoad | None = None
    window: Window | None = None  # Requests that are measured, None for all
    precise: bool = True  # Whether the precision that was asked for is reached


def served(
    traffic: Traffic,
    scenario: Scenario,
    prices: deployments.Priced,
    slower: tuple[deployments.StepScale, ...] = (),
) -> TrafficRun:
    """Return the requests of some traffic, and what serves them with scaled step times."""
    resolved = deployments.resolve_traffic(traffic, scenario)
    ready = deployments.service(scenario, traffic, resolved, prices)
    ready = deployments.slowed(ready, slower) if slower else ready
    return TrafficRun(traffic, resolved, ready)


@dataclass(kw_only=True)
class WatchedRuns:
    """The simulations of a search, which may be stopped."""

    # Called regularly with the progress of the search; returns True to stop it
    watch: OnProgress | None = None
    expected: int = 1  # Expected number of runs, for the progress
    done: int = 0

    def look(self, share: float) -> bool:
        """Report the progress of the search, and return whether to stop it.

        Args:
            share: Fraction of the current run.
        """
        done = min((self.done + share) / self.expected, 1.0)
        return self.watch is not None and self.watch(done)

    def count(self, *, interrupted: bool) -> None:
        """Count a run.

        Raises:
            KeyboardInterrupt: It was interrupted, or the search is to stop.
        """
        self.done += 1
        if interrupted or self.look(0.0):
            raise KeyboardInterrupt

    def run(self, ready: deployments.Service, resolved: deployments.ResolvedTraffic) -> Outcome:
        """Return the outcome of some traffic.

        Raises:
            KeyboardInterrupt: The search was stopped.
        """
        outcome = deployments.run_traffic(ready, resolved, Control(watch=self.look))
        self.count(interrupted=outcome.interrupted)
        return outcome


@dataclass(frozen=True, kw_only=True)
class Sizing:
    """Traffic with a steady rate, of which as many requests run as a statistic needs."""

    traffic: Traffic
    scenario: Scenario
    load: deployments.OfferedLoad  # Offered rate and capacity
    # Tables of prices of earlier calls, to take from and to add to
    prices: deployments.Priced = field(default_factory=dict)
    first: int = FIRST
    most: int = MAX_REQUESTS  # Requests of the longest one
    # How the steps of each pool or kind are slower; none are as priced
    slower: tuple[deployments.StepScale, ...] = ()
    watch: OnProgress | None = None  # Called during runs; true stops them

    @property
    def longest(self) -> int:
        """Requests of the longest run."""
        return int(min(self.most, deployments.most_in_time(self.load.requests_per_s)))


class SizedRun(NamedTuple):
    """A run that is as long as a statistic needs, or as long as a run may be."""

    run: TrafficRun
    # Latencies of the requests that are measured; None where it was stopped
    measured: Latencies | None
    rejected: int = 0  # Number of requests that need more KV cache than available


def sized_run(
    traffic: Traffic,
    scenario: Scenario,
    prices: deployments.Priced,
    watch: OnProgress | None = None,
    first: int = FIRST,
    load: deployments.OfferedLoad | None = None,
) -> TrafficRun:
    """Return the run of a scenario, as long as the precision of its statistics asks.

    Args:
        traffic: What arrives. With `num_requests`, or without a steady rate, it runs as it is.
        prices: Tables of prices of earlier calls, to take from and to add to.
        watch: Called during runs; true stops it.
        load: Offered rate and capacity, if known; None determines them.

    Raises:
        InvalidSpecError: A name, value or request is invalid.
        InfeasibleError: The model and one request do not fit.
        UnsupportedError: No model, data or scheduler for the combination.
    """
    run = served(traffic, scenario, prices)
    default_lengths = traffic.length_distribution is None and traffic.requests is None
    if (
        default_lengths
        and run.resolved.concurrency > 1
        and not deployments.holds_all(run.ready, run.resolved.requests)
    ):
        traffic = traffic.changed(length_distribution="fixed")
        resolved = deployments.resolve_traffic(traffic, scenario)
        run = run._replace(traffic=traffic, resolved=resolved)
    if not deployments.has_steady_rate(traffic, scenario):
        return run
    load = load or deployments.offered_load(scenario, traffic, prices, watch=watch).load
    if traffic.num_requests is not None or load is None:
        return run._replace(load=load)
    sizing = Sizing(
        traffic=traffic, scenario=scenario, load=load, prices=prices, first=first, watch=watch
    )
    precision = traffic.sampling_precision
    return extended_run(sizing, lambda latencies: _excess(latencies, load, precision)).run


def extended_run(sizing: Sizing, excess: Excess) -> SizedRun:
    """Return a run that is extended until statistics of it are precise enough.

    Args:
        excess: Returns the half-width of a statistic over what it may be; at most 1 ends the run.
    """
    count = min(sizing.first, sizing.longest)
    while True:
        sized = sizing.traffic.changed(num_requests=count)
        run = served(sized, sizing.scenario, sizing.prices, sizing.slower)
        outcome = deployments.run_traffic(
            run.ready, run.resolved, Control(watch=sizing.watch, keeps_partial=True)
        )
        if outcome.interrupted:
            return SizedRun(run._replace(precise=False), None)
        latencies = request_latencies(run.resolved.requests, outcome, run.ready.seen)
        window = measured_window(latencies, outcome, grows=sizing.load.grows)
        latencies = latencies.between(window)
        over = excess(latencies)
        precise = over <= 1.0 and window.settled
        if precise or count >= sizing.longest:
            run = run._replace(load=sizing.load, window=window, precise=precise)
            return SizedRun(run, latencies, int(outcome.rejected().sum()))
        least, most = GROWTH
        factor = over**2 * MARGIN if math.isfinite(over) else most
        count = min(math.ceil(count * min(max(factor, least), most)), sizing.longest)


def slow_load(
    run: TrafficRun, scenario: Scenario, prices: deployments.Priced
) -> deployments.OfferedLoad | None:
    """Return the load at the slow end of the interval of step times, None where none is sized.

    Args:
        run: A run as long as its precision asks.
    """
    ends = deployments.price_ends(run.ready)
    if run.window is None or run.load is None or "high" not in ends:
        return None
    return deployments.offered_load(scenario, run.traffic, prices, slower=ends["high"]).load


def _excess(latencies: Latencies, load: deployments.OfferedLoad, precision: float) -> float:
    """Return the largest half-width over what it may be; 0 without measurements."""
    bounds = _bounded(latencies, load)
    return max((width.relative / (precision * times) for width, times in bounds), default=0)


def _bounded(
    latencies: Latencies, load: deployments.OfferedLoad
) -> Iterator[tuple[Precision, float]]:
    """Yield the statistics whose precision is asked for, and how many times that it may be.

    Above the capacity the queue grows without bound, and so do the latencies that include it.
    """
    if latencies.tpot_s.size and statistics(latencies.tpot_s)["mean"] is not None:
        yield batch_precision(latencies.tpot_s), 1.0
    if not load.grows:
        yield batch_precision(latencies.ttft_s), 1.0
        yield batch_precision(latencies.ttft_s, PERCENTILE), OF_PERCENTILES
