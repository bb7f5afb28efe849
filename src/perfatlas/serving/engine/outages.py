"""Failing, draining and recovering replicas, and the handling of their requests.

A failure takes effect at the end of the running steps, whose tokens still reach the clients. Then
the replica loses its requests and caches. Each request is retried or lost, as configured. A retried
request starts over, even if tokens had been streamed: a router retries a request only before its
stream starts, and a client whose stream breaks sends it again. Reported times (first token,
queueing) are those of the last try, counted from the first arrival. A draining replica accepts no
requests and continues those it has; requests left when it recovers are lost like in a failure,
since a new process starts then.

Source: sglang-router 0.3.2, src/routers/http/router.rs, route_typed_request(): checks the status
of a response before forwarding its stream.

Limits: A router detects failures immediately. No engine continues from tokens of another. Replicas
of two pools do not fail.

Shape legend: N requests, S schedulers, R replicas of a type, E failures and recoveries.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.compiled import part
from perfatlas.serving.engine.arrival_queue import follow
from perfatlas.serving.engine.async_scheduling import foresee
from perfatlas.serving.engine.prefix_routing import forget_replica
from perfatlas.serving.engine.step_batching import cut
from perfatlas.serving.sequences import expect, steps_until, stretch_time
from perfatlas.serving.state import LOST, NEVER, NOBODY, OUT, UP

if TYPE_CHECKING:
    from perfatlas.serving.state import World

_foresee = part(foresee)
RETURN, CRASH, DRAIN = range(3)  # order at equal times


@part
def strike(world: World, place: int, what: int, now: int) -> None:
    """Apply a failure, the start of draining, or a recovery to a replica.

    Args:
        world: The simulation of the replica's type.
        place: Index of the replica among all.
        what: RETURN, CRASH or DRAIN.
        now: Time [ps].
    """
    r = place - world.first_replica
    replica = world.replica_R[r]
    if what == RETURN:
        replica.back = 1
        replica.doomed = 1
    else:
        replica.status = OUT
        replica.back = 0
        forget_replica(world, place)
        if what == CRASH:
            replica.doomed = 1
    if replica.doomed:
        if replica.steps > 0:
            _halt(world, r, now)
        take_down(world, r, now)


@part
def _halt(world: World, r: int, now: int) -> None:
    """Let a replica stop at its next step boundary."""
    replica = world.replica_R[r]
    if not world.async_scheduling:
        cut(world, r, now)
    elif replica.decided == 0:
        delay = now - replica.start
        replica.steps = steps_until(replica.base, replica.rise, replica.steps, delay)
        end = replica.start + stretch_time(replica.base, replica.rise, replica.steps)
        _foresee(world, r, end)
        replica.decided = 1
        world.end_R[r] = end


@part
def take_down(world: World, r: int, now: int) -> None:
    """Take down a failing replica with its requests and caches, unless a step is running.

    Args:
        world: The simulation.
        r: The replica.
        now: Time [ps].
    """
    replica = world.replica_R[r]
    if replica.doomed == 0 or replica.steps > 0:
        return
    for s in range(r * world.ranks, (r + 1) * world.ranks):
        _lose_all(world, s, now)
    clear(world, r)
    replica.doomed = 0
    if replica.back:
        replica.status = UP


@part
def _lose_all(world: World, s: int, now: int) -> None:
    """Remove all requests of a scheduler."""
    lane = world.lane_S[s]
    if world.draft_tokens == 0:
        for place in range(lane.heap):
            request = world.request_N[world.finishing_SH[s, place].item]
            request.generated = request.osl - (request.finish - lane.step)
    i = lane.running_tail
    while i != NOBODY:
        before = world.request_N[i].before
        _lose(world, i, now)
        i = before
    i = lane.waiting_head
    for _ in range(lane.waiting):
        after = world.request_N[i].after
        _lose(world, i, now)
        i = after
    i = lane.unread_head
    for _ in range(lane.unread):
        after = world.request_N[i].after
        _lose(world, i, now)
        i = after


@part
def _lose(world: World, i: int, now: int) -> None:
    """Reset a request for a retry, or mark it as lost."""
    request = world.request_N[i]
    fault = world.fault_N[i]
    world.clock_1[0].wasted += request.generated
    request.generated = 0
    request.computed = 0
    request.placed = 0
    request.registered = 0
    loss = world.loss_N[i]
    loss.gone = 0
    loss.since = 0
    loss.mark = 0
    world.scheduled_N[i] = NOBODY
    world.first_token_N[i] = NOBODY
    world.cached_N[i] = 0
    world.delay_N[i] = 0
    world.lost_N[i] = 0
    fault.tries += 1
    if world.retries:
        fault.again = now + world.retry_after
        expect(world, i, fault.again)
    else:
        fault.fate = LOST
        follow(world, i, now)


@part
def clear(world: World, r: int) -> None:
    """Reset a replica to its initial state with empty caches.

    Args:
        world: The simulation.
        r: The replica, whose requests were already removed.
    """
    replica = world.replica_R[r]
    replica.steps = 0
    replica.next_steps = 0
    replica.decided = 0
    replica.stale = 0
    replica.load = 0
    world.end_R[r] = NEVER
    for s in range(r * world.ranks, (r + 1) * world.ranks):
        world.lane_S[s] = world.blank_1[0]
        world.growth_SB[s, :] = 0
        for b in range(world.growers_SB.shape[1]):
            world.growers_SB[s, b].head = NOBODY
            world.growers_SB[s, b].tail = NOBODY
        _empty_cache(world, s)


@part
def _empty_cache(world: World, s: int) -> None:
    """Empty the prefix cache of a scheduler, if it has one."""
    blocks = world.block_SK.shape[1]
    for k in range(blocks):
        row = world.block_SK[s, k]
        row.known = 0
        row.references = 0
        row.before = k - 1
        row.after = k + 1 if k + 1 < blocks else NOBODY
    if blocks > 0:
        for u in range(world.bucket_SU.shape[1]):
            world.bucket_SU[s, u].head = NOBODY
            world.bucket_SU[s, u].tail = NOBODY
    rows = world.spare_SH.shape[1]
    for h in range(rows):
        world.spare_SH[s, h] = rows - 1 - h
