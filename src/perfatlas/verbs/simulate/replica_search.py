"""Search for the smallest number of replicas that meets the SLOs.

Traffic with a steady rate is judged in steady state: a run is extended until the statistics are
above or within their SLOs with 95% confidence each. Other traffic, and a fixed number of requests,
is judged by that sample. All numbers of replicas serve the same requests.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from perfatlas.quantities import InfeasibleError, InvalidSpecError, counted
from perfatlas.scenario.deployments import (
    OfferedLoad,
    has_steady_rate,
    offered_load,
    resolve_traffic,
    run_traffic,
    service,
    slowed,
)
from perfatlas.serving.config import MAX_SCHEDULERS, Control
from perfatlas.serving.outcome import request_latencies, saturated
from perfatlas.verbs.simulate.objectives import (
    checks_text,
    missed_slos,
    slo_checks,
    slo_statistics,
)
from perfatlas.verbs.simulate.run_length import FIRST, Run, Sizing, extended_run

if TYPE_CHECKING:
    from collections.abc import Callable

    from perfatlas.scenario.deployments import Priced, ResolvedTraffic, Service, StepScale
    from perfatlas.scenario.fields import Scenario, Traffic
    from perfatlas.serving.outcome import Latencies, Outcome

    OnProgress = Callable[[float], bool]

ALONE: Final = 0.001  # of the capacity of a replica: its requests hardly ever meet
FEW: Final = 1_000  # requests that run alone
SPANS: Final = 100.0  # duration of what is measured, in mean request latencies, if MOST allows it
CONFIRMING: Final = 100_000  # requests of the run that confirms the number found
NEAR: Final = 200_000  # requests of the first run within 3% of the capacity
MOST: Final = 600_000  # requests of the longest run
LARGEST: Final = 64  # largest number that is tried / number that the capacity asks for
EXPECTED: Final = 20  # expected runs of a search with its interval, for the progress
REJECTED: Final = "requests that need more KV cache than available are rejected"

Verdict = Literal["met", "missed", "undecided"]


class Judgement(NamedTuple):
    """Whether a number of replicas meets the SLOs.

    Args:
        verdict: "undecided" where the longest run is too short to tell.
        reason: What decides, a clause.
        run: What ran; None where the capacity decides.
    """

    verdict: Verdict
    reason: str
    run: Run | None = None


@dataclass(kw_only=True)
class ReplicaSearch:
    """State of a search.

    Args:
        scenario: The deployment, with any number of replicas.
        traffic: The traffic.
        known: Price tables of earlier calls.
        each: Load of the traffic on one replica; None where it has no steady rate.
        watch: Called regularly; returns True to stop the search.
        slower: How steps are slower; empty for as priced.
        tried: Number of runs so far.
        judged: Judgements by number of replicas.
    """

    scenario: Scenario
    traffic: Traffic
    known: Priced
    each: OfferedLoad | None = None
    watch: OnProgress | None = None
    slower: tuple[StepScale, ...] = ()
    tried: int = 0
    judged: dict[int, Judgement] = field(default_factory=dict)

    def look(self, share: float) -> bool:
        """Report the progress of the search, and return whether to stop it.

        Args:
            share: Fraction of the current run.
        """
        return self.watch is not None and self.watch(min((self.tried + share) / EXPECTED, 1.0))

    def at_prices(self, slower: tuple[StepScale, ...]) -> ReplicaSearch:
        """Return the same search with scaled step times.

        Args:
            slower: How each pool is slower.
        """
        moved = replace(self, slower=slower, judged={})
        moved.each = load_on_one(moved)
        return moved

    def of(self, replicas: int) -> Scenario:
        """Return the deployment of a number of replicas.

        Args:
            replicas: Their number.
        """
        return self.scenario.model_copy(update={"dp": replicas})


def load_on_one(search: ReplicaSearch) -> OfferedLoad | None:
    """Return the load of all traffic on one replica; None for traffic without a steady rate.

    Args:
        search: The search.

    Raises:
        InfeasibleError: Every request needs more KV cache than available.
        KeyboardInterrupt: The search was stopped.
    """
    one, traffic = search.of(1), search.traffic
    if not has_steady_rate(traffic, one) or math.isinf(traffic.request_rate or math.inf):
        return None
    measured = offered_load(one, traffic, search.known, slower=search.slower, watch=search.look)
    search.tried += 1
    if measured.interrupted:
        raise KeyboardInterrupt
    if measured.load is None:
        raise InfeasibleError("all requests need more KV cache than available")
    return measured.load


def smallest(search: ReplicaSearch) -> int:
    """Return the smallest number of replicas that meets the SLOs.

    Args:
        search: The search, updated in place.

    Raises:
        InfeasibleError: No number of replicas meets them.
        InvalidSpecError: More replicas are needed than a simulation supports.
        KeyboardInterrupt: The search was stopped.
    """
    first, most = _limits(search)
    if search.each is not None:
        _refuse_unmeetable(search, search.each)
    met, missed, step = first, first - 1, 1
    while _judge(search, met).verdict != "met":
        if met >= most:
            raise InfeasibleError(
                f"no number of replicas up to {most:,} meets the SLOs: {search.judged[met].reason}"
            )
        missed, met, step = met, min(met + step, most), 2 * step
    while met - missed > 1:
        middle = (met + missed) // 2
        if _judge(search, middle).verdict == "met":
            met = middle
        else:
            missed = middle
    return met if search.slower else _confirmed(search, met, most)


def _confirmed(search: ReplicaSearch, found: int, most: int) -> int:
    """Return the smallest number from one on that meets the SLOs in a long run too.

    Requests of equal length may keep replicas out of step for thousands of requests, during which
    queues are shorter than later.
    """
    for number in range(found, most + 1):
        judgement = _judge(search, number)
        sized = judgement.run is not None and judgement.run.window is not None
        if sized and judgement.verdict == "met":
            judgement = _judged_in_steady_state(search, number, CONFIRMING)
            search.judged[number] = judgement
        if judgement.verdict == "met":
            return number
    raise InfeasibleError(
        f"no number of replicas up to {most:,} meets the SLOs: {search.judged[most].reason}"
    )


def _limits(search: ReplicaSearch) -> tuple[int, int]:
    """Return the number of replicas that the capacity asks for, and the largest that is tried."""
    most = MAX_SCHEDULERS // search.scenario.attention_dp
    if search.each is None:
        requests = resolve_traffic(search.traffic, search.of(1)).requests
        return 1, min(most, int(requests.isl_N.size))
    first = math.floor(search.each.share) + 1
    if first > most:
        raise InvalidSpecError(
            f"request_rate = {search.each.requests_per_s:g}: {first:,} replicas of"
            f" {search.each.capacity_requests_per_s:.4g} requests/s are needed, and a simulation"
            f" supports at most {counted(most, 'replica')}; scale the traffic down"
        )
    return first, min(LARGEST * first, most)


def _refuse_unmeetable(search: ReplicaSearch, each: OfferedLoad) -> None:
    """Refuse SLOs that requests miss which share a replica with no others."""
    rate = ALONE * each.capacity_requests_per_s
    changes = {"request_rate": rate, "num_requests": FEW, "arrival": None, "burstiness": None}
    alone = search.traffic.model_copy(update=changes)
    resolved = resolve_traffic(alone, search.of(1))
    ready, outcome = _outcome(search, alone, resolved, 1)
    if outcome.rejected().any():
        raise InfeasibleError(f"no number of replicas meets the SLOs: {REJECTED}")
    found = request_latencies(resolved.requests, outcome, ready.seen)
    checks = [one for one in slo_checks(found, search.traffic, 1) if one.is_missed]
    if checks:
        raise InfeasibleError(
            "no number of replicas meets the SLOs: of requests that run alone, the"
            f" {checks_text(checks)}"
        )


def _judge(search: ReplicaSearch, replicas: int) -> Judgement:
    """Return whether a number of replicas meets the SLOs, and remember it.

    Raises:
        InfeasibleError: Requests are rejected, whatever the number of replicas.
        KeyboardInterrupt: The search was stopped.
    """
    if replicas not in search.judged:
        fixed = search.each is None or search.traffic.num_requests is not None
        judge = _judged_by_sample if fixed else _judged_in_steady_state
        search.judged[replicas] = judge(search, replicas)
    return search.judged[replicas]


def load_on(each: OfferedLoad, replicas: int) -> OfferedLoad:
    """Return the load of traffic on a number of equal replicas.

    Args:
        each: Its load on one replica.
        replicas: Their number.
    """
    return each._replace(capacity_requests_per_s=each.capacity_requests_per_s * replicas)


def beyond_capacity(load: OfferedLoad) -> str:
    """Return that a rate exceeds the capacity, a clause.

    Args:
        load: The rate and the capacity.
    """
    return f"the rate exceeds their capacity of {load.capacity_requests_per_s:.4g} requests/s"


def _judged_in_steady_state(search: ReplicaSearch, replicas: int, first: int = FIRST) -> Judgement:
    if search.each is None:
        raise ValueError("traffic without a steady rate has no steady state")
    load = load_on(search.each, replicas)
    if load.grows:
        return Judgement("missed", beyond_capacity(load))
    near = load.stability != "stable"
    sizing = Sizing(
        traffic=search.traffic,
        scenario=search.of(replicas),
        load=load,
        known=search.known,
        first=max(NEAR, first) if near else first,
        most=MOST,
        slower=search.slower,
        watch=search.look,
    )
    run, found, rejected = extended_run(
        sizing, lambda seen: _excess(seen, search.traffic, replicas)
    )
    search.tried += 1
    if found is None or search.look(0.0):
        raise KeyboardInterrupt
    if rejected:
        raise InfeasibleError(f"no number of replicas meets the SLOs: {REJECTED}")
    checks = slo_checks(found, search.traffic, replicas)
    reason = checks_text(checks)
    if any(one.is_missed for one in checks):
        return Judgement("missed", reason, run)
    settled = run.window is not None and run.window.settled
    met = settled and all(one.is_met for one in checks)
    return Judgement("met" if met else "undecided", reason, run)


def _excess(found: Latencies, traffic: Traffic, replicas: int) -> float:
    """Return how far a run is from telling whether the SLOs are met; at most 1 tells it."""
    if not found.arrival_s.size:
        return math.inf
    span_s = float(found.arrival_s[-1] - found.arrival_s[0])
    mean_s = float(found.request_latency_s.mean())
    short = math.sqrt(SPANS * mean_s / span_s) if span_s else math.inf
    checks = slo_checks(found, traffic, replicas)
    missed = any(one.is_missed for one in checks)
    return short if missed else max(short, *(one.excess for one in checks), 0.0)


def _judged_by_sample(search: ReplicaSearch, replicas: int) -> Judgement:
    resolved = resolve_traffic(search.traffic, search.of(replicas))
    if search.each is not None and load_on(search.each, replicas).grows:
        return Judgement("missed", beyond_capacity(load_on(search.each, replicas)))
    ready, outcome = _outcome(search, search.traffic, resolved, replicas)
    if outcome.rejected().any():
        raise InfeasibleError(f"no number of replicas meets the SLOs: {REJECTED}")
    found = request_latencies(resolved.requests, outcome, ready.seen)
    said = missed_slos(search.traffic, slo_statistics(found, search.traffic))
    if not said and not resolved.concurrency and saturated(outcome):
        said = "the load exceeds the capacity"
    return Judgement("missed" if said else "met", said, Run(search.traffic, resolved, ready))


def _outcome(
    search: ReplicaSearch, traffic: Traffic, resolved: ResolvedTraffic, replicas: int
) -> tuple[Service, Outcome]:
    """Return what serves requests, and what resolved of them.

    Raises:
        KeyboardInterrupt: The search was stopped.
    """
    ready = service(search.of(replicas), traffic, resolved, search.known)
    ready = slowed(ready, search.slower) if search.slower else ready
    outcome = run_traffic(ready, resolved, Control(watch=search.look))
    search.tried += 1
    if outcome.interrupted or search.look(0.0):
        raise KeyboardInterrupt
    return ready, outcome
