"""Simulation of one replica from start to end.

Shape legend: R replicas, F fields of an outcome.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from perfatlas.compiled import entry, part, replica_key
from perfatlas.reliability.fleet.laws import BUCKETS, IDLE, LOST_WORK, NEVER, PRODUCTIVE, RESTART
from perfatlas.reliability.fleet.simulator.checkpoint_schedule import (
    begin,
    end_work,
    go_to,
    roll_back,
    set_lengths,
    settle,
    undo_end,
)
from perfatlas.reliability.fleet.simulator.failure_effects import (
    apply_event,
    end_slowdowns,
    new_speed,
)
from perfatlas.reliability.fleet.simulator.failure_streams import start_streams
from perfatlas.reliability.fleet.simulator.lemons import draw_lemons
from perfatlas.reliability.fleet.simulator.pool import come_back, fill_up
from perfatlas.reliability.fleet.simulator.recovery import (
    clear,
    drained,
    perform_maintenance,
    plan_events,
    recover,
    spend,
    stop,
)
from perfatlas.reliability.fleet.simulator.unit_clocks import reset_units

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from perfatlas.reliability.fleet.laws import JobPlan, JobState, Stores

FIELDS: Final = (
    *BUCKETS,
    "interruptions",
    "failures",
    "unseen",
    "events",
    "finished",  # tick, NEVER where the work was not completed
    "exposed",
    "unsaved",  # ticks of work at the horizon not covered by a durable checkpoint
)


@entry
def run_replicas(
    plan_1: NDArray[Any],
    job_1: NDArray[Any],
    stores: Stores,
    drawn: tuple[int, int],
    outcome_RF: NDArray[np.int64],
) -> int:
    """Run replicas one after the other; return their number, smaller where a heap was too small.

    Args:
        job_1: Buffer for a job (1,); afterwards the final state of the last replica.
        outcome_RF: Receives a row per replica, columns as `FIELDS` (R, F).
    """
    plan, job = plan_1[0], job_1[0]
    for r in range(outcome_RF.shape[0]):
        start(plan, job, stores, replica_key(drawn[0], drawn[1] + r))
        advance(plan, job, stores)
        if job.full != 0:
            return int(r)
        write(job, outcome_RF[r])
    return int(outcome_RF.shape[0])


@part
def start(plan: JobPlan, job: JobState, stores: Stores, key: np.uint64) -> None:
    """Initialise a job."""
    job.key = key
    job.now = job.exposed = job.since = job.position = 0
    job.index = job.offset = job.base = job.done = job.last = 0
    job.finished = job.detected = job.slow_end = job.back = NEVER
    job.draining = job.corrupt = job.clean = job.struck_at = 0
    job.kind = job.depth = job.detect = job.took = job.slow = 0
    job.merged = job.interruptions = job.restarts = job.failures = job.unseen = 0
    job.idle_bad = job.repairing = job.repairing_bad = job.relapses = 0
    job.renewals = job.full = job.events = job.unsaved = 0
    job.relapsed = job.struck = -1
    job.returned = 0
    for bucket in range(len(BUCKETS)):
        job.bucket[bucket] = 0
    for level in range(plan.levels):
        job.bank[level] = 0
    for crew in range(plan.crews):
        job.crew_free[crew] = 0.0
    for cause in range(plan.causes):
        job.count[cause] = 0
        job.bad[cause] = 0
    draw_lemons(plan, job, stores)
    job.active = plan.units
    job.idle = max(plan.spares, 0)
    if plan.named == 1:
        reset_units(plan, job, stores)
    job.maintenance_due = job.planned = plan.maintenance_every
    job.slowdown = 1.0
    set_lengths(plan, job)
    start_streams(plan, job, stores)
    begin(plan, job)
    plan_events(plan, job, stores)


@part
def advance(plan: JobPlan, job: JobState, stores: Stores) -> None:
    """Run a job to its end."""
    while job.now < plan.horizon and job.finished == NEVER and job.full == 0:
        fails = job.now + max(job.due - job.exposed, 0)
        now = min(fails, max(job.other, job.now), plan.horizon)
        job.exposed += now - job.now
        job.now = now
        if now == plan.horizon:
            break
        settle(plan, job)
        if fails == now:
            cause = apply_event(plan, job, stores, True)  # noqa: FBT003
            if cause >= 0:
                stop(plan, job, stores, cause)
            else:
                plan_events(plan, job, stores)
        else:
            _apply_other_event(plan, job, stores)
    if job.finished == NEVER:
        settle(plan, job)
        more = plan.work - plan.last_work if job.last == 1 else 0
        job.unsaved = max(job.done - more - job.bank[0] * plan.work, 0)
    else:
        spend(job, plan.horizon - job.now, IDLE, False)  # noqa: FBT003


@part
def _apply_other_event(plan: JobPlan, job: JobState, stores: Stores) -> None:
    """Apply the events due other than failures to a settled running job."""
    if job.work_end <= job.now:
        if end_work(plan, job):
            plan_events(plan, job, stores)
        else:
            job.finished = job.now
        return
    if job.detected <= job.now:
        _notice(plan, job, stores)
        return
    if job.slow_end <= job.now:
        if end_slowdowns(plan, job):
            job.interruptions += 1
            clear(job)
            job.kind = plan.slow_restart
            recover(plan, job, stores)
            return
    elif job.maintenance_due <= job.now:
        if job.draining == 1:
            clear(job)
            drained(plan, job)
            perform_maintenance(plan, job, stores)
            recover(plan, job, stores)
            return
        job.draining = 1
    elif job.back <= job.now:
        took = job.took
        come_back(plan, job, stores, job.now)
        if plan.regrows == 1:
            fill_up(plan, job, stores)
        if job.took > took:
            spend(job, min(plan.rejoin, plan.horizon - job.now), RESTART, False)  # noqa: FBT003
            new_speed(plan, job)
    plan_events(plan, job, stores)


@part
def _notice(plan: JobPlan, job: JobState, stores: Stores) -> None:
    """Roll back from a silent error to the last clean checkpoint, or else to the start."""
    job.interruptions += 1
    clear(job)
    job.kind = plan.silent_restart
    job.depth = 0
    undo_end(plan, job)
    clean, newer = job.clean, job.index - job.struck_at
    job.corrupt = 0
    job.detected = NEVER
    if plan.verify > 0:
        roll_back(plan, job, 0)
    else:
        target = clean if newer < plan.retained else 0
        for level in range(plan.levels):
            job.bank[level] = min(job.bank[level], target)
        lost = job.done - target * plan.work
        go_to(job, target)
        job.done -= lost
        job.bucket[PRODUCTIVE] -= lost
        job.bucket[LOST_WORK] += lost
    recover(plan, job, stores)


@part
def write(job: JobState, row_F: NDArray[np.int64]) -> None:
    """Write the result of a job.

    Args:
        row_F: Output, columns as `FIELDS` (F,).
    """
    last = len(BUCKETS)
    for bucket in range(last):
        row_F[bucket] = job.bucket[bucket]
    row_F[last] = job.interruptions
    row_F[last + 1] = job.failures
    row_F[last + 2] = job.unseen
    row_F[last + 3] = job.events
    row_F[last + 4] = job.finished
    row_F[last + 5] = job.exposed
    row_F[last + 6] = job.unsaved
