"""Replicas fail, drain and come back; what becomes of their requests.

A failure takes effect when the steps that run end: a client still gets their tokens. Then the
replica has lost its requests and its caches. Each request is sent again, or lost, as asked. One
that is sent again starts over, whatever its client had got before: a router sends a request again
only as long as nothing has been streamed, and a client whose stream has broken asks anew. What is
told of it (first token, time in the queue) is of its last try, from its first arrival. A replica
that drains takes nothing new and goes on with what it has; what is left when it comes back is lost
like that of a failure, since a new process starts then.

Source: sglang-router 0.3.2, src/routers/http/router.rs, route_typed_request(): the status of an
answer is looked at before its stream is forwarded.

Limits: a router learns of a failure at once. No engine goes on from the tokens that another gave.
Replicas of two pools do not fail.

Shape legend: N requests, S schedulers, R replicas of a kind, E failures and returns.
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
RETURN, CRASH, DRAIN = range(3)  # at one instant in this order


@part
def strike(world: World, place: int, what: int, now: int) -> None:
    """Let a replica fail, drain or come back.

    Args:
        world: That of the replica.
        place: The replica's, among all.
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
    """Let the first border of steps from now on be the last one of a replica."""
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
    """Let a doomed replica lose what it has, unless a step of it runs.

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
    """Take all requests from a scheduler."""
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
    """Let a request be as if it had never run, to be sent again, or be lost."""
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
    """Let a replica be as at its start, its caches empty.

    Args:
        world: The simulation.
        r: The replica, without requests that are not told elsewhere.
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
    """Let a scheduler's named blocks be free and unknown, where it has any."""
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
