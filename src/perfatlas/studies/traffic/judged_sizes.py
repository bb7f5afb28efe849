"""The smallest deployment within SLOs, of replicas or of two pools; the most sessions on one.

Traffic with a steady rate is judged in steady state: a run is extended until the statistics are
above or within their SLOs with 95% confidence each. Other traffic, and a fixed number of requests,
is judged by that sample. All sizes serve the same requests.
More workers of either pool are taken not to make latencies worse, and more sessions not better.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from perfatlas.quantities import InfeasibleError, InvalidSpecError, counted, significant
from perfatlas.scenario import deployments
from perfatlas.serving.config import MAX_SCHEDULERS
from perfatlas.serving.outcome import request_latencies, saturated
from perfatlas.studies.bisection import cheapest_pair, smallest_number
from perfatlas.studies.traffic.run_length import FIRST, Sizing, TrafficRun, extended_run, served
from perfatlas.studies.traffic.slo_checks import (
    REJECTED,
    checks_text,
    missed_slos,
    slo_checks,
    slo_statistics,
)

if TYPE_CHECKING:
    from perfatlas.scenario.fields import Scenario, Traffic
    from perfatlas.serving.outcome import Latencies, Outcome
    from perfatlas.studies.traffic.run_length import WatchedRuns

Size = tuple[int, ...]  # replicas, prefill and decode workers, or sessions

ONE_POOL: Final = ("dp",)
TWO_POOLS: Final = ("prefill_workers", "decode_workers")
LIVE: Final = ("sessions",)
PLURALS: Final = {ONE_POOL: "replicas", TWO_POOLS: "workers", LIVE: "sessions"}
LABELS: Final = {"dp": "replica", "prefill_workers": "prefill worker"} | {
    "decode_workers": "decode worker"
}
IDLE_LOAD: Final = 0.001  # of the capacity of a replica: its requests hardly ever meet
IDLE_REQUESTS: Final = 1_000  # requests that run alone
SPANS: Final = (
    100.0  # duration of what is measured, in mean request latencies, if MAX_REQUESTS allows it
)
CONFIRMING: Final = 100_000  # requests of the run that confirms the number found
NEAR_CAPACITY_REQUESTS: Final = 200_000  # requests of the first run within 3% of the capacity
MAX_REQUESTS: Final = 600_000  # requests of the longest run
UNSTABLE: Final = (
    1.02  # least factor on the capacity of a pool whose workers are doubled, if it limits
)
MAX_OTHER_WORKERS: Final = 64  # workers of the pool that does not limit the capacity

Verdict = Literal["met", "missed", "undecided"]


class Judgement(NamedTuple):
    """Whether a size meets the SLOs."""

    verdict: Verdict  # "undecided" where the longest run is too short to tell
    reason: str  # What decides, a clause
    run: TrafficRun | None = None  # What ran; None where the capacity decides


@dataclass(kw_only=True)
class SizeSearch:
    """State of a search."""

    names: tuple[str, ...]  # The fields that are searched
    scenario: Scenario  # The deployment, with any number of replicas
    traffic: Traffic  # With any number of sessions
    prices: deployments.Priced = field(default_factory=dict)  # Of earlier calls
    # Load of the traffic on one replica, or on one worker of each pool; empty where it has no
    # steady rate
    each: tuple[deployments.OfferedLoad, ...] = ()
    runs: WatchedRuns
    slower: tuple[deployments.StepScale, ...] = ()  # How steps are slower; empty for as priced
    judged: dict[Size, Judgement] = field(default_factory=dict)

    @property
    def smallest(self) -> Size:
        """The smallest size."""
        return (1,) * len(self.names)

    def at_prices(self, slower: tuple[deployments.StepScale, ...]) -> SizeSearch:
        """Return the same search with scaled step times."""
        moved = replace(self, slower=slower, judged={})
        moved.each = load_on_one(moved)
        return moved

    def of(self, size: Size) -> Scenario:
        """Return the deployment of a size."""
        numbers = {} if self.names == LIVE else dict(zip(self.names, size, strict=True))
        return self.scenario.changed(**numbers)

    def served(self, size: Size, traffic: Traffic | None = None) -> TrafficRun:
        """Return the traffic, or other traffic, on a size, and what serves it."""
        asked = traffic or self.traffic
        asked = asked.changed(sessions=size[0]) if self.names == LIVE else asked
        return served(asked, self.of(size), self.prices, self.slower)

    def latencies(self, run: TrafficRun) -> tuple[Latencies, Outcome]:
        """Return the latencies of all requests of a run, and its outcome.

        Raises:
            InfeasibleError: Requests are rejected, whatever the size.
        """
        outcome = self.runs.run(run.ready, run.resolved)
        if outcome.rejected().any():
            raise self.unmeetable(REJECTED)
        return request_latencies(run.resolved.requests, outcome, run.ready.seen), outcome

    def unmeetable(self, why: str) -> InfeasibleError:
        """Return that no size meets the SLOs."""
        return InfeasibleError(f"no number of {PLURALS[self.names]} meets the SLOs: {why}")

    def text(self, size: Size) -> str:
        """Return a size in words."""
        numbers = zip(self.names, size, strict=True)
        return " and ".join(counted(number, LABELS[name]) for name, number in numbers)


def load_on_one(search: SizeSearch) -> tuple[deployments.OfferedLoad, ...]:
    """Return the load of all traffic on one replica, or on one worker of each pool.

    A pool limits the capacity where twice its workers raise it; the other pool is enlarged until
    then.

    Returns:
        Empty for traffic without a steady rate.

    Raises:
        InfeasibleError: Every request needs more KV cache than available.
        KeyboardInterrupt: The search was stopped.
    """
    if not deployments.has_steady_rate(search.traffic, search.of(search.smallest)) or math.isinf(
        search.traffic.request_rate or math.inf
    ):
        return ()
    if len(search.smallest) == 1:
        return (_load(search, search.smallest),)
    return (_load_on_limiting_pool(search, 0), _load_on_limiting_pool(search, 1))


def _load_on_limiting_pool(search: SizeSearch, pool: int) -> deployments.OfferedLoad:
    """Return the load on one worker of a pool whose other pool is large enough."""
    load, others = _load(search, search.smallest), 1
    while 2 * others <= MAX_OTHER_WORKERS:
        others *= 2
        more = _load(search, (1, others) if pool == 0 else (others, 1))
        grown = more.capacity_requests_per_s / load.capacity_requests_per_s
        load = more if grown > 1.0 else load
        if grown < UNSTABLE:
            break
    return load


def _load(search: SizeSearch, size: Size) -> deployments.OfferedLoad:
    """Return the load of all traffic on a size."""
    measured = deployments.offered_load(
        search.of(size),
        search.traffic,
        search.prices,
        slower=search.slower,
        watch=search.runs.look,
    )
    search.runs.count(interrupted=measured.interrupted)
    if measured.load is None:
        raise InfeasibleError("all requests need more KV cache than available")
    return measured.load


def refuse_unmeetable(search: SizeSearch) -> None:
    """Refuse SLOs that requests miss which share a replica with no others."""
    if not search.each:
        return
    rate = IDLE_LOAD * load_on(search.each, search.smallest).capacity_requests_per_s
    changes = {
        "request_rate": rate,
        "num_requests": IDLE_REQUESTS,
        "arrival": None,
        "burstiness": None,
    }
    alone = search.traffic.changed(**changes)
    latencies, _ = search.latencies(search.served(search.smallest, alone))
    checks = [
        slo_check for slo_check in slo_checks(latencies, search.traffic, 1) if slo_check.is_missed
    ]
    if checks:
        raise search.unmeetable(f"of requests that run alone, the {checks_text(checks)}")


def judge(search: SizeSearch, size: Size) -> Judgement:
    """Return whether a size meets the SLOs, and remember it.

    Raises:
        InfeasibleError: Requests are rejected, whatever the size.
        KeyboardInterrupt: The search was stopped.
    """
    if size not in search.judged:
        fixed = not search.each or search.traffic.num_requests is not None
        judged = _judged_by_sample if fixed else _judged_in_steady_state
        search.judged[size] = judged(search, size)
    return search.judged[size]


def confirmed(search: SizeSearch, size: Size) -> bool:
    """Return whether a size that meets the SLOs does so in a long run too, and remember it.

    Requests of equal length may keep replicas out of step for thousands of requests, during which
    queues are shorter than later.
    """
    judgement = judge(search, size)
    sized = judgement.run is not None and judgement.run.window is not None
    if sized and judgement.verdict == "met":
        search.judged[size] = _judged_in_steady_state(search, size, CONFIRMING)
    return search.judged[size].verdict == "met"


def load_on(each: tuple[deployments.OfferedLoad, ...], size: Size) -> deployments.OfferedLoad:
    """Return the load of traffic on a size: that of the fullest pool.

    Args:
        each: Its load on one replica, or on one worker of each pool.
    """
    rates = [load.capacity_requests_per_s * number for load, number in zip(each, size, strict=True)]
    return each[0]._replace(capacity_requests_per_s=min(rates))


def beyond_capacity(load: deployments.OfferedLoad) -> str:
    """Return that a rate exceeds the capacity, a clause."""
    return (
        f"the rate exceeds their capacity of {significant(load.capacity_requests_per_s, 4)}"
        " requests/s"
    )


def _judged_in_steady_state(search: SizeSearch, size: Size, first: int = FIRST) -> Judgement:
    load = load_on(search.each, size)
    if load.grows:
        return Judgement("missed", beyond_capacity(load))
    near = load.stability != "stable"
    sizing = Sizing(
        traffic=search.traffic,
        scenario=search.of(size),
        load=load,
        prices=search.prices,
        first=max(NEAR_CAPACITY_REQUESTS, first) if near else first,
        most=MAX_REQUESTS,
        slower=search.slower,
        watch=search.runs.look,
    )
    run, latencies, rejected = extended_run(
        sizing, lambda seen: _excess(seen, search.traffic, min(size))
    )
    search.runs.count(interrupted=latencies is None)
    if latencies is None:
        raise KeyboardInterrupt
    if rejected:
        raise search.unmeetable(REJECTED)
    checks = slo_checks(latencies, search.traffic, min(size))
    reason = checks_text(checks)
    if any(check.is_missed for check in checks):
        return Judgement("missed", reason, run)
    settled = run.window is not None and run.window.settled
    met = settled and all(check.is_met for check in checks)
    return Judgement("met" if met else "undecided", reason, run)


def _excess(latencies: Latencies, traffic: Traffic, replicas: int) -> float:
    """Return how far a run is from telling whether the SLOs are met; at most 1 tells it."""
    if not latencies.arrival_s.size:
        return math.inf
    span_s = float(latencies.arrival_s[-1] - latencies.arrival_s[0])
    mean_s = float(latencies.request_latency_s.mean())
    short = math.sqrt(SPANS * mean_s / span_s) if span_s else math.inf
    checks = slo_checks(latencies, traffic, replicas)
    missed = any(check.is_missed for check in checks)
    return short if missed else max(short, *(check.excess for check in checks), 0.0)


def _judged_by_sample(search: SizeSearch, size: Size) -> Judgement:
    if search.each and load_on(search.each, size).grows:
        return Judgement("missed", beyond_capacity(load_on(search.each, size)))
    run = search.served(size)
    latencies, outcome = search.latencies(run)
    message = missed_slos(search.traffic, slo_statistics(latencies, search.traffic))
    sampled = not search.each and not run.resolved.concurrency  # else the capacity tells it
    if not message and sampled and saturated(outcome):
        message = "the load exceeds the capacity"
    return Judgement("missed" if message else "met", message, run)


MAX_SIZE_RATIO: Final = 64  # largest number that is tried / number that the capacity asks for


def smallest_size(search: SizeSearch) -> Size:
    """Return the smallest number of replicas, or of workers with the fewest GPUs, within the SLOs.

    Raises:
        InfeasibleError: No number meets them.
        InvalidSpecError: More are needed than a simulation supports.
        KeyboardInterrupt: The search was stopped.
    """
    first, most = _limits(search)
    refuse_unmeetable(search)
    while True:
        size = _smallest_met(search, first, most)
        if size is None:
            raise InfeasibleError(
                f"no number of {PLURALS[search.names]} meets the SLOs, up to {search.text(most)}:"
                f" {search.judged[most].reason}"
            )
        if search.slower or confirmed(search, size):
            return size


def _smallest_met(search: SizeSearch, first: Size, most: Size) -> Size | None:
    """Return the smallest size that meets the SLOs, None if none does."""

    def meets(size: Size) -> bool:
        return judge(search, size).verdict == "met"

    if search.names == TWO_POOLS:
        pools = search.served(search.smallest).ready.pools
        gpus = tuple(int(pool.question.plan.ranks[0]) for pool in pools)
        return cheapest_pair(meets, first, most, gpus)
    number = smallest_number(lambda number: meets((number,)), first[0], most[0])
    return None if number is None else (number,)


def _limits(search: SizeSearch) -> tuple[Size, Size]:
    """Return the numbers that the capacities ask for, and the largest that are tried."""
    pools = len(search.smallest)
    most = MAX_SCHEDULERS // pools // search.scenario.attention_dp
    if not search.each:
        requests = deployments.resolve_traffic(search.traffic, search.of(search.smallest)).requests
        return search.smallest, (min(most, int(requests.isl_N.size)),) * pools
    first = tuple(math.floor(load.share) + 1 for load in search.each)
    if max(first) > most:
        raise InvalidSpecError(
            f"request_rate = {search.each[0].requests_per_s:g}: {search.text(first)} are needed,"
            f" and a simulation supports at most {search.text((most,) * pools)}; scale the traffic"
            " down"
        )
    return first, tuple(min(MAX_SIZE_RATIO * number, most) for number in first)


def size_at(search: SizeSearch, slower: tuple[deployments.StepScale, ...]) -> Size | None:
    """Return the smallest size with scaled step times, None if none meets the SLOs."""
    try:
        return smallest_size(search.at_prices(slower))
    except InfeasibleError:
        return None


def most_sessions(search: SizeSearch, first: int, most: int) -> int:
    """Return the largest number of sessions within the SLOs, one less than the first if none is.

    Raises:
        InfeasibleError: Requests are rejected, whatever the number.
        KeyboardInterrupt: The search was stopped.
    """
    missing = smallest_number(
        lambda number: judge(search, (number,)).verdict == "missed", first, most
    )
    return most if missing is None else missing - 1
