"""Changes of replicas, and requests that wait at the router while none of them serves.

Requests without a serving replica wait at the router and arrive again as soon as one serves.

Shape legend: N requests, F replicas of all types, E failures and recoveries.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.compiled import part
from perfatlas.serving.engine.autoscaling import next_sync, scale
from perfatlas.serving.engine.outages import apply_failure, take_down
from perfatlas.serving.sequences import schedule_arrival
from perfatlas.serving.state import DRAINING, NEVER, NO_INDEX, STARTING, UP

if TYPE_CHECKING:
    from perfatlas.serving.state import SimulationState


@part
def next_change(sim: SimulationState, time: int) -> int:
    """Return the time of the next event, including replica changes while requests remain.

    Args:
        sim: The simulation.
        time: Time of the next arrival or end of a step [ps].
    """
    clock = sim.clock_1[0]
    if clock.left == 0:
        return time
    if sim.scaler_1.shape[0] > 0 and time < NEVER:
        time = min(time, next_sync(sim))
    if clock.strike < sim.failure_E.shape[0]:
        time = min(time, sim.failure_E[clock.strike].time)
    return int(time)


@part
def change(groups: tuple[SimulationState, ...], now: int) -> bool:
    """Apply replica changes due now; return whether a batch of steps was truncated to end now.

    If so, its steps end first and its requests are handled before new requests arrive.

    Args:
        groups: The simulation, by engine type.
        now: Time [ps].
    """
    cut_now = False
    sim = groups[0]
    clock = sim.clock_1[0]
    for place in range(sim.replica_F.shape[0]):
        replica = sim.replica_F[place]
        if replica.status in (UP, STARTING, DRAINING):
            replica.held += now - clock.counted
        if replica.doomed:
            owner = groups[sim.group_F[place]]
            take_down(owner, place - owner.first_replica, now)
    clock.counted = now
    while clock.strike < sim.failure_E.shape[0] and clock.left > 0:
        event = sim.failure_E[clock.strike]
        if event.time > now:
            break
        clock.strike += 1
        apply_failure(groups[sim.group_F[event.replica]], event.replica, event.what, now)
        cut_now = cut_now or sim.end_F[event.replica] == now
    if sim.scaler_1.shape[0] > 0 and clock.left > 0:
        scale(groups, now)
    if clock.door > 0 and serves(sim):
        _readmit(sim, now)
    return bool(cut_now)


@part
def serves(sim: SimulationState) -> bool:
    """Return whether any replica accepts requests.

    Args:
        sim: The simulation.
    """
    up = False
    for place in range(sim.entries):
        up = up or sim.replica_F[place].status == UP
    return bool(up)


@part
def wait_at_router(sim: SimulationState, i: int) -> None:
    """Queue a request at the router.

    Args:
        sim: The simulation.
        i: The request.
    """
    clock = sim.clock_1[0]
    sim.replica_N[i] = NO_INDEX
    if clock.door == 0:
        clock.door_head = i
    else:
        sim.request_N[clock.door_tail].after = i
    clock.door_tail = i
    clock.door += 1


@part
def _readmit(sim: SimulationState, now: int) -> None:
    """Let the requests that wait at the router arrive again."""
    clock = sim.clock_1[0]
    i = clock.door_head
    while clock.door > 0:
        clock.door -= 1
        schedule_arrival(sim, i, now)
        i = sim.request_N[i].after
