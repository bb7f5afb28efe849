"""Changes of replicas, and requests that wait at the router while none of them serves.

Requests without a serving replica wait at the router of their pool and arrive again as soon as one
serves. Each pool has an autoscaler of its own. A replica that fails is replaced at the next sync.

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

Shape legend: N requests, F replicas of all types, P pools, E failures and recoveries, A history of
desired replicas.
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, Final

from perfatlas.compiled import part
from perfatlas.serving.engine.outages import apply_failure, clear, runs, take_down
from perfatlas.serving.engine.prefix_routing import drop_replica
from perfatlas.serving.sequences import queue_owner, schedule_arrival
from perfatlas.serving.state import DRAINING, NEVER, OFF, STARTING, UP

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
    _end_changes(groups, now)
    for p in range(sim.scaler_P.shape[0]):
        if sim.scaler_P[p].due <= now:
            sim.scaler_P[p].due += sim.scaler_P[p].period
            _scale_pool(groups, p, now)
    _end_changes(groups, now)


@part
def _scale_pool(groups: tuple[SimulationState, ...], p: int, now: int) -> None:
    """Start or stop replicas of a pool at a sync of its autoscaler."""
    sim = groups[0]
    scaler = sim.scaler_P[p]
    current = 0
    for index in range(scaler.first, scaler.end):
        status = sim.replica_F[index].status
        current += 1 if status in (UP, STARTING) else 0
    wanted = _stabilized(sim, p, current, now, _desired_replicas(groups, p, current))
    if wanted > current:
        wanted = min(wanted, max(current + STEP_UP, 2 * current), scaler.end - scaler.first)
        _start(sim, p, wanted - current, now)
    else:
        fewer = current - max(wanted, scaler.low)
        for status in (STARTING, UP):  # starting ones first, then those with the highest index
            for index in range(scaler.end - 1, scaler.first - 1, -1):
                replica = sim.replica_F[index]
                if fewer > 0 and replica.status == status:
                    replica.status = OFF if status == STARTING else DRAINING
                    drop_replica(sim, index)
                    fewer -= 1


@part
def _end_changes(groups: tuple[SimulationState, ...], now: int) -> None:
    """Put started replicas into service, and remove drained ones."""
    sim = groups[0]
    for index in range(sim.replica_F.shape[0]):
        replica = sim.replica_F[index]
        if replica.status == STARTING and replica.up_at <= now:
            replica.status = UP
        if replica.status == DRAINING:
            owner = groups[sim.group_F[index]]
            r = index - owner.first_replica
            held = replica.load + replica.sending + replica.next_steps
            if held == 0 and not runs(owner, r):
                replica.status = OFF
                clear(owner, r)


@part
def _desired_replicas(groups: tuple[SimulationState, ...], p: int, current: int) -> int:
    """Return the desired number of replicas of a pool for its load; 1 if it has none."""
    sim = groups[0]
    scaler = sim.scaler_P[p]
    if current == 0:
        return 1
    requests = 0
    for index in range(scaler.first, scaler.end):
        replica = sim.replica_F[index]
        if replica.status == UP and scaler.queue_only:
            owner = groups[sim.group_F[index]]
            r = index - owner.first_replica
            for s in range(r * owner.ranks, (r + 1) * owner.ranks):
                scheduler = owner.scheduler_S[queue_owner(owner, s)]
                requests += scheduler.waiting + scheduler.unread
        elif replica.status == UP:
            requests += replica.load
    if abs(1.0 - requests / (scaler.target * current)) <= scaler.tolerance:
        return current
    wanted: int = ceil(requests / scaler.target)
    return wanted


@part
def _stabilized(sim: SimulationState, p: int, current: int, now: int, wanted: int) -> int:
    """Return the stabilized number of desired replicas, after recording the current one."""
    scaler = sim.scaler_P[p]
    window = sim.advice_PAV.shape[1]
    if scaler.heard == 0:
        _record(sim, p, now, current)
    most = wanted
    for a in range(min(scaler.heard, window)):
        if sim.advice_PAV[p, a, 0] > now - scaler.stable:
            most = max(most, sim.advice_PAV[p, a, 1])
    _record(sim, p, now, wanted)
    return int(max(min(current, most), wanted))


@part
def _record(sim: SimulationState, p: int, now: int, wanted: int) -> None:
    """Record the desired number of replicas of a pool."""
    scaler = sim.scaler_P[p]
    a = scaler.heard % sim.advice_PAV.shape[1]
    sim.advice_PAV[p, a, 0] = now
    sim.advice_PAV[p, a, 1] = wanted
    scaler.heard += 1


@part
def _start(sim: SimulationState, p: int, more: int, now: int) -> None:
    """Start stopped replicas of a pool in order of index, as far as available."""
    scaler = sim.scaler_P[p]
    for index in range(scaler.first, scaler.end):
        replica = sim.replica_F[index]
        if more > 0 and replica.status == OFF:
            replica.status = STARTING
            replica.up_at = now + scaler.start_up
            if scaler.start_up == 0:
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
    waits = False  # requests wait for a replica that an autoscaler can start
    for p in range(sim.scaler_P.shape[0]):
        for index in range(sim.scaler_P[p].first, sim.scaler_P[p].end):
            status = sim.replica_F[index].status
            waits = waits or (sim.door_P[p].waiting > 0 and status in (OFF, STARTING))
    if sim.scaler_P.shape[0] > 0 and (time < NEVER or waits):
        for p in range(sim.scaler_P.shape[0]):
            time = min(time, sim.scaler_P[p].due)
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
            take_down(groups, index, now)
    clock.counted = now
    while clock.strike < sim.failure_E.shape[0] and clock.left > 0:
        event = sim.failure_E[clock.strike]
        if event.time > now:
            break
        clock.strike += 1
        apply_failure(groups, event.replica, event.what, now)
        cut_now = cut_now or sim.end_F[event.replica] == now
    if sim.scaler_P.shape[0] > 0 and clock.left > 0:
        scale(groups, now)
    for p in range(sim.door_P.shape[0]):
        door = sim.door_P[p]
        if door.waiting > 0 and serves(sim, p):
            i = door.head
            while door.waiting > 0:
                door.waiting -= 1
                schedule_arrival(sim, i, now)
                i = sim.request_N[i].after
    return bool(cut_now)


@part
def serves(sim: SimulationState, p: int) -> bool:
    """Return whether any replica of a pool accepts requests."""
    up = False
    for index in range(sim.pool_P2[p, 0], sim.pool_P2[p, 1]):
        up = up or sim.replica_F[index].status == UP
    return bool(up)


@part
def wait_at_router(sim: SimulationState, i: int, p: int) -> None:
    """Queue a request at the router of a pool."""
    door = sim.door_P[p]
    if door.waiting == 0:
        door.head = i
    else:
        sim.request_N[door.tail].after = i
    door.tail = i
    door.waiting += 1
