"""Routing of requests to replicas, and to the schedulers of a replica.

Shape legend: N requests, S schedulers, R replicas of a type, F of all types.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from perfatlas.compiled import inlined, part
from perfatlas.serving.config import PREFIX_AWARE, RANDOM, ROUND_ROBIN
from perfatlas.serving.engine.async_scheduling import cut_overlapped
from perfatlas.serving.engine.balance import least_loaded
from perfatlas.serving.engine.handover import make_ready
from perfatlas.serving.engine.prefix_routing import follow_prefix
from perfatlas.serving.engine.step_batching import cut
from perfatlas.serving.policies import enqueue
from perfatlas.serving.state import UP

if TYPE_CHECKING:
    from perfatlas.serving.state import World

MIX = (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)  # splitmix64


@inlined
def route(world: World, i: int, pool: tuple[int, int], turn: int) -> tuple[int, int]:
    """Return the index of the replica for a request, and the next turn in the pool.

    Args:
        world: The simulation; at least one replica of the pool serves.
        i: The request.
        pool: Index of its first replica, and after its last.
        turn: Current turn of round robin and of ties.
    """
    first, end = pool
    count = end - first
    if world.routing == ROUND_ROBIN:
        while world.varies and world.replica_F[first + turn].status != UP:
            turn = (turn + 1) % count
        return first + turn, (turn + 1) % count
    if world.routing == RANDOM:
        return _drawn(world, i, pool), turn
    if world.routing == PREFIX_AWARE and first == 0:
        chosen, following = follow_prefix(world, i, turn)
        return int(chosen), int(following)
    best = least_loaded(world, pool, turn)
    return best, (best - first + 1) % count


@part
def _drawn(world: World, i: int, pool: tuple[int, int]) -> int:
    """Return a random serving replica of a pool."""
    first, end = pool
    if not world.varies:
        return first + int(np.int64(_mixed(world.seed, i) >> np.uint64(1)) % (end - first))
    serve = 0
    for r in range(first, end):
        serve += 1 if world.replica_F[r].status == UP else 0
    left = np.int64(_mixed(world.seed, i) >> np.uint64(1)) % serve
    chosen = first
    for r in range(first, end):
        if world.replica_F[r].status == UP:
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


@inlined
def queue_at(world: World, i: int, place: int, now: int) -> None:
    """Queue a request at a replica.

    Args:
        world: The simulation of the replica's type.
        i: The request.
        place: Index of the replica among all.
        now: Time [ps].
    """
    request = world.request_N[i]
    r = place - world.first_replica
    request.lane = _rank(world, r)
    replica = world.replica_R[r]
    replica.load += 1
    open_door = enqueue(world, i)
    if replica.steps == 0:
        make_ready(world, r)
    if open_door and world.async_scheduling:
        cut_overlapped(world, r, now)
    elif open_door and replica.steps > 0:
        cut(world, r, now)


@part
def _rank(world: World, r: int) -> int:
    """Return the scheduler of a replica for a request: lowest 4 x waiting + running."""
    best = r * world.ranks
    least = _queued(world, best)
    for s in range(best + 1, (r + 1) * world.ranks):
        load = _queued(world, s)
        if load < least:
            best = s
            least = load
    return int(best)


@part
def _queued(world: World, s: int) -> int:
    """Return 4 x waiting + running of a scheduler, counting requests not yet read as waiting."""
    lane = world.lane_S[s]
    waiting = lane.waiting + lane.unread + lane.away + lane.retracted
    return int(4 * waiting + lane.running)
