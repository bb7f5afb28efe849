"""How many requests a simulation runs, where that is not set: as many as its precision needs."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple

from perfatlas.scenario.deployments import (
    DEFAULT_REQUESTS,
    OfferedLoad,
    ResolvedTraffic,
    Service,
    has_steady_rate,
    offered_load,
    price_ends,
    resolve_traffic,
    run_traffic,
    service,
)
from perfatlas.serving.config import Control
from perfatlas.serving.outcome import batch_precision, measured_window, request_latencies
from perfatlas.vocabulary.fields import LONGEST_S
from perfatlas.vocabulary.metrics import statistics

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from perfatlas.scenario.deployments import Priced
    from perfatlas.scenario.fields import Scenario, Traffic
    from perfatlas.serving.outcome import Latencies, Precision, Window

    OnProgress = Callable[[float], bool]

FIRST: Final = 8_000  # requests of the first run
LONGEST: Final = 200_000  # requests of the longest one
SPAN: Final = 0.5  # of the longest time that a simulation may last
GROWTH: Final = (2.0, 8.0)  # least and largest factor from one run to the next
MARGIN: Final = 1.2  # safety factor on the estimated number of requests
PERCENTILE: Final = 99.0
OF_PERCENTILES: Final = 2.0  # allowed half-width of percentiles relative to that of means


class Run(NamedTuple):
    """Requests, what serves them and what is measured of them.

    Args:
        traffic: With the number of requests that run.
        resolved: The requests.
        ready: What serves them, priced.
        load: Offered rate and capacity, None where the traffic has no steady rate.
        window: Requests that are measured, None for all.
        precise: Whether the precision that was asked for is reached.
    """

    traffic: Traffic
    resolved: ResolvedTraffic
    ready: Service
    load: OfferedLoad | None = None
    window: Window | None = None
    precise: bool = True


def sized_run(
    traffic: Traffic, scenario: Scenario, known: Priced, watch: OnProgress | None = None
) -> Run:
    """Return the run of a scenario, as long as the precision of its statistics asks.

    Args:
        traffic: What arrives. With `num_requests`, or without a steady rate, it runs as it is.
        scenario: What serves it.
        known: Tables of prices of earlier calls, to take from and to add to.
        watch: Called during runs; true stops it.

    Raises:
        InvalidSpecError: A name, value or request breaks a rule.
        InfeasibleError: The model and one request do not fit.
        UnsupportedError: No model, data or scheduler for the combination.
    """
    resolved = resolve_traffic(traffic, scenario)
    ready = service(scenario, traffic, resolved, known)
    if not has_steady_rate(traffic, scenario):
        return Run(traffic, resolved, ready)
    try:
        load = offered_load(scenario, traffic, known, watch=watch)
    except KeyboardInterrupt:
        return Run(traffic, resolved, ready)
    if traffic.num_requests is not None or load is None:
        return Run(traffic, resolved, ready, load)
    longest = max(min(LONGEST, int(SPAN * LONGEST_S * load.requests_per_s)), DEFAULT_REQUESTS)
    count = min(FIRST, longest)
    while True:
        sized = traffic.model_copy(update={"num_requests": count})
        resolved = resolve_traffic(sized, scenario)
        ready = service(scenario, sized, resolved, known)
        outcome = run_traffic(ready, resolved, Control(watch=watch))
        if outcome.interrupted:
            return Run(sized, resolved, ready, precise=False)
        found = request_latencies(resolved.requests, outcome, ready.seen)
        window = measured_window(found, outcome, grows=load.grows)
        excess = _excess(found.between(window), load, traffic.sampling_precision)
        precise = excess <= 1.0 and window.settled
        if precise or count >= longest:
            return Run(sized, resolved, ready, load, window, precise)
        least, most = GROWTH
        factor = excess**2 * MARGIN if math.isfinite(excess) else most
        count = min(math.ceil(count * min(max(factor, least), most)), longest)


def slow_load(run: Run, scenario: Scenario, known: Priced) -> OfferedLoad | None:
    """Return the load at the slow end of the interval of step times, None where none is sized.

    Args:
        run: A run as long as its precision asks.
        scenario: What serves it.
        known: Tables of prices of earlier calls.
    """
    ends = price_ends(run.ready)
    if run.window is None or run.load is None or not ends:
        return None
    return offered_load(scenario, run.traffic, known, slower=ends["high"])


def _excess(found: Latencies, load: OfferedLoad, precision: float) -> float:
    """Return the largest half-width over what it may be; 0 where nothing is measured."""
    return max((one.relative / (precision * times) for one, times in _held(found, load)), default=0)


def _held(found: Latencies, load: OfferedLoad) -> Iterator[tuple[Precision, float]]:
    """Yield the statistics whose precision is asked for, and how many times that it may be.

    Above the capacity the queue grows without bound, and so do the latencies that include it.
    """
    if found.tpot_s.size and statistics(found.tpot_s)["mean"] is not None:
        yield batch_precision(found.tpot_s), 1.0
    if not load.grows:
        yield batch_precision(found.ttft_s), 1.0
        yield batch_precision(found.ttft_s, PERCENTILE), OF_PERCENTILES
