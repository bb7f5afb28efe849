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

Between two pools, a request is lost with either of its replicas until its KV cache has arrived,
then with its decode replica alone. An outage of a replica that an autoscaler has stopped has no
effect.

Limits: A router detects failures immediately. No engine continues from tokens of another.

Shape legend: N requests, S schedulers, R replicas of a type, F of all types, P pools, E failures
and recoveries.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.compiled import part
from perfatlas.serving.config import AGGREGATED_ROLE
from perfatlas.serving.engine.arrival_queue import on_request_end
from perfatlas.serving.engine.async_scheduling import plan_ahead
from perfatlas.serving.engine.prefix_routing import drop_replica
from perfatlas.serving.engine.routing import retry_admission
from perfatlas.serving.engine.step_batching import truncate_batch
from perfatlas.serving.sequences import (
    batch_time,
    cancel_transfer,
    clear_tiers,
    first_batch,
    free_prefill_blocks,
    in_flight,
    leave_queue,
    leave_socket,
    schedule_arrival,
    steps_until,
)
from perfatlas.serving.state import (
    HANDED,
    LOCAL,
    LOST,
    NEVER,
    NO_INDEX,
    OFF,
    OUT,
    STARTING,
    UP,
    drop,
)

if TYPE_CHECKING:
    from perfatlas.serving.state import SimulationState

_plan_ahead = part(plan_ahead)
RETURN, CRASH, DRAIN = range(3)  # order at equal times


@part
def apply_failure(groups: tuple[SimulationState, ...], position: int, what: int, now: int) -> None:
    """Apply a failure, the start of draining, or a recovery to a replica.

    Args:
        what: RETURN, CRASH or DRAIN.
        now: Time [ps].
    """
    sim = groups[groups[0].group_F[position]]
    r = position - sim.first_replica
    replica = sim.replica_R[r]
    if what == RETURN:
        replica.back = 1 if replica.status == OUT else 0
        replica.doomed = max(replica.doomed, replica.back)
    elif replica.status == STARTING:
        replica.status = OUT
        replica.back = 0
    elif replica.status != OFF:
        if replica.status == UP:
            replica.status = OUT
            replica.back = 0
            drop_replica(sim, position)
        if what == CRASH:
            replica.doomed = 1
    if replica.doomed:
        if replica.steps > 0 and sim.stages == 0:  # it stops at its next step boundary
            if not sim.limits.async_scheduling:
                truncate_batch(sim, r, now)
            elif replica.decided == 0:
                delay = now - replica.start
                replica.steps = steps_until(replica.base, replica.rise, replica.steps, delay)
                end = replica.start + batch_time(replica.base, replica.rise, replica.steps)
                _plan_ahead(sim, r, end)
                replica.decided = 1
                sim.end_R[r] = end
        take_down(groups, position, now)


@part
def runs(sim: SimulationState, r: int) -> bool:
    """Return whether a replica runs a step, or with stages, has a batch in flight."""
    return bool(sim.replica_R[r].steps > 0 if sim.stages == 0 else in_flight(sim, r) > 0)


@part
def take_down(groups: tuple[SimulationState, ...], position: int, now: int) -> None:
    """Take down a failing replica with its requests and caches, unless a step is running.

    Args:
        now: Time [ps].
    """
    sim = groups[groups[0].group_F[position]]
    r = position - sim.first_replica
    replica = sim.replica_R[r]
    if replica.doomed == 0 or runs(sim, r):
        return
    if sim.role != AGGREGATED_ROLE:
        _end_transfers(groups, position, now)
    replicas = max(sim.stage_free_RP.shape[0], 1)
    for slot in range(max(sim.stages, 1)):
        row = r + slot * replicas
        for s in range(row * sim.ranks, (row + 1) * sim.ranks):
            _remove_all(sim, s, now)
    clear(sim, r)
    replica.doomed = 0
    if replica.back:
        replica.status = UP


