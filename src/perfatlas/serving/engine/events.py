"""The event loop: steps end, requests arrive, steps start.

Order at equal times: first, steps end, by index of replica, and their requests finish by rank and
order of admission; then replicas fail, start and stop; then requests arrive, by index; then idle
replicas start a step. A request that arrives immediately after the end of another is therefore in
the queue for the next step.

Shape legend: N requests, S schedulers, R replicas of a type, F of all types, C scheduled arrivals,
W rows of the series and V its columns.
"""

from __future__ import annotations

from typing import Final

from perfatlas.compiled import entry, part
from perfatlas.serving.config import DECODE, PREFILL
from perfatlas.serving.engine.arrival_queue import next_arrival, on_request_end, take_arrival
from perfatlas.serving.engine.completions import end_steps
from perfatlas.serving.engine.energy import energy_until
from perfatlas.serving.engine.front_end import is_read
from perfatlas.serving.engine.handover import is_in_transfer, receive_kv, send_kv
from perfatlas.serving.engine.replica_events import change, next_change, serves, wait_at_router
from perfatlas.serving.engine.routing import queue_at, route
from perfatlas.serving.engine.step_batching import begin
from perfatlas.serving.policies import can_hold
from perfatlas.serving.state import HANDED, LOCAL, NEVER, NO_INDEX, REJECTED, UP, SimulationState

MICROJOULES: Final = 1e-3  # per nanojoule


@entry
def advance(groups: tuple[SimulationState, ...], instants: int, last: int) -> int:
    """Process events at up to `instants` times; return how many were left at the end.

    Args:
        groups: The simulation, by engine type.
        instants: Maximum times of this call.
        last: Maximum time of the clock [ps].
    """
    sim = groups[0]
    clock = sim.clock_1[0]
    while instants > 0:
        now = _next_instant(sim)
        if now == NEVER:
            break
        if now > last:
            clock.late = 1
            break
        clock.now = now
        instants -= 1
        end_steps(groups, now)
        if sim.varies and change(groups, now):
            continue
        while next_arrival(sim) <= now:
            i = take_arrival(sim)
            if sim.role == PREFILL and sim.travel_N[i].stage != LOCAL:
                _advance_transfer(groups, i, now)
            else:
                _arrive(groups, i, now)
        while clock.ready > 0:
            clock.ready -= 1
            r = sim.ready_F[clock.ready]
            sim.replica_F[r].ready = 0
            owner = groups[sim.group_F[r]]
            begin(owner, r - owner.first_replica, now)
        if now >= clock.due and sim.series_WV.shape[0] > 0:
            _sample(groups, now)
    return instants


@part
def _next_instant(sim: SimulationState) -> int:
    """Return the time of the next event [ps], NEVER if there is none."""
    now = next_arrival(sim)
    for r in range(sim.end_F.shape[0]):
        now = min(now, sim.end_F[r])
    if sim.varies:
        now = next_change(sim, now)
    return int(now)


@part
def _arrive(groups: tuple[SimulationState, ...], i: int, now: int) -> None:
    """Queue an arriving request at a scheduler, or reject it."""
    sim = groups[0]
    request = sim.request_N[i]
    if sim.read_token > 0 and not is_read(sim, i, now):
        return
    if sim.came_N[i] == NO_INDEX:
        sim.came_N[i] = now
    for k in range(len(groups)):
        if not _can_ever_run(groups[k], i):
            if sim.varies:
                sim.fault_N[i].fate = REJECTED
            on_request_end(sim, i, now)
            return
    if sim.role == PREFILL:
        request.osl = 1
    if sim.varies and not serves(sim):
        wait_at_router(sim, i)
        return
    clock = sim.clock_1[0]
    place, clock.turn = route(sim, i, (0, sim.entries), clock.turn)
    sim.replica_N[i] = place
    queue_at(groups[sim.group_F[place]], i, place, now)


@part
def _advance_transfer(groups: tuple[SimulationState, ...], i: int, now: int) -> None:
    """Advance a request between two pools."""
    sim = groups[0]
    travel = sim.travel_N[i]
    if travel.stage == HANDED:
        clock = sim.clock_1[0]
        pool = (sim.entries, sim.end_F.shape[0])
        place, clock.decode_turn = route(sim, i, pool, clock.decode_turn)
        travel.replica = place
        queue_at(groups[sim.group_F[place]], i, place, now)
    elif is_in_transfer(sim, i):
        send_kv(groups, i, now)
    elif receive_kv(groups, i, now):
        on_request_end(sim, i, now)


@part
def _can_ever_run(sim: SimulationState, i: int) -> bool:
    """Return whether an otherwise idle engine could finish a request."""
    request = sim.request_N[i]
    output = sim.osl_N[i]
    if sim.role == PREFILL:
        output = min(output, 1)
    fits = can_hold(sim, i, request.isl + output)
    whole = sim.chunked_prefill or request.isl <= sim.max_num_batched_tokens
    whole = whole or sim.role == DECODE
    return bool(request.isl > 0 and output > 0 and fits and whole)


@part
def _sample(groups: tuple[SimulationState, ...], now: int) -> None:
    """Append a row to the time series."""
    sim = groups[0]
    clock = sim.clock_1[0]
    if clock.rows == sim.series_WV.shape[0]:
        _thin(sim)
    running = 0
    waiting = 0
    used = 0
    up = 0
    for place in range(sim.replica_F.shape[0]):
        up += 1 if sim.replica_F[place].status == UP else 0
    for k in range(len(groups)):
        for s in range(groups[k].scheduler_S.shape[0]):
            scheduler = groups[k].scheduler_S[s]
            running += scheduler.running
            waiting += scheduler.waiting + scheduler.unread + scheduler.retracted
            used -= scheduler.free
        used += groups[k].kv_blocks * (groups[k].scheduler_S.shape[0] // max(groups[k].stages, 1))
    sim.series_WV[clock.rows, 0] = now
    sim.series_WV[clock.rows, 1] = running
    sim.series_WV[clock.rows, 2] = waiting + clock.door
    sim.series_WV[clock.rows, 3] = used
    sim.series_WV[clock.rows, 4] = up
    sim.series_WV[clock.rows, 5] = int(energy_until(groups, now) * MICROJOULES)
    clock.rows += 1
    clock.due = now + clock.pause


@part
def _thin(sim: SimulationState) -> None:
    """Drop every second row of a full time series and double its interval."""
    clock = sim.clock_1[0]
    clock.rows //= 2
    clock.pause *= 2
    for w in range(clock.rows):
        for v in range(sim.series_WV.shape[1]):
            sim.series_WV[w, v] = sim.series_WV[2 * w, v]
