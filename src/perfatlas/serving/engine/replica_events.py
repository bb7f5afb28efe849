"""Changes of replicas, and requests that wait at the router while none of them serves.

Requests without a serving replica wait at the router and arrive again as soon as one serves.

Shape legend: N requests, F replicas of all types, E failures and recoveries.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.compiled import part
from perfatlas.serving.engine.autoscaling import next_look, scale
from perfatlas.serving.engine.outages import strike, take_down
from perfatlas.serving.sequences import expect
from perfatlas.serving.state import DRAINING, NEVER, NOBODY, STARTING, UP

if TYPE_CHECKING:
    from perfatlas.serving.state import World


@part
def next_change(world: World, time: int) -> int:
    """Return the time of the next event, including replica changes while requests remain.

    Args:
        world: The simulation.
        time: Time of the next arrival or end of a step [ps].
    """
    clock = world.clock_1[0]
    if clock.left == 0:
        return time
    if world.scaler_1.shape[0] > 0 and time < NEVER:
        time = min(time, next_look(world))
    if clock.strike < world.strike_E.shape[0]:
        time = min(time, world.strike_E[clock.strike].time)
    return int(time)


@part
def change(kinds: tuple[World, ...], now: int) -> bool:
    """Apply replica changes due now; return whether a batch of steps was truncated to end now.

    If so, its steps end first and its requests are handled before new requests arrive.

    Args:
        kinds: The simulation, by engine type.
        now: Time [ps].
    """
    cut_now = False
    world = kinds[0]
    clock = world.clock_1[0]
    for place in range(world.replica_F.shape[0]):
        replica = world.replica_F[place]
        if replica.status in (UP, STARTING, DRAINING):
            replica.held += now - clock.counted
        if replica.doomed:
            owner = kinds[world.kind_F[place]]
            take_down(owner, place - owner.first_replica, now)
    clock.counted = now
    while clock.strike < world.strike_E.shape[0] and clock.left > 0:
        event = world.strike_E[clock.strike]
        if event.time > now:
            break
        clock.strike += 1
        strike(kinds[world.kind_F[event.replica]], event.replica, event.what, now)
        cut_now = cut_now or world.end_F[event.replica] == now
    if world.scaler_1.shape[0] > 0 and clock.left > 0:
        scale(kinds, now)
    if clock.door > 0 and serves(world):
        _let_in(world, now)
    return bool(cut_now)


@part
def serves(world: World) -> bool:
    """Return whether any replica accepts requests.

    Args:
        world: The simulation.
    """
    up = False
    for place in range(world.entries):
        up = up or world.replica_F[place].status == UP
    return bool(up)


@part
def wait_outside(world: World, i: int) -> None:
    """Queue a request at the router.

    Args:
        world: The simulation.
        i: The request.
    """
    clock = world.clock_1[0]
    world.replica_N[i] = NOBODY
    if clock.door == 0:
        clock.door_head = i
    else:
        world.request_N[clock.door_tail].after = i
    clock.door_tail = i
    clock.door += 1


@part
def _let_in(world: World, now: int) -> None:
    """Let the requests that wait at the router arrive again."""
    clock = world.clock_1[0]
    i = clock.door_head
    while clock.door > 0:
        clock.door -= 1
        expect(world, i, now)
        i = world.request_N[i].after
