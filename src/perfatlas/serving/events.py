"""The order of things: steps end, requests arrive, steps begin.

At one instant, first every step that ends there ends, by index of replica, and in it requests
finish by rank and order of admission; then requests arrive, by index; then every replica that waits
begins a step. A request that another's last token causes to arrive at once is therefore in the
queue of the next step.

Shape legend: N requests, S schedulers, R replicas of a kind, F of all kinds, C requests yet to
come, W rows of the series and V its columns.
"""

from __future__ import annotations

from perfatlas.serving import blocks
from perfatlas.serving.fleet import DECODE, PREFILL
from perfatlas.serving.handover import is_fetched, land, make_ready, send
from perfatlas.serving.heap import drop
from perfatlas.serving.limits import SGLANG, VLLM
from perfatlas.serving.machine import entry, holder, part
from perfatlas.serving.overlap import end_overlapped
from perfatlas.serving.pools import expect, goes_on, hand_over
from perfatlas.serving.routing import queue_at, route
from perfatlas.serving.running import leave_queue, leave_running, take_finishing
from perfatlas.serving.state import HANDED, LOCAL, NEVER, NOBODY, World
from perfatlas.serving.step_end import learn_late
from perfatlas.serving.stretch import begin, end

hold = holder(World._fields)


@entry
def advance(columns: tuple[World, ...], instants: int, last: int) -> int:
    """Go on for some instants; return how many were left when nothing more was to come.

    Args:
        columns: The simulation, by kind of engine.
        instants: Most instants of this call.
        last: Time beyond which the clock does not reach [ps].
    """
    kinds = [hold(*one) for one in columns]
    world = kinds[0]
    clock = world.clock_1[0]
    while instants > 0:
        now = _next_arrival(world)
        for r in range(world.end_F.shape[0]):
            now = min(now, world.end_F[r])
        if now == NEVER:
            break
        if now > last:
            clock.late = 1
            break
        clock.now = now
        instants -= 1
        _end_steps(kinds, now)
        while _next_arrival(world) <= now:
            i = _take_arrival(world)
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
def _skip_turns(world: World) -> None:
    """Move to the next request whose arrival no other causes."""
    clock = world.clock_1[0]
    while clock.next < world.request_N.shape[0] and world.think_N[clock.next] >= 0:
        clock.next += 1


@part
def _next_arrival(world: World) -> int:
    """Return when the next request arrives [ps], NEVER if none is known."""
    clock = world.clock_1[0]
    time = NEVER
    if clock.coming > 0:
        time = world.coming_C[0].key
    if world.concurrency == 0 and clock.next < world.request_N.shape[0]:
        time = min(time, world.arrival_N[clock.next])
    return time


@part
def _take_arrival(world: World) -> int:
    """Return the next request to arrive, the lowest of those of one instant."""
    clock = world.clock_1[0]
    listed = clock.next
    caused = clock.coming > 0
    if world.concurrency == 0 and listed < world.request_N.shape[0]:
        time = world.arrival_N[listed]
        first = world.coming_C[0]
        if not caused or time < first.key or (time == first.key and listed < first.item):
            clock.next += 1
            _skip_turns(world)
            return int(listed)
    i = world.coming_C[0].item
    drop(world.coming_C, world.request_N, clock.coming, 0)
    clock.coming -= 1
    return int(i)


@part
def _arrive(kinds: list[World], i: int, now: int) -> None:
    """Send a request to a scheduler's queue, or reject it."""
    world = kinds[0]
    request = world.request_N[i]
    world.came_N[i] = now
    for k in range(len(kinds)):
        if not _can_ever_run(kinds[k], i):
            _follow(world, i, now)
            return
    if world.role == PREFILL:
        request.osl = 1
    clock = world.clock_1[0]
    place, clock.turn = route(world, i, (0, world.entries), clock.turn)
    world.replica_N[i] = place
    queue_at(kinds[world.kind_F[place]], i, place, now)


@part
def _go_on(kinds: list[World], i: int, now: int) -> None:
    """Let a request between two pools take its next step."""
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
        _follow(world, i, now)


