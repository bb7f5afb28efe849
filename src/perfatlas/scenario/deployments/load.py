"""Request rate a deployment can sustain, and whether the offered rate is below it.

Shape legend: N requests, R replicas.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfatlas.sampling import stability_of
from perfatlas.scenario.deployments.arrivals import is_closed, resolve_traffic
from perfatlas.scenario.deployments.services import run_traffic, service
from perfatlas.scenario.deployments.step_interval import slowed
from perfatlas.serving.config import Control
from perfatlas.serving.requests import TICKS_PER_SECOND

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from perfatlas.sampling import Stability
    from perfatlas.scenario.deployments.engine_deployment import Priced
    from perfatlas.scenario.deployments.services import Service
    from perfatlas.scenario.deployments.step_interval import StepScale
    from perfatlas.scenario.fields import Scenario, Traffic
    from perfatlas.serving.outcome import Outcome

MIN_SERVED_REQUESTS: Final = 4_000  # requests that a saturated run serves at least
MAX_SEQUENCES: Final = 64_000
TURNOVERS: Final = 24  # times the sequences in flight
TURNOVERS_OF_POOLS: Final = 96  # the longest outputs still decode long after the last prompt
START, END = 0.1, 0.95  # of a saturated run, between which completions are counted
BLIND_ROUTING: Final = ("round_robin", "random")  # slow replicas get as many requests as fast ones


class OfferedLoad(NamedTuple):
    """An offered rate and the largest one that can be sustained."""

    requests_per_s: float  # Offered, generated without end
    capacity_requests_per_s: float  # Completed by engines that never run out of requests

    @property
    def share(self) -> float:
        """Offered rate over capacity."""
        return self.requests_per_s / self.capacity_requests_per_s

    @property
    def grows(self) -> bool:
        """Whether the queue grows without bound."""
        return self.share > 1.0

    @property
    def stability(self) -> Stability:
        """Whether the queue has a steady state; "near capacity" within 3% of it."""
        return stability_of(self.share)


class LoadRun(NamedTuple):
    """What a run of saturated engines found."""

    load: OfferedLoad | None  # None where every request is rejected, or the run was stopped
    interrupted: bool = False


def has_steady_rate(traffic: Traffic, scenario: Scenario) -> bool:
    """Return whether requests arrive at one finite mean rate at replicas that do not change.

    Args:
        traffic: What arrives and how replicas are operated.
    """
    rate = traffic.request_rate
    drawn = traffic.requests is None and traffic.arrival != "ramp"
    generated = drawn and not is_closed(traffic, scenario)
    changes = traffic.availability(scenario.dp).varies
    return generated and traffic.turns == 1 and not changes and math.isfinite(rate or math.inf)


def offered_load(
    scenario: Scenario,
    traffic: Traffic,
    known: Priced,
    *,
    slower: Sequence[StepScale] = (),
    watch: Callable[[float], bool] | None = None,
) -> LoadRun:
    """Return the rate that traffic offers and the capacity for requests of its lengths.

    The capacity of equal parts of a deployment is that of one, times their number: engines that
    never run out of requests do not affect each other.

    Args:
        known: Tables of prices of earlier calls, to take from and to add to.
        slower: How the steps of each pool or kind are slower; none are as priced.
        watch: Called during the run; true stops it.
    """
    count = MIN_SERVED_REQUESTS
    while True:
        ready, parts, outcome = _saturated(scenario, traffic, known, count, (slower, watch))
        if outcome.interrupted or not (outcome.finished_N >= 0).any():
            return LoadRun(None, outcome.interrupted)
        turnovers = TURNOVERS_OF_POOLS if ready.named else TURNOVERS
        needed = turnovers * _in_flight(outcome)
        if count >= min(needed, MAX_SEQUENCES):
            break
        count = min(needed, MAX_SEQUENCES)
    rate = traffic.request_rate or math.inf
    return LoadRun(OfferedLoad(rate, parts * _capacity(ready, outcome, traffic.routing)))


def _saturated(
    scenario: Scenario,
    traffic: Traffic,
    known: Priced,
    count: int,
    how: tuple[Sequence[StepScale], Callable[[float], bool] | None],
) -> tuple[Service, int, Outcome]:
    """Return one of the equal parts, their number, and its run of requests that arrive at once."""
    slower, watch = how
    changes = {"request_rate": math.inf, "num_requests": count, "arrival": None, "burstiness": None}
    at_once = traffic.changed(**changes)
    at_once.router = None  # a part has fewer replicas
    resolved = resolve_traffic(at_once, scenario)
    ready = service(scenario, at_once, resolved, known)
    ready, parts = _part(_first_come(slowed(ready, slower) if slower else ready))
    return ready, parts, run_traffic(ready, resolved, Control(watch=watch, keeps_partial=True))


def _first_come(ready: Service) -> Service:
    """Return a service that queues requests which arrive at once in their order.

    A thread per request does not limit the rate of tokenization, but it would queue the shortest of
    all prompts first and leave the longest to the end, outside the window that is counted.
    """
    return replace(
        ready,
        pools=tuple(
            pool
            if pool.replicas.readers
            else replace(pool, replicas=pool.replicas._replace(read_token=0))
            for pool in ready.pools
        ),
    )


def _part(ready: Service) -> tuple[Service, int]:
    """Return the smallest service with the same shares of replicas, and how many it is of these."""
    parts = math.gcd(*(pool.replicas.number for pool in ready.pools))
    pools = tuple(
        replace(pool, replicas=pool.replicas._replace(number=pool.replicas.number // parts))
        for pool in ready.pools
    )
    return replace(ready, pools=pools), parts


def _in_flight(outcome: Outcome) -> int:
    """Return how many requests run together in the middle of a saturated run."""
    done_N = outcome.finished_N >= 0
    ended_N = np.sort(outcome.finished_N[done_N])
    middle = ended_N[ended_N.size // 2]
    started = int(np.count_nonzero(outcome.scheduled_N[done_N] <= middle))
    return started - int(np.searchsorted(ended_N, middle))


def _capacity(ready: Service, outcome: Outcome, routing: str) -> float:
    """Return the completions per second while no replica runs out of requests."""
    done_N = outcome.finished_N >= 0
    ended_N = outcome.finished_N[done_N]
    if outcome.fronted.late_last_N.size:
        ended_N = ended_N + outcome.fronted.late_last_N[done_N]
    kind_R = _kinds_of_replicas(ready)
    kind_N = kind_R[outcome.replica_N[done_N]] if ready.heterogeneous else np.zeros_like(ended_N)
    kinds, number_K = np.unique(kind_R, return_counts=True)
    served = [ended_N[kind_N == kind] for kind in kinds]
    until = min(int(one.max(initial=0)) for one in served)
    rates = [_rate(one, until) for one in served]
    if routing not in BLIND_ROUTING:
        return math.fsum(rates)
    share_K = number_K / number_K.sum()
    fullest = [rate / float(share) for rate, share in zip(rates, share_K, strict=True)]
    return min(fullest)


def _kinds_of_replicas(ready: Service) -> NDArray[np.int64]:
    """Return which kind each replica is of (R,); kinds that are equal are one."""
    if not ready.heterogeneous:
        return np.zeros(1, np.int64)
    alike = [pool.scenario.changed(dp=None) for pool in ready.pools]
    numbers = [pool.replicas.number for pool in ready.pools]
    return np.repeat(np.array([alike.index(scenario) for scenario in alike]), numbers)


def _rate(ended_N: NDArray[np.int64], until: int) -> float:
    """Return the completions per second in the middle of a run."""
    first, last = START * until, END * until
    counted = int(np.count_nonzero((ended_N > first) & (ended_N <= last)))
    if not counted:  # too few to fill the window
        return ended_N.size * TICKS_PER_SECOND / int(ended_N.max())
    return counted * TICKS_PER_SECOND / (last - first)
