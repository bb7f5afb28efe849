"""Time of the next failure over all parts of a fleet, each with its own age.

Memoryless causes merge into one stream. For an ageing cause with n parts the first failures are
drawn in order without n lifetimes: the cumulative hazard between the i-th and the next is Exp(1)/(n
- i). The next failures of replaced parts are kept in a heap. Nothing is redrawn for surviving
parts. Time here is exposed time: it does not advance where failures cannot occur.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfatlas.compiled import drop, exponential, inlined, part, push, uniform
from perfatlas.reliability.fleet.laws import ENDLESS, MAX_CAUSES, NEVER, age_at, hazard_at
from perfatlas.reliability.fleet.simulator.random_streams import (
    FRESH,
    MERGED_CAUSE,
    MERGED_GAP,
    RENEWED,
    stream,
)
from perfatlas.reliability.fleet.simulator.unit_clocks import OF_UNITS, come_due

if TYPE_CHECKING:
    from perfatlas.reliability.fleet.laws import JobPlan, JobState, Stores

MERGED: Final = -1
REPLACED: Final = -2


@part
def start_streams(plan: JobPlan, job: JobState, stores: Stores) -> None:
    """Draw the first event of every cause."""
    job.merged_time = ENDLESS
    if plan.memoryless > 0:
        job.merged_time = plan.mean_gap * exponential(job.key, MERGED_GAP, 0)
    for cause in range(plan.memoryless, plan.causes):
        row = plan.cause[cause]
        if row.member >= 0:  # its parts belong to units
            job.fresh_time[cause] = ENDLESS
            continue
        job.fresh_left[cause] = row.parts
        job.fresh_hazard[cause] = hazard_at(plan.law[row.first_law], stores.knots_2K, row.age)
        _next_fresh(plan, job, stores, cause)
    find_next(plan, job, stores)


@inlined
def find_next(plan: JobPlan, job: JobState, stores: Stores) -> None:
    """Set the time and source of the next event."""
    best = job.merged_time
    job.source = MERGED
    for cause in range(plan.memoryless, plan.causes):
        if job.fresh_time[cause] < best:
            best = job.fresh_time[cause]
            job.source = cause
    if job.renewals > 0 and stores.renewal_H[0].time < best:
        best = stores.renewal_H[0].time
        job.source = REPLACED
    job.due = int(best) if best < NEVER else NEVER


@inlined
def take_next(plan: JobPlan, job: JobState, stores: Stores) -> int:
    """Return the cause of the event that is due and advance; -1 where a part is not due yet.

    A relapse is its cause plus MAX_CAUSES.
    """
    job.struck = -1
    if job.source == MERGED:
        cause = _merged_cause(plan, job)
        job.merged += 1
        job.merged_time += plan.mean_gap * exponential(job.key, MERGED_GAP, job.merged)
    elif job.source == REPLACED:
        node = stores.renewal_H[0]
        time, birth, cause = node.time, node.birth, node.item
        drop(stores.renewal_H, job.renewals)
        job.renewals -= 1
        if cause >= OF_UNITS:
            cause = come_due(plan, job, stores, cause - OF_UNITS, time)
        elif cause < MAX_CAUSES:
            _replace(plan, job, stores, cause, time, birth)
        else:
            job.relapsed = int(birth)
    else:
        cause = job.source
        time = job.fresh_time[cause]
        job.fresh_left[cause] -= 1.0
        _next_fresh(plan, job, stores, cause)
        _replace(plan, job, stores, cause, time, -plan.cause[cause].age)
    find_next(plan, job, stores)
    return int(cause)


@inlined
def _merged_cause(plan: JobPlan, job: JobState) -> int:
    if plan.memoryless == 1:
        return 0
    u = uniform(job.key, MERGED_CAUSE, job.merged)
    cause = 0
    while cause < plan.memoryless - 1 and u >= plan.chance[cause]:
        cause += 1
    return cause


@part
def _next_fresh(plan: JobPlan, job: JobState, stores: Stores, cause: int) -> None:
    """Set the next failure among the original parts of a cause."""
    left = job.fresh_left[cause]
    if left < 1.0:
        job.fresh_time[cause] = ENDLESS
        return
    row = plan.cause[cause]
    index = int(row.parts - left)
    job.fresh_hazard[cause] += exponential(job.key, stream(cause, FRESH), index) / left
    age = age_at(plan.law[row.first_law], stores.knots_2K, job.fresh_hazard[cause])
    job.fresh_time[cause] = max(age - row.age, 0.0)


@part
def _replace(
    plan: JobPlan, job: JobState, stores: Stores, cause: int, time: float, birth: float
) -> None:
    """Start a new lifetime of the failed part, or continue at its age."""
    row = plan.cause[cause]
    law = plan.law[row.law]
    need = exponential(job.key, stream(cause, RENEWED), job.count[cause])
    if row.as_old == 1:
        need += hazard_at(law, stores.knots_2K, time - birth)
    else:
        birth = time
    await_failure(plan, job, stores, birth + age_at(law, stores.knots_2K, need), (birth, cause))


@part
def await_failure(
    plan: JobPlan, job: JobState, stores: Stores, time: float, failing: tuple[float, int]
) -> None:
    """Schedule a failure at an exposed time, unless it is past the horizon.

    Args:
        time: Time of the failure [exposed ticks].
        failing: Birth of the part [exposed ticks] and its cause.
    """
    if time > plan.horizon:
        return
    if job.renewals >= stores.renewal_H.shape[0]:
        job.full = 1
        return
    push(stores.renewal_H, job.renewals, time, failing[0], failing[1])
    job.renewals += 1
