"""Routing of requests to replicas, and to the schedulers of a replica.

Shape legend: N requests, S schedulers, R replicas of a type, F of all types.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from perfatlas.compiled import inlined, part
from perfatlas.serving.config import DECODE, PREFIX_AWARE, RANDOM, ROUND_ROBIN
from perfatlas.serving.engine.async_scheduling import truncate_overlapped
from perfatlas.serving.engine.balance import least_loaded
from perfatlas.serving.engine.prefix_routing import route_by_prefix
from perfatlas.serving.engine.stages import make_idle_ready
from perfatlas.serving.engine.step_batching import truncate_batch
from perfatlas.serving.policies import enqueue
from perfatlas.serving.sequences import blocks, queue_owner
from perfatlas.serving.state import UP

if TYPE_CHECKING:
    from perfatlas.serving.state import SimulationState

MIX = (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)  # splitmix64


@inlined
def route(sim: SimulationState, i: int, pool: tuple[int, int], turn: int) -> tuple[int, int]:
    """Return the index of the replica for a request, and the next turn in the pool."""
    first, end = pool
    count = end - first
    if sim.routing == ROUND_ROBIN:
        while sim.varies and sim.replica_F[first + turn].status != UP:
            turn = (turn + 1) % count
        return first + turn, (turn + 1) % count
    if sim.routing == RANDOM:
        return _drawn(sim, i, pool), turn
    if sim.routing == PREFIX_AWARE and first == 0:
        chosen, following = route_by_prefix(sim, i, turn)
        return int(chosen), int(following)
    best = least_loaded(sim, pool, turn)
    return best, (best - first + 1) % count


@part
def _drawn(sim: SimulationState, i: int, pool: tuple[int, int]) -> int:
    """Return a random serving replica of a pool."""
    first, end = pool
    if not sim.varies:
        return first + int(np.int64(_mixed(sim.seed, i) >> np.uint64(1)) % (end - first))
    serve = 0
    for r in range(first, end):
        serve += 1 if sim.replica_F[r].status == UP else 0
    left = np.int64(_mixed(sim.seed, i) >> np.uint64(1)) % serve
    chosen = first
    for r in range(first, end):
        if sim.replica_F[r].status == UP:
            if left == 0:
                chosen = r
                break
            left -= 1
    return int(chosen)


@part
def _mixed(seed: int, i: int) -> np.uint64:
    """Return 64 pseudo-random bits; splitmix64 of Steele, Lea and Flood 2014."""
    z = np.uint64(seed) + np.uint64(i + 1) * np.uint64(MIX[0])
    z = (z ^ (z >> np.uint64(30))) * np.uint64(MIX[1])
    z = (z ^ (z >> np.uint64(27))) * np.uint64(MIX[2])
    return z ^ (z >> np.uint64(31))


@part
def retry_admission(sim: SimulationState, r: int, now: int) -> None:
    """Let a replica reschedule at its next step boundary, after arrivals or freed blocks.

    Args:
        now: Time [ps].
    """
    make_idle_ready(sim, r)
    if sim.limits.async_scheduling:
        truncate_overlapped(sim, r, now)
    elif sim.replica_R[r].steps > 0 and sim.stages == 0:  # with stages there is one step
        truncate_batch(sim, r, now)


@inlined
def queue_at(sim: SimulationState, i: int, scheduler_index: int, now: int) -> None:
    """Queue a request at a replica.

    Args:
        now: Time [ps].
    """
    request = sim.request_N[i]
    r = scheduler_index - sim.first_replica
    request.scheduler = _rank(sim, r)
    if (
        sim.routing == PREFIX_AWARE
        and sim.ranks > 1
        and sim.limits.prefix_caching
        and sim.role != DECODE
    ):
        request.scheduler = _rank_by_prefix(sim, i, r, int(request.scheduler))
    replica = sim.replica_R[r]
    replica.load += 1
    if enqueue(sim, i):
        retry_admission(sim, r, now)
    else:
        make_idle_ready(sim, r)


@part
def _rank(sim: SimulationState, r: int) -> int:
    """Return the scheduler of a replica for a request: lowest 4 x waiting + running."""
    first = queue_owner(sim, r * sim.ranks)
    best = first
    least = _queued(sim, best)
    for s in range(first + 1, first + sim.ranks):
        load = _queued(sim, s)
        if load < least:
            best = s
            least = load
    return int(best)


@part
def _rank_by_prefix(sim: SimulationState, i: int, r: int, least: int) -> int:
    """Return the rank with the longest cached prefix of a request, by the rules of the router.

    Args:
        least: The least loaded rank, for requests that follow no prefix, and among equal ones.
    """
    first = queue_owner(sim, r * sim.ranks)
    most = 0
    fewest = _requests(sim, first)
    for s in range(first, first + sim.ranks):
        most = max(most, _requests(sim, s))
        fewest = min(fewest, _requests(sim, s))
    if most - fewest > sim.affinity.balance_apart and most > fewest * sim.affinity.balance_ratio:
        return least
    request = sim.request_N[i]
    chosen = least
    request.scheduler = least
    longest = max(
        int(sim.affinity.match_share * request.isl) // sim.limits.block_size,
        blocks.find_cached(sim, i).found,
    )
    for s in range(first, first + sim.ranks):
        request.scheduler = s
        if blocks.holds(sim, i, longest):  # otherwise it has no longer prefix
            found = blocks.find_cached(sim, i).found
            if found > longest:
                longest = found
                chosen = s
    return chosen


@part
def _requests(sim: SimulationState, s: int) -> int:
    """Return the requests of a scheduler that have not ended."""
    scheduler = sim.scheduler_S[s]
    waiting = scheduler.waiting + scheduler.unread + scheduler.away + scheduler.retracted
    return int(waiting + scheduler.running + scheduler.elsewhere)


@part
def _queued(sim: SimulationState, s: int) -> int:
    """Return 4 x waiting + running of a scheduler, counting requests not yet read as waiting."""
    scheduler = sim.scheduler_S[s]
    waiting = scheduler.waiting + scheduler.unread + scheduler.away + scheduler.retracted
    return int(4 * waiting + scheduler.running + scheduler.elsewhere)