@part
def _end_transfers(groups: tuple[SimulationState, ...], position: int, now: int) -> None:
    """Free what requests between two pools hold at the replica that does not fail.

    Those of a failing prefill replica leave the decode replica, and start over or are lost; those
    of a failing decode replica are lost with it.
    """
    sim = groups[0]
    for i in range(sim.request_N.shape[0]):
        travel = sim.travel_N[i]
        if travel.stage == LOCAL or travel.arrived != NO_INDEX:
            continue
        here = groups[sim.group_F[travel.home]]
        home = here.first_replica + first_batch(here, travel.home - here.first_replica)
        if position not in (home, travel.replica):
            continue
        flying = travel.stage != HANDED or travel.replica == NO_INDEX
        if flying and _at_door(sim, i):
            flying = False
        if flying:
            clock = sim.clock_1[0]
            drop(sim.coming_C, sim.request_N, clock.coming, sim.request_N[i].heap_slot)
            clock.coming -= 1
        if travel.replica == position:
            free_prefill_blocks(here, i)
            retry_admission(here, travel.home - here.first_replica, now)
        elif travel.replica != NO_INDEX:
            there = groups[sim.group_F[travel.replica]]
            r = travel.replica - there.first_replica
            if travel.stage != HANDED:
                cancel_transfer(there, i)
            elif not leave_socket(there, i):
                leave_queue(there, i)
            there.replica_R[r].load -= 1
            retry_admission(there, r, now)
        if flying or travel.replica != position:
            _lose(sim, i, now)


@part
def _at_door(sim: SimulationState, i: int) -> bool:
    """Remove a request from those that wait at the router for a decode replica, if it does."""
    door = sim.door_P[sim.door_P.shape[0] - 1]
    before = NO_INDEX
    at = door.head
    for _ in range(door.waiting):
        after = sim.request_N[at].after
        if at == i:
            door.waiting -= 1
            if before == NO_INDEX:
                door.head = after
            else:
                sim.request_N[before].after = after
            if door.tail == i:
                door.tail = before
            return True
        before = at
        at = after
    return False


@part
def _remove_all(sim: SimulationState, s: int, now: int) -> None:
    """Remove all requests of a scheduler."""
    scheduler = sim.scheduler_S[s]
    if sim.limits.draft_tokens == 0:
        for index in range(scheduler.heap):
            request = sim.request_N[sim.finishing_SH[s, index].item]
            request.generated = request.osl - (request.finish - scheduler.step)
    i = scheduler.running_tail
    while i != NO_INDEX:
        before = sim.request_N[i].before
        _lose(sim, i, now)
        i = before
    _lose_listed(sim, scheduler.waiting_head, scheduler.waiting, now)
    _lose_listed(sim, scheduler.unread_head, scheduler.unread, now)
    _lose_listed(sim, scheduler.arrived_head, scheduler.arrived, now)
    _lose_listed(sim, scheduler.ready_head, scheduler.ready, now)
    _lose_listed(sim, scheduler.retracted_head, scheduler.retracted, now)


@part
def _lose_listed(sim: SimulationState, head: int, count: int, now: int) -> None:
    """Lose the requests of a list."""
    i = head
    for _ in range(count):
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
    if sim.role != AGGREGATED_ROLE:
        travel = sim.travel_N[i]
        travel.stage = LOCAL
        travel.handed = NO_INDEX
        travel.arrived = NO_INDEX
        travel.resumed = NO_INDEX
        travel.replica = NO_INDEX
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
    replicas = max(sim.stage_free_RP.shape[0], 1)
    for slot in range(max(sim.stages, 1)):
        row = r + slot * replicas
        replica = sim.replica_R[row]
        replica.steps = 0
        replica.next_steps = 0
        replica.decided = 0
        replica.stale = 0
        replica.load = 0
        replica.sending = 0
        replica.slot = 0
        sim.end_R[row] = NEVER
        for s in range(row * sim.ranks, (row + 1) * sim.ranks):
            if slot == 0:  # the first batch has what all share
                _clear_cache(sim, s)
            sim.scheduler_S[s] = sim.blank_1[0]
            if slot > 0:
                sim.scheduler_S[s].free = 0
                sim.scheduler_S[s].spare = 0
            sim.growth_SB[s, :] = 0
            for b in range(sim.growers_SB.shape[1]):
                sim.growers_SB[s, b].head = NO_INDEX
                sim.growers_SB[s, b].tail = NO_INDEX


@part
def _clear_cache(sim: SimulationState, s: int) -> None:
    """Empty the prefix cache of a scheduler and the tiers below it."""
    touched = sim.scheduler_S[s].touched
    for k in range(touched):
        sim.block_SK[s, k].hashed = 0
        sim.block_SK[s, k].references = 0
    if touched > 0:
        for u in range(sim.bucket_SU.shape[1]):
            sim.bucket_SU[s, u].head = 0
            sim.bucket_SU[s, u].tail = 0
    if sim.offloads:
        clear_tiers(sim, s)
    rows = sim.spare_SH.shape[1]
    for h in range(rows):
        sim.spare_SH[s, h] = rows - 1 - h
