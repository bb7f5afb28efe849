"""The event loop: steps end, requests arrive, steps start.

Order at equal times: first, steps end, by index of replica, and their requests finish by rank and
order of admission; then replicas fail, start and stop; then requests arrive, by index; then idle
replicas start a step. A request that arrives immediately after the end of another is therefore in
the queue for the next step.

The decode engine is selected when the prompt ends. A transfer occupies the links of both engines
for the time of the slower one; transfers over a link are served in order of request. The duration
depends only on the size of the KV cache. After a latency the KV cache arrives, and the prefill
engine frees its blocks.

Limits: SGLang selects both engines, and allocates the blocks at the decode engine, before the
prompt runs.

Shape legend: N requests, S schedulers, R replicas of a type, F of all types, C scheduled arrivals,
W rows of the series and V its columns, F replicas of all types, M pieces of a link.
"""

from __future__ import annotations

from typing import Final

from perfatlas.compiled import entry, part
from perfatlas.serving.config import BY_FUNCTION, DECODE, PREFILL, RECOMPUTED
from perfatlas.serving.engine.arrival_queue import next_arrival, on_request_end, take_arrival
from perfatlas.serving.engine.async_scheduling import end_overlapped
from perfatlas.serving.engine.front_end import is_read
from perfatlas.serving.engine.replica_events import change, next_change, serves, wait_at_router
from perfatlas.serving.engine.routing import queue_at, retry_admission, route
from perfatlas.serving.engine.stages import make_ready
from perfatlas.serving.engine.step_batching import begin, end
from perfatlas.serving.engine.step_end import cache_finished_prompts
from perfatlas.serving.policies import can_hold, on_last_token
from perfatlas.serving.sequences import (
    batch_energy,
    batch_time,
    blocks,
    cache_owner,
    cancel_transfer,
    continues_elsewhere,
    first_batch,
    free_prefill_blocks,
    hand_over,
    leave_queue,
    leave_running,
    schedule_arrival,
    steps_until,
    take_finishing,
)
from perfatlas.serving.state import (
    DRAINING,
    FETCHED,
    HANDED,
    LOCAL,
    NEVER,
    NO_INDEX,
    REJECTED,
    STARTING,
    TRAVELLING,
    UP,
    SimulationState,
)

AFTER_END_PS: Final = 8_000_000_000_000_000_000  # ps: beyond the end of the clock, within 64 bits


@part
def send_kv(groups: tuple[SimulationState, ...], i: int, now: int) -> None:
    """Start a KV cache transfer as soon as both links are free.

    Args:
        now: Time [ps].
    """
    travel = groups[0].travel_N[i]
    here = groups[groups[0].group_F[travel.home]]
    there = groups[groups[0].group_F[travel.replica]]
    home = cache_owner(here, travel.scheduler)
    scheduler = cache_owner(there, groups[0].request_N[i].scheduler)
    start = min(max(now, here.link_S[home], there.link_S[scheduler]), AFTER_END_PS)
    end = start + max(_link_time(here, travel.tokens), _link_time(there, travel.tokens))
    here.link_S[home] = end
    there.link_S[scheduler] = end
    travel.stage = TRAVELLING
    schedule_arrival(groups[0], i, end + groups[0].latency)


@part
def _link_time(sim: SimulationState, tokens: int) -> int:
    """Return the transfer time of a KV cache over one engine's link [ps]."""
    piece = 0
    while piece + 1 < sim.link_M3.shape[0] and sim.link_M3[piece + 1, 0] <= tokens:
        piece += 1
    beyond = tokens - sim.link_M3[piece, 0]
    return int(sim.link_M3[piece, 1] + beyond * sim.link_M3[piece, 2])


@part
def receive_kv(groups: tuple[SimulationState, ...], i: int, now: int) -> bool:
    """Complete a KV cache transfer; return whether its request is finished.

    Args:
        now: Time [ps].
    """
    travel = groups[0].travel_N[i]
    travel.arrived = now
    here = groups[groups[0].group_F[travel.home]]
    free_prefill_blocks(here, i)
    retry_admission(here, travel.home - here.first_replica, now)
    sim = groups[groups[0].group_F[travel.replica]]
    request = sim.request_N[i]
    scheduler = sim.scheduler_S[request.scheduler]
    r = travel.replica - sim.first_replica
    ends = request.osl == 1 and sim.first_from != RECOMPUTED
    if ends:
        blocks.cache_tokens(sim, i, request.isl)
        cancel_transfer(sim, i)
        sim.replica_R[r].load -= 1
        travel.stage = LOCAL
        travel.resumed = now
        sim.first_token_N[i] = now
        sim.finished_N[i] = now
    else:
        if scheduler.arrived == 0:
            scheduler.arrived_head = i
        else:
            sim.request_N[scheduler.arrived_tail].after = i
        scheduler.arrived_tail = i
        request.after = NO_INDEX
        scheduler.arrived += 1
    retry_admission(sim, r, now)
    return bool(ends)


