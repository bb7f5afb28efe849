"""The next arrival: requests with arrival times, and requests caused by others.

Shape legend: N requests, C scheduled arrivals.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.compiled import part
from perfatlas.serving.sequences import schedule_arrival
from perfatlas.serving.state import NEVER, NO_INDEX, drop

if TYPE_CHECKING:
    from perfatlas.serving.state import SimulationState


@part
def _skip_turns(sim: SimulationState) -> None:
    """Skip to the next request with an arrival time of its own."""
    clock = sim.clock_1[0]
    while clock.next < sim.request_N.shape[0] and sim.think_N[clock.next] >= 0:
        clock.next += 1


@part
def next_arrival(sim: SimulationState) -> int:
    """Return the time of the next arrival [ps], NEVER if none is known."""
    clock = sim.clock_1[0]
    time = NEVER
    if clock.coming > 0:
        time = sim.coming_C[0].key
    if sim.concurrency == 0 and clock.next < sim.request_N.shape[0]:
        time = min(time, sim.arrival_N[clock.next])
    return time


@part
def take_arrival(sim: SimulationState) -> int:
    """Return the next request to arrive, by lowest index at equal times."""
    clock = sim.clock_1[0]
    listed = clock.next
    caused = clock.coming > 0
    if sim.concurrency == 0 and listed < sim.request_N.shape[0]:
        time = sim.arrival_N[listed]
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
    sim.clock_1[0].left -= 1
    turn = sim.request_N[i].next_turn
    if turn != NO_INDEX:
        schedule_arrival(sim, turn, now + sim.turnaround + sim.think_N[turn])
    elif sim.concurrency > 0:
        clock = sim.clock_1[0]
        _skip_turns(sim)
        if clock.next < sim.request_N.shape[0]:
            again = now + sim.turnaround
            schedule_arrival(sim, clock.next, max(again, sim.arrival_N[clock.next]))
            clock.next += 1
