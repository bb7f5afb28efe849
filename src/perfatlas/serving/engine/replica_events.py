"""Changes of replicas, and requests that wait at the router while none of them serves.

Requests without a serving replica wait at the router and arrive again as soon as one serves.

Every sync period, the requests (or only the waiting requests) of serving replicas are counted. If
they deviate by more than a tolerance from the target of the current replicas, including starting
ones, the desired number of replicas is the load over the target, rounded up. Scaling up is
immediate, by at most 4 replicas or 100%, whichever is more. Scaling down uses the maximum desired
number over the stabilization window. A replica takes a start-up time; a stopping replica accepts no
requests and is removed when its requests are finished. Starting replicas are stopped first, then
those with the highest index.

Source: kubernetes/kubernetes, pkg/controller/podautoscaler/replica_calculator.go,
GetExternalPerPodMetricReplicas(), and horizontal.go,
stabilizeRecommendationWithBehaviors() and convertDesiredReplicasWithBehaviorRate(); defaults of
kubernetes.io/docs/tasks/run-application/horizontal-pod-autoscale: sync period 15 s, tolerance 0.1,
downscale stabilization 300 s, scaling up by 100% or 4 pods in 15 s.

Limits: Metrics are never stale. The scale-up limit is per sync, for any period. A draining replica
finishes its requests however long they take, and only then can another start in its place.

Shape legend: N requests, F replicas of all types, E failures and recoveries, A history of desired
replicas.
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, Final

from perfatlas.compiled import part
from perfatlas.serving.engine.outages import apply_failure, clear, take_down
from perfatlas.serving.engine.prefix_routing import drop_replica
from perfatlas.serving.sequences import schedule_arrival
from perfatlas.serving.state import DRAINING, NEVER, NO_INDEX, OFF, STARTING, UP

if TYPE_CHECKING:
    from perfatlas.serving.state import SimulationState

STEP_UP: Final = 4  # replicas per scale-up, or 100%


@part
def scale(groups: tuple[SimulationState, ...], now: int) -> None:
    """Complete starts and stops of replicas, and sync the autoscaler when due.

    Args:
        now: Time [ps].
    """
    sim = groups[0]
    scaler = sim.scaler_1[0]
    _end_changes(groups, now)
    if scaler.due > now:
        return
    scaler.due += scaler.period
    current = 0
    for index in range(sim.replica_F.shape[0]):
        status = sim.replica_F[index].status
        current += 1 if status in (UP, STARTING) else 0
    wanted = _stabilized(sim, current, _desired_replicas(groups, current), now)
    if wanted > current:
        wanted = min(wanted, max(current + STEP_UP, 2 * current), sim.replica_F.shape[0])
        _start(sim, wanted - current, now)
    else:
        fewer = current - max(wanted, scaler.low)
        for status in (STARTING, UP):  # starting ones first, then those with the highest index
            for index in range(sim.replica_F.shape[0] - 1, -1, -1):
                replica = sim.replica_F[index]
                if fewer > 0 and replica.status == status:
                    replica.status = OFF if status == STARTING else DRAINING
                    drop_replica(sim, index)
                    fewer -= 1
        _end_changes(groups, now)


@part
def _end_changes(groups: tuple[SimulationState, ...], now: int) -> None:
    """Put started replicas into service, and remove drained ones."""
    sim = groups[0]
    for index in range(sim.replica_F.shape[0]):
        replica = sim.replica_F[index]
        if replica.status == STARTING and replica.up_at <= now:
            replica.status = UP
        busy = replica.load + replica.steps + replica.next_steps
        if replica.status == DRAINING and busy == 0:
            replica.status = OFF
            owner = groups[sim.group_F[index]]
            clear(owner, index - owner.first_replica)


@part
def _desired_replicas(groups: tuple[SimulationState, ...], current: int) -> int:
    """Return the desired number of replicas for the current load."""
    sim = groups[0]
    scaler = sim.scaler_1[0]
    requests = 0
    for index in range(sim.replica_F.shape[0]):
        replica = sim.replica_F[index]
        if replica.status == UP and scaler.queue_only:
            owner = groups[sim.group_F[index]]
            r = index - owner.first_replica
            for s in range(r * owner.ranks, (r + 1) * owner.ranks):
                requests += owner.scheduler_S[s].waiting + owner.scheduler_S[s].unread
        elif replica.status == UP:
            requests += replica.load
    if abs(1.0 - requests / (scaler.target * current)) <= scaler.tolerance:
        return current
    wanted: int = ceil(requests / scaler.target)
    return wanted


@part
def _stabilized(sim: SimulationState, current: int, wanted: int, now: int) -> int:
    """Return the stabilized number of desired replicas, after recording the current one."""
    scaler = sim.scaler_1[0]
    window = sim.advice_AV.shape[0]
    if scaler.heard == 0:
        _record(sim, now, current)
    most = wanted
    for a in range(min(scaler.heard, window)):
        if sim.advice_AV[a, 0] > now - scaler.stable:
            most = max(most, sim.advice_AV[a, 1])
    _record(sim, now, wanted)
    return int(max(min(current, most), wanted))


@part
def _record(sim: SimulationState, now: int, wanted: int) -> None:
    """Record the desired number of replicas."""
    scaler = sim.scaler_1[0]
    a = scaler.heard % sim.advice_AV.shape[0]
    sim.advice_AV[a, 0] = now
    sim.advice_AV[a, 1] = wanted
    scaler.heard += 1


@part
def _start(sim: SimulationState, more: int, now: int) -> None:
    """Start stopped replicas in order of index, as far as available."""
    for index in range(sim.replica_F.shape[0]):
        replica = sim.replica_F[index]
        if more > 0 and replica.status == OFF:
            replica.status = STARTING
            replica.up_at = now + sim.scaler_1[0].start_up
            if sim.scaler_1[0].start_up == 0:
                replica.status = UP
            more -= 1


@part
def next_change(sim: SimulationState, time: int) -> int:
    """Return the time of the next event, including replica changes while requests remain.

    Args:
        time: Time of the next arrival or end of a step [ps].
    """
    clock = sim.clock_1[0]
    if clock.left == 0:
        return time
    if sim.scaler_1.shape[0] > 0 and time < NEVER:
        time = min(time, sim.scaler_1[0].due)
        for index in range(sim.replica_F.shape[0]):
            replica = sim.replica_F[index]
            if replica.status == STARTING:
                time = min(time, replica.up_at)
    if clock.strike < sim.failure_E.shape[0]:
        time = min(time, sim.failure_E[clock.strike].time)
    return int(time)


@part
def change(groups: tuple[SimulationState, ...], now: int) -> bool:
    """Apply replica changes due now; return whether a batch of steps was truncated to end now.

    If so, its steps end first and its requests are handled before new requests arrive.

    Args:
        now: Time [ps].
    """
    cut_now = False
    sim = groups[0]
    clock = sim.clock_1[0]
    for index in range(sim.replica_F.shape[0]):
        replica = sim.replica_F[index]
        if replica.status in (UP, STARTING, DRAINING):
            replica.allocated += now - clock.counted
        if replica.doomed:
            owner = groups[sim.group_F[index]]
            take_down(owner, index - owner.first_replica, now)
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
        i = clock.door_head
        while clock.door > 0:
            clock.door -= 1
            schedule_arrival(sim, i, now)
            i = sim.request_N[i].after
    return bool(cut_now)


@part
def serves(sim: SimulationState) -> bool:
    """Return whether any replica accepts requests."""
    up = False
    for index in range(sim.entries):
        up = up or sim.replica_F[index].status == UP
    return bool(up)


@part
def wait_at_router(sim: SimulationState, i: int) -> None:
    """Queue a request at the router."""
    clock = sim.clock_1[0]
    sim.replica_N[i] = NO_INDEX
    if clock.door == 0:
        clock.door_head = i
    else:
        sim.request_N[clock.door_tail].after = i
    clock.door_tail = i
    clock.door += 1
