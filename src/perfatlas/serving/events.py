"""The order of things: steps end, requests arrive, steps begin.

At one instant, first every step that ends there ends, by index of replica, and in it requests
finish by rank and order of admission; then requests arrive, by index; then every replica that waits
begins a step. A request that another's last token causes to arrive at once is therefore in the queue
of the next step.

Shape legend: N requests, S schedulers, R replicas, C requests yet to come, W rows of the series.
"""

from __future__ import annotations

import numpy as np

from perfatlas.serving import blocks
from perfatlas.serving.heap import drop, put
from perfatlas.serving.machine import entry, part
from perfatlas.serving.scheduler import leave_running, stop_decoding
from perfatlas.serving.state import NEVER, NOBODY, Setup, State
from perfatlas.serving.stretch import begin, cut, end

MIX = (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)  # splitmix64


@entry
def advance(setup: Setup, state: State, instants: int, last: int) -> int:
    """Go on for some instants; return how many were left when nothing more was to come.

    Args:
        setup: What holds during a simulation.
        state: What changes.
        instants: Most instants of this call.
        last: Time beyond which the clock does not reach [ps].
    """
    clock = state.clock_1[0]
    while instants > 0:
        now = min(state.end_R.min(), _next_arrival(setup, state))
        if now == NEVER:
            break
        if now > last:
            clock.late = 1
            break
        clock.now = now
        instants -= 1
        _end_steps(setup, state, now)
        while _next_arrival(setup, state) <= now:
            _arrive(setup, state, _take_arrival(setup, state), now)
        while clock.ready > 0:
            clock.ready -= 1
            r = state.ready_R[clock.ready]
            state.replica_R[r].ready = 0
            begin(setup, state, r, now)
        if now >= clock.due and state.series_W4.shape[0] > 0:
            _sample(setup, state, now)
    return instants


@part
def issue(setup: Setup, state: State, now: int) -> None:
    """Issue the next request of a closed loop that follows no other.

    Args:
        setup: What holds during a simulation.
        state: What changes.
        now: Time [ps].
    """
    clock = state.clock_1[0]
    _skip_turns(setup, state)
    if clock.next < state.request_N.shape[0]:
        _expect(state, clock.next, max(now, setup.traffic.arrival_N[clock.next]))
        clock.next += 1


@entry
def issue_first(setup: Setup, state: State) -> None:
    """Issue the requests a closed loop starts with.

    Args:
        setup: What holds during a simulation.
        state: What changes.
    """
    for _ in range(setup.concurrency):
        issue(setup, state, 0)


@part
def _skip_turns(setup: Setup, state: State) -> None:
    """Move to the next request whose arrival no other causes."""
    clock = state.clock_1[0]
    while clock.next < state.request_N.shape[0] and setup.traffic.think_N[clock.next] >= 0:
        clock.next += 1


@part
def _expect(state: State, i: int, time: int) -> None:
    """Let a request arrive at a time."""
    clock = state.clock_1[0]
    put(state.coming_C, state.request_N, clock.coming, (time, i, i))
    clock.coming += 1


@part
def _next_arrival(setup: Setup, state: State) -> int:
    """Return when the next request arrives [ps], NEVER if none is known."""
    clock = state.clock_1[0]
    time = NEVER
    if clock.coming > 0:
        time = state.coming_C[0].key
    if setup.concurrency == 0 and clock.next < state.request_N.shape[0]:
        time = min(time, setup.traffic.arrival_N[clock.next])
    return time


@part
def _take_arrival(setup: Setup, state: State) -> int:
    """Return the next request to arrive, the lowest of those of one instant."""
    clock = state.clock_1[0]
    listed = clock.next
    caused = clock.coming > 0
    if setup.concurrency == 0 and listed < state.request_N.shape[0]:
        time = setup.traffic.arrival_N[listed]
        first = state.coming_C[0]
        if not caused or time < first.key or (time == first.key and listed < first.item):
            clock.next += 1
            _skip_turns(setup, state)
            return int(listed)
    i = state.coming_C[0].item
    drop(state.coming_C, state.request_N, clock.coming, 0)
    clock.coming -= 1
    return int(i)


