"""Recovery from a failure: detection, replacement of units, restart; repeated on failures."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.compiled import exponential, inlined, part, uniform
from perfatlas.reliability.fleet.laws import (
    CHECKPOINT,
    DETECTION,
    MAINTENANCE,
    NEVER,
    RESTART,
    WAITING,
    ticks_at,
)
from perfatlas.reliability.fleet.simulator.checkpoint_schedule import begin, end_of, work_ends_at
from perfatlas.reliability.fleet.simulator.failure_effects import apply_event, interrupt, new_speed
from perfatlas.reliability.fleet.simulator.failure_streams import find_next
from perfatlas.reliability.fleet.simulator.pool import (
    begin_relapses,
    come_back,
    fill_up,
    next_return,
    swap,
)
from perfatlas.reliability.fleet.simulator.random_streams import (
    CHECKPOINT_READ,
    RESTART_PHASE,
    RESTART_SUCCESS,
    SPARE_START,
)
from perfatlas.reliability.fleet.simulator.unit_clocks import power_down, power_up

if TYPE_CHECKING:
    from perfatlas.reliability.fleet.laws import JobPlan, JobState, Stores


@part
def reallocate(plan: JobPlan, job: JobState, stores: Stores) -> None:
    """Swap units until the job runs on the usable ones with the lowest numbers."""
    while job.idle > 0:
        low, high = job.active, 0
        for spot in range(job.active, job.active + job.idle):
            if stores.order_D[spot] < stores.order_D[low]:
                low = spot
        for spot in range(job.active):
            if stores.order_D[spot] > stores.order_D[high]:
                high = spot
        joins, leaves = stores.order_D[low], stores.order_D[high]
        if joins > leaves:
            return
        swap(stores, low, high)
        job.returned += 1
        stores.unit_D[leaves].idle_since = job.returned
        if plan.warm == 0 and plan.members > 0:
            power_down(plan, job, stores, leaves)
            power_up(plan, job, stores, joins)
            find_next(plan, job, stores)
        if plan.lurking > 0:
            begin_relapses(plan, job, stores, joins)


@inlined
def spend(job: JobState, ticks: int, bucket: int, exposed: bool) -> None:  # noqa: FBT001
    """Advance time outside of work.

    Args:
        ticks: Duration [ticks].
    """
    job.now += ticks
    job.bucket[bucket] += ticks
    if exposed:
        job.exposed += ticks


@part
def _pass(
    plan: JobPlan, job: JobState, stores: Stores, ticks: int, phase: tuple[int, bool]
) -> bool:
    """Return whether a phase passes without another failure that stops the job."""
    bucket, exposed = phase
    end = min(job.now + ticks, plan.horizon)
    while exposed and job.full == 0 and job.due - job.exposed < end - job.now:
        spend(job, max(job.due - job.exposed, 0), bucket, True)  # noqa: FBT003
        cause = apply_event(plan, job, stores, False)  # noqa: FBT003
        if cause >= 0:
            job.interruptions += 1
            interrupt(plan, job, stores, cause)
            return False
    spend(job, end - job.now, bucket, exposed)
    return True


@inlined
def stop(plan: JobPlan, job: JobState, stores: Stores, cause: int) -> None:
    """Stop the job for a failure, together with all failures at the same instant."""
    job.interruptions += 1
    clear(job)
    interrupt(plan, job, stores, cause)
    recover(plan, job, stores)


@inlined
def clear(job: JobState) -> None:
    """Clear the requirements of an earlier recovery."""
    job.kind = 0
    job.depth = -1
    job.detect = 0
    job.stepped = 0


@part
def recover(plan: JobPlan, job: JobState, stores: Stores) -> None:
    """Recover until the job is back at work, or to the horizon."""
    while job.now < plan.horizon and job.full == 0:
        while job.due <= job.exposed and job.full == 0:  # at the same instant
            cause = apply_event(plan, job, stores, False)  # noqa: FBT003
            if cause >= 0:
                interrupt(plan, job, stores, cause)
        detect = job.detect
        job.detect = 0
        if not _pass(plan, job, stores, detect, (DETECTION, plan.detection_exposed == 1)):
            continue
        if job.maintenance_due <= job.now or job.draining == 1:
            perform_maintenance(plan, job, stores)
        took = job.took
        _wait(plan, job, stores)
        if _restarted(plan, job, stores, job.took > took):
            break
    if job.slow > 0 or job.active < plan.units or job.slowdown > 1.0:
        new_speed(plan, job)
    else:
        begin(plan, job)
    plan_events(plan, job, stores)


@inlined
def _wait(plan: JobPlan, job: JobState, stores: Stores) -> None:
    """Assign idle units to the job; wait for repairs unless it can shrink."""
    if plan.spares < 0:
        return
    if plan.regrows == 0 and job.active >= plan.fewest:
        come_back(plan, job, stores, job.now)
        return
    fill_up(plan, job, stores)
    if plan.regrows == 1 and plan.replica_units > 0 and job.active >= plan.fewest:
        return
    while job.active < plan.units and job.now < plan.horizon:
        until = min(next_return(job, stores), plan.horizon)
        spend(job, max(until - job.now, 0), WAITING, False)  # noqa: FBT003
        fill_up(plan, job, stores)
    if plan.reallocates == 1 and plan.named == 1 and job.active == plan.units:
        reallocate(plan, job, stores)


@inlined
def _restarted(plan: JobPlan, job: JobState, stores: Stores, spare: bool) -> bool:  # noqa: FBT001
    """Return whether a restart, with the heavier ones after an unsuccessful one, has no failure."""
    exposed = plan.restart_exposed == 1
    while True:
        ticks = _restart_ticks(plan, job, stores, spare)
        turn = job.restarts
        job.restarts += 1
        if not _pass(plan, job, stores, ticks, (RESTART, exposed)):
            return False
        row = plan.restart[job.kind]
        if job.now >= plan.horizon or row.success >= 1.0:
            return True
        if uniform(job.key, RESTART_SUCCESS, turn) < row.success:
            return True
        job.kind = min(job.kind + 1, plan.restarts - 1)


@inlined
def _restart_ticks(plan: JobPlan, job: JobState, stores: Stores, spare: bool) -> int:  # noqa: FBT001
    """Return the duration of a restart without failures."""
    row = plan.restart[job.kind]
    ticks = row.fixed
    for phase in range(row.phases):
        draw = exponential(job.key, RESTART_PHASE, job.restarts * 16 + phase)
        ticks += ticks_at(plan.law[row.law[phase]], stores.knots_2K, draw)
    if job.depth >= 0:
        level = plan.level[job.depth]
        ticks += level.read
        if level.read_law >= 0:
            draw = exponential(job.key, CHECKPOINT_READ, job.restarts)
            ticks += ticks_at(plan.law[level.read_law], stores.knots_2K, draw)
    if spare and plan.spare_start >= 0:
        draw = exponential(job.key, SPARE_START, job.restarts)
        ticks += ticks_at(plan.law[plan.spare_start], stores.knots_2K, draw)
    return int(ticks)


@part
def drained(plan: JobPlan, job: JobState) -> None:
    """Save a job that is to pause at the most durable level."""
    widest = plan.levels - 1
    if job.index % plan.level[widest].every != 0:
        spend(job, min(plan.level[widest].write, plan.horizon - job.now), CHECKPOINT, False)  # noqa: FBT003
    for level in range(plan.levels):
        job.bank[level] = job.index
    job.depth = widest


@part
def perform_maintenance(plan: JobPlan, job: JobState, stores: Stores) -> None:
    """Perform the planned maintenance that is due."""
    _pass(plan, job, stores, plan.maintenance, (MAINTENANCE, False))
    job.draining = 0
    while job.planned <= job.now:
        job.planned += plan.maintenance_every
    job.maintenance_due = job.planned
    job.kind = max(job.kind, plan.maintenance_restart)


@inlined
def plan_events(plan: JobPlan, job: JobState, stores: Stores) -> None:
    """Set the time of the next event of a running job other than a failure."""
    from_now = job.now - job.position
    job.work_end = NEVER
    if plan.segments > 0:
        job.work_end = from_now + work_ends_at(plan, job)
    if job.corrupt == 1 and plan.verify > 0:
        job.detected = from_now + end_of(plan, job, job.struck_at) + job.slow_work + plan.verify
    job.back = NEVER
    ages = plan.members * plan.warm  # a spare that returns ages from then on
    grows = plan.regrows == 1 and job.active < plan.units
    if plan.spares >= 0 and (grows or job.repairing_bad > 0 or ages > 0):
        come_back(plan, job, stores, job.now)
        job.back = next_return(job, stores)
        if job.idle > 0 and grows:
            job.back = job.now
    if job.draining == 1:
        job.maintenance_due = from_now + end_of(plan, job, job.index + 1)
    job.other = min(job.work_end, job.detected, job.slow_end, job.maintenance_due, job.back)
