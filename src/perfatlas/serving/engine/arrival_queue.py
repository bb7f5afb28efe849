"""The next arrival: requests with arrival times, and requests caused by others.

Shape legend: N requests, E pairs of a request and one that waits for it, or first requests of
sessions, S sessions and one more, C scheduled arrivals.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.compiled import part
from perfatlas.serving.sequences import schedule_arrival
from perfatlas.serving.state import NEVER, drop

if TYPE_CHECKING:
    from perfatlas.serving.state import SimulationState


@part
def _skip_turns(sim: SimulationState) -> None:
    """Skip to the next request with an arrival time of its own."""
    clock = sim.clock_1[0]
    while (
        sim.linked and clock.next < sim.request_N.shape[0] and sim.requests.pause_N[clock.next] >= 0
    ):
        clock.next += 1


@part
def next_arrival(sim: SimulationState) -> int:
    """Return the time of the next arrival [ps], NEVER if none is known."""
    clock = sim.clock_1[0]
    time = NEVER
    if clock.coming > 0:
        time = sim.coming_C[0].key
    if sim.concurrency == 0 and clock.next < sim.request_N.shape[0]:
        time = min(time, sim.requests.arrival_N[clock.next])
    return time


@part
def take_arrival(sim: SimulationState) -> int:
    """Return the next request to arrive, by lowest index at equal times."""
    clock = sim.clock_1[0]
    listed = clock.next
    caused = clock.coming > 0
    if sim.concurrency == 0 and listed < sim.request_N.shape[0]:
        time = sim.requests.arrival_N[listed]
        first = sim.coming_C[0]
        if not caused or time < first.key or (time == first.key and listed < first.item):
            clock.next += 1
            _skip_turns(sim)
            return int(listed)
    i = sim.coming_C[0].item
    drop(sim.coming_C, sim.request_N, clock.coming, 0)
    clock.coming -= 1
    return int(i)


@part
def on_request_end(sim: SimulationState, i: int, now: int) -> None:
    """Schedule the arrivals caused by a request that finished, was rejected or was lost.

    Args:
        now: Time [ps].
    """
    clock = sim.clock_1[0]
    clock.left -= 1
    again = now + sim.turnaround
    if sim.linked:
        _end_in_session(sim, i, again)
    elif sim.concurrency > 0 and clock.next < sim.request_N.shape[0]:
        schedule_arrival(sim, clock.next, max(again, sim.requests.arrival_N[clock.next]))
        clock.next += 1


@part
def _end_in_session(sim: SimulationState, i: int, again: int) -> None:
    """Schedule the requests that waited for this one, or the next session if this was the last.

    Args:
        again: Time at which the client can send the next request [ps].
    """
    for e in range(sim.successor_first_N[i], sim.successor_first_N[i + 1]):
        j = sim.successor_E[e]
        turn = sim.turn_N[j]
        turn.open -= 1
        turn.since = max(turn.since, again)
        if turn.open == 0:
            schedule_arrival(sim, j, turn.since + sim.requests.pause_N[j])
    if sim.concurrency > 0:
        session = sim.session_S[sim.turn_N[i].session]
        session.left -= 1
        if session.left == 0:
            _begin_session(sim, again)


@part
def _begin_session(sim: SimulationState, again: int) -> None:
    """Schedule the first requests of the next session, at their times relative to the earliest."""
    clock = sim.clock_1[0]
    if clock.next < sim.session_S.shape[0] - 1:
        first = sim.session_S[clock.next].root
        earliest = sim.requests.arrival_N[sim.root_E[first]]
        start = max(again, earliest)
        for e in range(first, sim.session_S[clock.next + 1].root):
            i = sim.root_E[e]
            schedule_arrival(sim, i, start + sim.requests.arrival_N[i] - earliest)
        clock.next += 1