@part
def _arrive(setup: Setup, state: State, i: int, now: int) -> None:
    """Send a request to a scheduler's queue, or reject it."""
    request = state.request_N[i]
    limits = setup.limits
    request.arrival = now
    need = (request.isl + request.osl - 1 + limits.block_size - 1) // limits.block_size
    if request.isl < 1 or request.osl < 1 or need > limits.kv_blocks:
        _follow(setup, state, i, now)
        return
    r = _route(setup, state, i)
    s = _rank(setup, state, r)
    request.replica = r
    request.lane = s
    replica = state.replica_R[r]
    replica.load += 1
    lane = state.lane_S[s]
    open_door = lane.waiting == 0 and lane.running < limits.max_num_seqs
    if lane.waiting == 0:
        lane.waiting_head = i
    else:
        state.request_N[lane.waiting_tail].after = i
    request.after = NOBODY
    lane.waiting_tail = i
    lane.waiting += 1
    if replica.steps == 0:
        _make_ready(state, r)
    elif open_door:
        cut(state, r, now)


@part
def _make_ready(state: State, r: int) -> None:
    """Let a replica begin a step at this instant."""
    if state.replica_R[r].ready == 0:
        clock = state.clock_1[0]
        state.replica_R[r].ready = 1
        state.ready_R[clock.ready] = r
        clock.ready += 1


@part
def _route(setup: Setup, state: State, i: int) -> int:
    """Return the replica of a request."""
    count = state.end_R.shape[0]
    if setup.routing == 0:
        clock = state.clock_1[0]
        r = clock.turn
        clock.turn = (r + 1) % count
        return int(r)
    if setup.routing == 1:
        return int(np.int64(_mixed(setup.seed, i) >> np.uint64(1)) % count)
    best = 0
    for r in range(1, count):
        if state.replica_R[r].load < state.replica_R[best].load:
            best = r
    return best


@part
def _mixed(seed: int, i: int) -> np.uint64:
    """Return a number of 64 bits that looks random; splitmix64 of Steele, Lea and Flood 2014."""
    z = np.uint64(seed) + np.uint64(i + 1) * np.uint64(MIX[0])
    z = (z ^ (z >> np.uint64(30))) * np.uint64(MIX[1])
    z = (z ^ (z >> np.uint64(27))) * np.uint64(MIX[2])
    return z ^ (z >> np.uint64(31))


@part
def _rank(setup: Setup, state: State, r: int) -> int:
    """Return the scheduler of a replica for a request: least 4 waiting + running."""
    best = r * setup.ranks
    least = 4 * state.lane_S[best].waiting + state.lane_S[best].running
    for s in range(best + 1, (r + 1) * setup.ranks):
        load = 4 * state.lane_S[s].waiting + state.lane_S[s].running
        if load < least:
            best = s
            least = load
    return int(best)


@part
def _end_steps(setup: Setup, state: State, now: int) -> None:
    """End every step that ends at this instant."""
    for r in range(state.end_R.shape[0]):
        if state.end_R[r] == now:
            end(setup, state, r, now)
            for s in range(r * setup.ranks, (r + 1) * setup.ranks):
                _finish(setup, state, s, now)
            _make_ready(state, r)


@part
def _finish(setup: Setup, state: State, s: int, now: int) -> None:
    """Finish the requests of a scheduler whose last token the step now ending gave."""
    lane = state.lane_S[s]
    while lane.heap > 0 and state.finishing_SH[s, 0].key == lane.step:
        i = state.finishing_SH[s, 0].item
        drop(state.finishing_SH[s], state.request_N, lane.heap, 0)
        lane.heap -= 1
        request = state.request_N[i]
        request.finished = now
        request.computed = request.isl + request.osl - 1
        stop_decoding(setup, state, i)
        leave_running(state, i)
        blocks.release(setup, state, i)
        state.replica_R[request.replica].load -= 1
        _follow(setup, state, i, now)


@part
def _follow(setup: Setup, state: State, i: int, now: int) -> None:
    """Let come what the end of a request, finished or rejected, causes to come."""
    state.clock_1[0].left -= 1
    turn = state.request_N[i].next_turn
    if turn != NOBODY:
        _expect(state, turn, now + setup.traffic.think_N[turn])
    elif setup.concurrency > 0:
        issue(setup, state, now)


@part
def _sample(setup: Setup, state: State, now: int) -> None:
    """Write a row of the series; a full one keeps every second row and doubles its pause."""
    clock = state.clock_1[0]
    rows = state.series_W4.shape[0]
    if clock.rows == rows:
        for w in range(rows // 2):
            state.series_W4[w] = state.series_W4[2 * w]
        clock.rows = rows // 2
        clock.pause *= 2
    row = state.series_W4[clock.rows]
    row[0] = now
    row[1] = 0
    row[2] = 0
    row[3] = 0
    for s in range(state.lane_S.shape[0]):
        lane = state.lane_S[s]
        row[1] += lane.running
        row[2] += lane.waiting
        row[3] += setup.limits.kv_blocks - lane.free
    clock.rows += 1
    clock.due = now + clock.pause
