"""The next arrival: requests with arrival times, and requests caused by others.

Shape legend: N requests, C scheduled arrivals.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.compiled import part
from perfatlas.serving.sequences import expect
from perfatlas.serving.state import NEVER, NOBODY, drop

if TYPE_CHECKING:
    from perfatlas.serving.state import World


@part
def _skip_turns(world: World) -> None:
    """Skip to the next request with an arrival time of its own."""
    clock = world.clock_1[0]
    while clock.next < world.request_N.shape[0] and world.think_N[clock.next] >= 0:
        clock.next += 1


@part
def next_arrival(world: World) -> int:
    """Return the time of the next arrival [ps], NEVER if none is known.

    Args:
        world: The simulation.
    """
    clock = world.clock_1[0]
    time = NEVER
    if clock.coming > 0:
        time = world.coming_C[0].key
    if world.concurrency == 0 and clock.next < world.request_N.shape[0]:
        time = min(time, world.arrival_N[clock.next])
    return time


@part
def take_arrival(world: World) -> int:
    """Return the next request to arrive, by lowest index at equal times.

    Args:
        world: The simulation.
    """
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
def follow(world: World, i: int, now: int) -> None:
    """Schedule the arrivals caused by a request that finished, was rejected or was lost.

    Args:
        world: The simulation.
        i: The request.
        now: Time [ps].
    """
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
