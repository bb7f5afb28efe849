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
from perfatlas.serving.engine.arrival_queue import on_request_end
from perfatlas.serving.engine.async_scheduling import plan_ahead
from perfatlas.serving.engine.prefix_routing import drop_replica
from perfatlas.serving.engine.step_batching import truncate_batch
from perfatlas.serving.sequences import batch_time, clear_tiers, schedule_arrival, steps_until
from perfatlas.serving.state import LOST, NEVER, NO_INDEX, OUT, UP

if TYPE_CHECKING:
    from perfatlas.serving.state import SimulationState

_plan_ahead = part(plan_ahead)
RETURN, CRASH, DRAIN = range(3)  # order at equal times


@part
def apply_failure(sim: SimulationState, position: int, what: int, now: int) -> None:
    """Apply a failure, the start of draining, or a recovery to a replica.

    Args:
        what: RETURN, CRASH or DRAIN.
        now: Time [ps].
    """
    r = position - sim.first_replica
    replica = sim.replica_R[r]
    if what == RETURN:
        replica.back = 1
        replica.doomed = 1
    else:
        replica.status = OUT
        replica.back = 0
        drop_replica(sim, position)
        if what == CRASH:
            replica.doomed = 1
    if replica.doomed:
        if replica.steps > 0:  # it stops at its next step boundary
            if not sim.async_scheduling:
                truncate_batch(sim, r, now)
            elif replica.decided == 0:
                delay = now - replica.start
                replica.steps = steps_until(replica.base, replica.rise, replica.steps, delay)
                end = replica.start + batch_time(replica.base, replica.rise, replica.steps)
                _plan_ahead(sim, r, end)
                replica.decided = 1
                sim.end_R[r] = end
        take_down(sim, r, now)


@part
def take_down(sim: SimulationState, r: int, now: int) -> None:
    """Take down a failing replica with its requests and caches, unless a step is running.

    Args:
        now: Time [ps].
    """
    replica = sim.replica_R[r]
    if replica.doomed == 0 or replica.steps > 0:
        return
    for s in range(r * sim.ranks, (r + 1) * sim.ranks):
        _remove_all(sim, s, now)
    clear(sim, r)
    replica.doomed = 0
    if replica.back:
        replica.status = UP


@part
def _remove_all(sim: SimulationState, s: int, now: int) -> None:
    """Remove all requests of a scheduler."""
    scheduler = sim.scheduler_S[s]
    if sim.draft_tokens == 0:
        for index in range(scheduler.heap):
            request = sim.request_N[sim.finishing_SH[s, index].item]
            request.generated = request.osl - (request.finish - scheduler.step)
    i = scheduler.running_tail
    while i != NO_INDEX:
        before = sim.request_N[i].before
        _lose(sim, i, now)
        i = before
    i = scheduler.waiting_head
    for _ in range(scheduler.waiting):
        after = sim.request_N[i].after
        _lose(sim, i, now)
        i = after
    i = scheduler.unread_head
    for _ in range(scheduler.unread):
        after = sim.request_N[i].after
        _lose(sim, i, now)
        i = after


@part
def _lose(sim: SimulationState, i: int, now: int) -> None:
    """Reset a request for a retry, or mark it as lost."""
    request = sim.request_N[i]
    fault = sim.fault_N[i]
    sim.clock_1[0].wasted += request.generated
    request.generated = 0
    request.computed = 0
    request.placed = 0
    request.registered = 0
    request.offloaded = 0
    loss = sim.loss_N[i]
    loss.gone = 0
    loss.since = 0
    loss.mark = 0
    sim.scheduled_N[i] = NO_INDEX
    sim.first_token_N[i] = NO_INDEX
    sim.cached_N[i] = 0
    sim.delay_N[i] = 0
    sim.lost_N[i] = 0
    fault.tries += 1
    if sim.retries:
        fault.again = now + sim.retry_after
        schedule_arrival(sim, i, fault.again)
    else:
        fault.fate = LOST
        on_request_end(sim, i, now)


@part
def clear(sim: SimulationState, r: int) -> None:
    """Reset a replica to its initial state with empty caches."""
    replica = sim.replica_R[r]
    replica.steps = 0
    replica.next_steps = 0
    replica.decided = 0
    replica.stale = 0
    replica.load = 0
    sim.end_R[r] = NEVER
    for s in range(r * sim.ranks, (r + 1) * sim.ranks):
        sim.scheduler_S[s] = sim.blank_1[0]
        sim.growth_SB[s, :] = 0
        for b in range(sim.growers_SB.shape[1]):
            sim.growers_SB[s, b].head = NO_INDEX
            sim.growers_SB[s, b].tail = NO_INDEX
        blocks = sim.block_SK.shape[1]  # of the prefix cache, 0 without one
        for k in range(blocks):
            row = sim.block_SK[s, k]
            row.hashed = 0
            row.references = 0
            row.before = k - 1
            row.after = k + 1 if k + 1 < blocks else NO_INDEX
        if blocks > 0:
            for u in range(sim.bucket_SU.shape[1]):
                sim.bucket_SU[s, u].head = NO_INDEX
                sim.bucket_SU[s, u].tail = NO_INDEX
        if sim.offloads:
            clear_tiers(sim, s)
        rows = sim.spare_SH.shape[1]
        for h in range(rows):
            sim.spare_SH[s, h] = rows - 1 - h
