"""Effect of an event: stop the job, corrupt it silently, slow it down, or nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.compiled import exponential, inlined, part, uniform
from perfatlas.reliability.fleet.laws import (
    MAX_CAUSES,
    MAX_EVENTS,
    MAX_SLOW,
    NEVER,
    SLOWS,
    STOPS,
    ticks_at,
)
from perfatlas.reliability.fleet.simulator.checkpoint_schedule import begin, roll_back, set_lengths
from perfatlas.reliability.fleet.simulator.failure_streams import take_next
from perfatlas.reliability.fleet.simulator.lemons import lemon_fails
from perfatlas.reliability.fleet.simulator.pool import (
    come_back,
    fail_again,
    hit,
    hits_work,
    working,
)
from perfatlas.reliability.fleet.simulator.random_streams import COUNTED, DETECTED, LASTS, stream

if TYPE_CHECKING:
    from perfatlas.reliability.fleet.laws import JobPlan, JobState, Stores


@part
def apply_event(plan: JobPlan, job: JobState, stores: Stores, running: bool) -> int:  # noqa: FBT001
    """Apply the event that is due; return its cause if it stops the job, else -1.

    Args:
        job: The job, settled if it runs.
    """
    if plan.named == 1 and plan.warm == 1:
        come_back(plan, job, stores, job.now)  # a spare that has returned can fail
    cause = take_next(plan, job, stores)
    if cause < 0:
        return -1
    again = cause >= MAX_CAUSES
    if again:
        cause -= MAX_CAUSES
    turn = job.count[cause]
    job.count[cause] += 1
    job.events += 1
    if job.events >= MAX_EVENTS:
        job.full = 3
    row = plan.cause[cause]
    if again:
        stops = fail_again(plan, job, stores, cause, turn)
    elif row.plain == 0 and not _counts(plan, job, stores, cause, turn):
        stops = False
    elif row.plain == 0 and row.effect != STOPS:
        _degrade(plan, job, stores, (cause, turn), running)
        return -1
    else:
        stops = plan.spares < 0 or hit(plan, job, stores, cause, turn)
    if not stops:
        job.unseen += 1
        return -1
    job.failures += 1
    return int(cause)


@inlined
def interrupt(plan: JobPlan, job: JobState, stores: Stores, cause: int) -> None:
    """Record the recovery that a failure requires and roll back to its checkpoint."""
    row = plan.cause[cause]
    draw = 1.0
    law = plan.law[row.detection]
    if law.kind > 0:
        draw = exponential(job.key, stream(cause, DETECTED), job.count[cause])
    job.detect = max(job.detect, ticks_at(law, stores.knots_2K, draw))
    job.kind = max(job.kind, row.restart)
    job.depth = max(job.depth, row.level)
    roll_back(plan, job, job.depth)


@part
def _counts(plan: JobPlan, job: JobState, stores: Stores, cause: int, turn: int) -> bool:
    """Return whether an event affects the job: its parts, its lemons or its work."""
    row = plan.cause[cause]
    if row.counted < 1.0 and uniform(job.key, stream(cause, COUNTED), turn) >= row.counted:
        return False
    if row.lemons > 0 and not lemon_fails(plan, job, stores, cause, turn):
        return False
    if row.scope == 0 and (job.active < plan.units or plan.named == 1):
        return bool(hits_work(plan, job, stores, cause, turn))
    return True


@part
def _degrade(
    plan: JobPlan,
    job: JobState,
    stores: Stores,
    event: tuple[int, int],
    running: bool,  # noqa: FBT001
) -> None:
    """Apply an event that slows the job down or, while it runs, corrupts it."""
    cause, turn = event
    if plan.cause[cause].effect == SLOWS:
        _slow_down(plan, job, stores, cause, turn)
    elif running:
        _corrupt(plan, job, stores, cause, turn)


@part
def _corrupt(plan: JobPlan, job: JobState, stores: Stores, cause: int, turn: int) -> None:
    """Corrupt the running state until a verification or the latency detects it."""
    if job.corrupt == 1:
        return
    row = plan.cause[cause]
    if plan.verify > 0:
        if job.offset >= plan.work:
            return  # the work of this segment is done; otherwise its verification detects the error
    else:
        draw = exponential(job.key, stream(cause, LASTS), turn)
        job.detected = job.now + ticks_at(plan.law[row.latency], stores.knots_2K, draw)
    job.corrupt = 1
    job.clean = job.bank[0]
    job.struck_at = job.index


@part
def _slow_down(plan: JobPlan, job: JobState, stores: Stores, cause: int, turn: int) -> None:
    """Start a slowdown."""
    if job.slow == MAX_SLOW:
        end_slowdowns(plan, job)
    if job.slow == MAX_SLOW:
        job.full = 2
        return
    row = plan.cause[cause]
    draw = exponential(job.key, stream(cause, LASTS), turn)
    lasts = ticks_at(plan.law[row.duration], stores.knots_2K, draw)
    job.spell_end[job.slow] = job.now + max(lasts, 1)
    job.spell_replaced[job.slow] = 0
    if plan.slow_patience < NEVER:  # replaced once the lost time reaches the job's patience
        patience = int(plan.slow_patience * row.factor / (row.factor - 1.0))
        if patience < lasts:
            job.spell_end[job.slow] = job.now + max(patience, 1)
            job.spell_replaced[job.slow] = 1
    job.spell_factor[job.slow] = row.factor
    job.slow += 1
    new_speed(plan, job)


@part
def new_speed(plan: JobPlan, job: JobState) -> None:
    """Set the speed of a settled job from its slowdowns and missing units."""
    slowest = 1.0
    job.slow_end = NEVER
    for i in range(job.slow):
        slowest = max(slowest, job.spell_factor[i])
        job.slow_end = min(job.slow_end, job.spell_end[i])
    if job.active < plan.units and plan.replica_units > 0:
        slowest *= plan.shrink_overhead * plan.units / working(plan, job)
    job.slowdown = slowest
    set_lengths(plan, job)
    begin(plan, job)


@part
def end_slowdowns(plan: JobPlan, job: JobState) -> bool:
    """End expired slowdowns; return whether a slow unit is to be replaced."""
    count, replaced = 0, False
    for i in range(job.slow):
        if job.spell_end[i] <= job.now:
            replaced = replaced or job.spell_replaced[i] == 1
            continue
        job.spell_end[count] = job.spell_end[i]
        job.spell_replaced[count] = job.spell_replaced[i]
        job.spell_factor[count] = job.spell_factor[i]
        count += 1
    job.slow = count
    new_speed(plan, job)
    return replaced