@part
def end_step(sim: SimulationState, r: int, now: int) -> None:
    """End the step of a replica.

    Args:
        now: Time [ps].
    """
    if sim.limits.async_scheduling:
        if end_overlapped(sim, r):
            for s in range(r * sim.ranks, (r + 1) * sim.ranks):
                cache_finished_prompts(sim, s)
                if not sim.foresees_ends:
                    _finish(sim, s, now)
                _finish_planned(sim, s, now)
    else:
        end(sim, r, now)
        for s in range(r * sim.ranks, (r + 1) * sim.ranks):
            _finish(sim, s, now)
    make_ready(sim, r)


@part
def _finish(sim: SimulationState, s: int, now: int) -> None:
    """Finish the requests of a scheduler that got their last token in the ending step."""
    while True:
        i = take_finishing(sim, s)
        if i == NO_INDEX:
            break
        on_last_token(sim, i)
        _end_request(sim, i, now)


@part
def _finish_planned(sim: SimulationState, s: int, now: int) -> None:
    """Finish the requests of a scheduler whose end was planned when their last step started."""
    scheduler = sim.scheduler_S[s]
    left = scheduler.leaving + scheduler.learning + scheduler.ended
    for index in range(scheduler.leaving):
        i = sim.leaving_SH[s, index]
        if sim.request_N[i].computed == 0:  # preempted meanwhile
            leave_queue(sim, i)
        _end_request(sim, i, now)
    if (
        scheduler.waiting + scheduler.arrived + scheduler.ready + scheduler.retracted > 0
        and left > 0
    ):
        sim.replica_R[s // sim.ranks].stale = 1
    scheduler.leaving = 0
    scheduler.learning = 0


@part
def _end_request(sim: SimulationState, i: int, now: int) -> None:
    """Finish a request that does not decode any more."""
    if continues_elsewhere(sim, i):
        hand_over(sim, i, now)
        return
    request = sim.request_N[i]
    sim.finished_N[i] = now
    if request.computed > 0:
        leave_running(sim, i)
        blocks.cache_output(sim, i)
        blocks.release(sim, i)
    r = request.scheduler // sim.ranks
    replica = sim.replica_R[r]
    sim.replica_R[first_batch(sim, r)].load -= 1
    if sim.stream_token > 0:
        sim.late_last_N[i] = replica.late
        on_request_end(sim, i, now + replica.late)
    else:
        on_request_end(sim, i, now)


@part
def energy_until(groups: tuple[SimulationState, ...], now: int) -> float:
    """Return the energy of all GPUs up to now [nJ].

    GPUs draw the power of a board without kernels while their replica is allocated: at all times,
    or with an autoscaler while it starts, serves or drains.

    Args:
        now: Time [ps].
    """
    total = 0.0
    for index in range(groups[0].replica_F.shape[0]):
        owner = groups[groups[0].group_F[index]]
        r = index - owner.first_replica
        on = owner.energy.on_power * owner.ranks * _allocated(owner, r, now)
        total += owner.energy.rank_gpus * (on + owner.replica_R[r].spent + _running(owner, r, now))
    return total


@part
def _allocated(sim: SimulationState, r: int, now: int) -> int:
    """Return the time in which the GPUs of a replica were allocated [ps]."""
    if sim.scaler_P.shape[0] == 0:
        return now
    replica = sim.replica_R[r]
    allocated = replica.allocated
    if replica.status in (UP, STARTING, DRAINING):
        allocated += now - sim.clock_1[0].counted
    return int(allocated)


@part
def _running(sim: SimulationState, r: int, now: int) -> float:
    """Return the dynamic energy of the running steps of a replica so far [nJ]."""
    replica = sim.replica_R[r]
    passed = now - replica.start
    if replica.steps == 0 or passed <= 0:
        return 0.0
    number = steps_until(replica.base, replica.rise, replica.steps, passed)
    before = 0.0
    if number > 1:
        before = batch_energy(sim, r, number - 1)
    began = batch_time(replica.base, replica.rise, number - 1)
    lasts = batch_time(replica.base, replica.rise, number) - began
    share = min((passed - began) / max(lasts, 1), 1.0)
    return float(before + share * (batch_energy(sim, r, number) - before))


ASKS: Final = -1
MICROJOULES: Final = 1e-3  # per nanojoule


@entry
def advance(groups: tuple[SimulationState, ...], instants: int, last: int) -> int:
    """Process events at up to `instants` times; return how many were left at the end.

    The call returns `ASKS` for every request whose replica the caller chooses, and goes on from
    there in the next one.

    Args:
        groups: The simulation, by engine type.
        instants: Maximum times of this call.
        last: Maximum time of the clock [ps].
    """
    sim = groups[0]
    clock = sim.clock_1[0]
    while instants > 0:
        now = int(clock.now)
        if clock.asked > 0:
            _queue(groups, int(clock.asked) - 1, int(clock.chosen), now)
            clock.asked = 0
        else:
            now = _next_instant(sim)
            if now == NEVER:
                break
            if now > last:
                clock.late = 1
                break
            clock.now = now
            instants -= 1
            for index in range(sim.end_F.shape[0]):
                if sim.end_F[index] == now:
                    group = groups[sim.group_F[index]]
                    end_step(group, index - group.first_replica, now)
            if sim.varies and change(groups, now):
                continue
        if _take_arrivals(groups, now):
            return ASKS
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
def _take_arrivals(groups: tuple[SimulationState, ...], now: int) -> bool:
    """Route the requests that have arrived; return whether the caller routes the last of them."""
    sim = groups[0]
    clock = sim.clock_1[0]
    while next_arrival(sim) <= now:
        i = take_arrival(sim)
        if sim.role == PREFILL and sim.travel_N[i].stage != LOCAL:
            _advance_transfer(groups, i, now)
        elif _arrives(groups, i, now):
            if sim.routing == BY_FUNCTION:
                clock.asked = i + 1
                return True
            r, clock.turn = route(sim, i, (sim.pool_P2[0, 0], sim.pool_P2[0, 1]), clock.turn)
            _queue(groups, i, r, now)
    return False


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
def _arrives(groups: tuple[SimulationState, ...], i: int, now: int) -> bool:
    """Return whether an arriving request is to be routed now; reject it if it can never run."""
    sim = groups[0]
    request = sim.request_N[i]
    if sim.read_token > 0 and not is_read(sim, i, now):
        return False
    if sim.came_N[i] == NO_INDEX:
        sim.came_N[i] = now
    for k in range(len(groups)):
        if not _can_ever_run(groups[k], i):
            _reject(sim, i, now)
            return False
    if sim.role == PREFILL:
        request.osl = 1
    if sim.varies and not serves(sim, 0):
        sim.replica_N[i] = NO_INDEX
        wait_at_router(sim, i, 0)
        return False
    return True


@part
def _queue(groups: tuple[SimulationState, ...], i: int, r: int, now: int) -> None:
    """Queue a request at a replica, or reject it if there is none."""
    sim = groups[0]
    if r < 0:
        _reject(sim, i, now)
        return
    sim.replica_N[i] = r
    queue_at(groups[sim.group_F[r]], i, r, now)


@part
def _reject(sim: SimulationState, i: int, now: int) -> None:
    if sim.varies:
        sim.fault_N[i].fate = REJECTED
    on_request_end(sim, i, now)


@part
def _advance_transfer(groups: tuple[SimulationState, ...], i: int, now: int) -> None:
    """Advance a request between two pools."""
    sim = groups[0]
    travel = sim.travel_N[i]
    if travel.stage == HANDED:
        if sim.varies and not serves(sim, 1):
            wait_at_router(sim, i, 1)
            return
        clock = sim.clock_1[0]
        pool = (sim.pool_P2[1, 0], sim.pool_P2[1, 1])
        index, clock.decode_turn = route(sim, i, pool, clock.decode_turn)
        travel.replica = index
        queue_at(groups[sim.group_F[index]], i, index, now)
    elif travel.stage == FETCHED:
        send_kv(groups, i, now)
    elif receive_kv(groups, i, now):
        on_request_end(sim, i, now)


@part
def _can_ever_run(sim: SimulationState, i: int) -> bool:
    """Return whether an otherwise idle engine could finish a request."""
    request = sim.request_N[i]
    output = sim.requests.osl_N[i]
    if sim.role == PREFILL:
        output = min(output, 1)
    fits = can_hold(sim, i, request.isl + output)
    whole = sim.limits.chunked_prefill or request.isl <= sim.limits.max_num_batched_tokens
    whole = whole or sim.role == DECODE
    return bool(request.isl > 0 and output > 0 and fits and whole)


@part
def _sample(groups: tuple[SimulationState, ...], now: int) -> None:
    """Append a row to the time series."""
    sim = groups[0]
    clock = sim.clock_1[0]
    if clock.rows == sim.series_WV.shape[0]:
        # drop every second row of the full series and double its interval
        clock.rows //= 2
        clock.pause *= 2
        for row in range(clock.rows):
            for v in range(sim.series_WV.shape[1]):
                sim.series_WV[row, v] = sim.series_WV[2 * row, v]
    running = 0
    waiting = 0
    used = 0
    up = 0
    for index in range(sim.replica_F.shape[0]):
        up += 1 if sim.replica_F[index].status == UP else 0
    for k in range(len(groups)):
        for s in range(groups[k].scheduler_S.shape[0]):
            scheduler = groups[k].scheduler_S[s]
            running += scheduler.running
            waiting += scheduler.waiting + scheduler.unread + scheduler.retracted
            used -= scheduler.free
        used += groups[k].limits.kv_blocks * (
            groups[k].scheduler_S.shape[0] // max(groups[k].stages, 1)
        )
    sim.series_WV[clock.rows, 0] = now
    sim.series_WV[clock.rows, 1] = running
    for p in range(sim.door_P.shape[0]):
        waiting += sim.door_P[p].waiting
    sim.series_WV[clock.rows, 2] = waiting
    sim.series_WV[clock.rows, 3] = used
    sim.series_WV[clock.rows, 4] = up
    sim.series_WV[clock.rows, 5] = int(energy_until(groups, now) * MICROJOULES)
    clock.rows += 1
    clock.due = now + clock.pause
