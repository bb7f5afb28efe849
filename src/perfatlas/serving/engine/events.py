"""The event loop: steps end, requests arrive, steps start.

Order at equal times: first, steps end, by index of replica, and their requests finish by rank and
order of admission; then replicas fail, start and stop; then requests arrive, by index; then idle
replicas start a step. A request that arrives immediately after the end of another is therefore in
the queue for the next step.

Shape legend: N requests, S schedulers, R replicas of a type, F of all types, C scheduled arrivals,
W rows of the series and V its columns.
"""

from __future__ import annotations

from perfatlas.compiled import entry, part
from perfatlas.serving.config import DECODE, PREFILL
from perfatlas.serving.engine.arrival_queue import follow, next_arrival, take_arrival
from perfatlas.serving.engine.completions import end_steps
from perfatlas.serving.engine.front_end import is_read
from perfatlas.serving.engine.handover import is_fetched, land, send
from perfatlas.serving.engine.replica_events import change, next_change, serves, wait_outside
from perfatlas.serving.engine.routing import queue_at, route
from perfatlas.serving.engine.step_batching import begin
from perfatlas.serving.policies import can_hold
from perfatlas.serving.state import HANDED, LOCAL, NEVER, NOBODY, REJECTED, UP, World


@entry
def advance(kinds: tuple[World, ...], instants: int, last: int) -> int:
    """Process events at up to `instants` times; return how many were left at the end.

    Args:
        kinds: The simulation, by engine type.
        instants: Maximum times of this call.
        last: Maximum time of the clock [ps].
    """
    world = kinds[0]
    clock = world.clock_1[0]
    while instants > 0:
        now = _next_instant(world)
        if now == NEVER:
            break
        if now > last:
            clock.late = 1
            break
        clock.now = now
        instants -= 1
        end_steps(kinds, now)
        if world.varies and change(kinds, now):
            continue
        while next_arrival(world) <= now:
            i = take_arrival(world)
            if world.role == PREFILL and world.travel_N[i].stage != LOCAL:
                _go_on(kinds, i, now)
            else:
                _arrive(kinds, i, now)
        while clock.ready > 0:
            clock.ready -= 1
            r = world.ready_F[clock.ready]
            world.replica_F[r].ready = 0
            owner = kinds[world.kind_F[r]]
            begin(owner, r - owner.first_replica, now)
        if now >= clock.due and world.series_WV.shape[0] > 0:
            _sample(kinds, now)
    return instants


@part
def _next_instant(world: World) -> int:
    """Return the time of the next event [ps], NEVER if there is none."""
    now = next_arrival(world)
    for r in range(world.end_F.shape[0]):
        now = min(now, world.end_F[r])
    if world.varies:
        now = next_change(world, now)
    return int(now)


@part
def _arrive(kinds: tuple[World, ...], i: int, now: int) -> None:
    """Queue an arriving request at a scheduler, or reject it."""
    world = kinds[0]
    request = world.request_N[i]
    if world.read_token > 0 and not is_read(world, i, now):
        return
    if world.came_N[i] == NOBODY:
        world.came_N[i] = now
    for k in range(len(kinds)):
        if not _can_ever_run(kinds[k], i):
            if world.varies:
                world.fault_N[i].fate = REJECTED
            follow(world, i, now)
            return
    if world.role == PREFILL:
        request.osl = 1
    if world.varies and not serves(world):
        wait_outside(world, i)
        return
    clock = world.clock_1[0]
    place, clock.turn = route(world, i, (0, world.entries), clock.turn)
    world.replica_N[i] = place
    queue_at(kinds[world.kind_F[place]], i, place, now)


@part
def _go_on(kinds: tuple[World, ...], i: int, now: int) -> None:
    """Advance a request between two pools."""
    world = kinds[0]
    travel = world.travel_N[i]
    if travel.stage == HANDED:
        clock = world.clock_1[0]
        pool = (world.entries, world.end_F.shape[0])
        place, clock.decode_turn = route(world, i, pool, clock.decode_turn)
        travel.replica = place
        queue_at(kinds[world.kind_F[place]], i, place, now)
    elif is_fetched(world, i):
        send(kinds, i, now)
    elif land(kinds, i, now):
        follow(world, i, now)


@part
def _can_ever_run(world: World, i: int) -> bool:
    """Return whether an otherwise idle engine could finish a request."""
    request = world.request_N[i]
    output = world.osl_N[i]
    if world.role == PREFILL:
        output = min(output, 1)
    fits = can_hold(world, i, request.isl + output)
    whole = world.chunked_prefill or request.isl <= world.max_num_batched_tokens
    whole = whole or world.role == DECODE
    return bool(request.isl > 0 and output > 0 and fits and whole)


@part
def _sample(kinds: tuple[World, ...], now: int) -> None:
    """Append a row to the time series."""
    world = kinds[0]
    clock = world.clock_1[0]
    if clock.rows == world.series_WV.shape[0]:
        _thin(world)
    running = 0
    waiting = 0
    used = 0
    up = 0
    for place in range(world.replica_F.shape[0]):
        up += 1 if world.replica_F[place].status == UP else 0
    for k in range(len(kinds)):
        for s in range(kinds[k].lane_S.shape[0]):
            lane = kinds[k].lane_S[s]
            running += lane.running
            waiting += lane.waiting + lane.unread + lane.retracted
            used += kinds[k].kv_blocks - lane.free
    world.series_WV[clock.rows, 0] = now
    world.series_WV[clock.rows, 1] = running
    world.series_WV[clock.rows, 2] = waiting + clock.door
    world.series_WV[clock.rows, 3] = used
    world.series_WV[clock.rows, 4] = up
    clock.rows += 1
    clock.due = now + clock.pause


@part
def _thin(world: World) -> None:
    """Drop every second row of a full time series and double its interval."""
    clock = world.clock_1[0]
    clock.rows //= 2
    clock.pause *= 2
    for w in range(clock.rows):
        for v in range(world.series_WV.shape[1]):
            world.series_WV[w, v] = world.series_WV[2 * w, v]