@part
def _can_ever_run(world: World, i: int) -> bool:
    """Return whether an engine with nothing else to do could finish a request."""
    request = world.request_N[i]
    output = world.osl_N[i]
    if world.role == PREFILL:
        output = min(output, 1)
    tokens = request.isl + output
    if world.rules == VLLM:
        tokens += 2 * world.draft_tokens - 1  # the last one is never stored
    fits = blocks.count(world, tokens) <= world.kv_blocks
    if world.rules == SGLANG:  # it starts where a block more is free
        fits = tokens + world.block_size < world.kv_blocks * world.block_size
    whole = world.chunked_prefill or request.isl <= world.max_num_batched_tokens
    whole = whole or world.role == DECODE
    return bool(request.isl > 0 and output > 0 and fits and whole)


@part
def _end_steps(kinds: list[World], now: int) -> None:
    """End every step that ends at this instant."""
    world = kinds[0]
    for place in range(world.end_F.shape[0]):
        if world.end_F[place] == now:
            owner = kinds[world.kind_F[place]]
            _end_step(owner, place - owner.first_replica, now)


@part
def _end_step(world: World, r: int, now: int) -> None:
    """End the step of a replica that ends at this instant."""
    if world.async_scheduling:
        if end_overlapped(world, r):
            for s in range(r * world.ranks, (r + 1) * world.ranks):
                learn_late(world, s)
                if world.rules == SGLANG:
                    _finish(world, s, now)
                _let_leave(world, s, now)
    else:
        end(world, r, now)
        for s in range(r * world.ranks, (r + 1) * world.ranks):
            _finish(world, s, now)
    make_ready(world, r)


@part
def _finish(world: World, s: int, now: int) -> None:
    """Finish the requests of a scheduler whose last token the step now ending gave."""
    while True:
        i = take_finishing(world, s)
        if i == NOBODY:
            break
        _end_request(world, i, now)


@part
def _let_leave(world: World, s: int, now: int) -> None:
    """Finish the requests of a scheduler whose end was foreseen when their last step began."""
    lane = world.lane_S[s]
    left = lane.leaving + lane.learning + lane.ended
    for place in range(lane.leaving):
        i = world.leaving_SH[s, place]
        if world.request_N[i].computed == 0:  # thrown out meanwhile
            leave_queue(world, i)
        _end_request(world, i, now)
    if lane.waiting + lane.arrived > 0 and left > 0:
        world.replica_R[s // world.ranks].stale = 1
    lane.leaving = 0
    lane.learning = 0


@part
def _end_request(world: World, i: int, now: int) -> None:
    """Finish a request that decodes no more."""
    if goes_on(world, i):
        hand_over(world, i, now)
        return
    request = world.request_N[i]
    world.finished_N[i] = now
    if request.computed > 0:
        leave_running(world, i)
        blocks.release(world, i)
    world.replica_R[request.lane // world.ranks].load -= 1
    _follow(world, i, now)


@part
def _follow(world: World, i: int, now: int) -> None:
    """Let come what the end of a request, finished or rejected, causes to come."""
    world.clock_1[0].left -= 1
    turn = world.request_N[i].next_turn
    if turn != NOBODY:
        expect(world, turn, now + world.turnaround + world.think_N[turn])
    elif world.concurrency > 0:
        clock = world.clock_1[0]
        _skip_turns(world)
        if clock.next < world.request_N.shape[0]:
            again = now + world.turnaround
            expect(world, clock.next, max(again, world.arrival_N[clock.next]))
            clock.next += 1


@part
def _sample(kinds: list[World], now: int) -> None:
    """Write a row of the series."""
    world = kinds[0]
    clock = world.clock_1[0]
    if clock.rows == world.series_WV.shape[0]:
        _thin(world)
    running = 0
    waiting = 0
    used = 0
    for k in range(len(kinds)):
        for s in range(kinds[k].lane_S.shape[0]):
            lane = kinds[k].lane_S[s]
            running += lane.running
            waiting += lane.waiting + lane.unread
            used += kinds[k].kv_blocks - lane.free
    world.series_WV[clock.rows, 0] = now
    world.series_WV[clock.rows, 1] = running
    world.series_WV[clock.rows, 2] = waiting
    world.series_WV[clock.rows, 3] = used
    clock.rows += 1
    clock.due = now + clock.pause


@part
def _thin(world: World) -> None:
    """Keep every second row of a full series and double its pause."""
    clock = world.clock_1[0]
    clock.rows //= 2
    clock.pause *= 2
    for w in range(clock.rows):
        for v in range(world.series_WV.shape[1]):
            world.series_WV[w, v] = world.series_WV[2 * w, v]
