"""Ageing parts that belong to units: they age while their unit is powered, and move with it.

A unit has its own clock of service time, which stops while the unit is under repair or a
cold spare. The next failures of its parts are slots with a time on that clock. A slot waits in the
heap of the job at the time that follows if the unit stays powered; one that comes due earlier,
since its unit was away meanwhile, is postponed, and one whose unit is away is parked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfatlas.compiled import exponential, part, push
from perfatlas.reliability.fleet.laws import MAX_CAUSES, age_at, hazard_at
from perfatlas.reliability.fleet.simulator.random_streams import FRESH, RENEWED, stream

if TYPE_CHECKING:
    from perfatlas.reliability.fleet.laws import JobPlan, JobState, Stores

OF_UNITS: Final = 2 * MAX_CAUSES  # items of the heap from here on are slots
PARTS_PER_UNIT: Final = 2**20  # parts of one unit and cause, with their own random numbers


@part
def reset_units(plan: JobPlan, job: JobState, stores: Stores) -> None:
    """Start the clocks of all units."""
    for unit in range(stores.order_D.shape[0]):
        stores.order_D[unit] = unit
        stores.spot_D[unit] = unit
        stores.down_D[unit] = 0
        stores.unit_D[unit].idle_since = 0
        stores.unit_D[unit].left = -1
        stores.unit_D[unit].away = 0
        stores.unit_D[unit].parked = -1
    stores.bad_DL[:] = 0
    job.slots = 0
    job.free_slot = -1
    if plan.members > 0:
        for unit in range(job.active + plan.warm * job.idle):
            power_up(plan, job, stores, unit)


@part
def power_down(plan: JobPlan, job: JobState, stores: Stores, unit: int) -> None:
    """Stop the clock of a unit."""
    if plan.members > 0:
        stores.unit_D[unit].left = job.exposed


@part
def power_up(plan: JobPlan, job: JobState, stores: Stores, unit: int) -> None:
    """Start the clock of a unit again; the failures of its parts are due from now on."""
    row = stores.unit_D[unit]
    if row.left < 0:
        row.away = job.exposed
        row.left = 0
        for cause in range(plan.memoryless, plan.causes):
            kind = plan.cause[cause]
            if kind.member >= 0:  # draw the first failure of the original parts
                member = stores.member_DA[unit * plan.members + kind.member]
                before = int(unit * kind.per_unit + 1e-9)
                member.left = int((unit + 1) * kind.per_unit + 1e-9) - before
                member.renewed = 0
                member.hazard = hazard_at(plan.law[kind.first_law], stores.knots_2K, kind.age)
                _next_original(plan, job, stores, unit, cause)
        return
    row.away += job.exposed - row.left
    slot = row.parked
    row.parked = -1
    while slot >= 0:
        following = stores.slot_H[slot].link
        _wait_for(plan, job, stores, slot)
        slot = following


@part
def _next_original(plan: JobPlan, job: JobState, stores: Stores, unit: int, cause: int) -> None:
    """Schedule the next failure among the original parts of a unit."""
    row = plan.cause[cause]
    member = stores.member_DA[unit * plan.members + row.member]
    if member.left == 0:
        return
    before = int(unit * row.per_unit + 1e-9)
    original = int((unit + 1) * row.per_unit + 1e-9) - before
    index = unit * PARTS_PER_UNIT + original - member.left
    member.hazard += exponential(job.key, stream(cause, FRESH), index) / member.left
    age = age_at(plan.law[row.first_law], stores.knots_2K, member.hazard)
    _use_slot(plan, job, stores, (unit, cause, 1), (max(age - row.age, 0.0), -row.age))


@part
def _use_slot(
    plan: JobPlan,
    job: JobState,
    stores: Stores,
    whose: tuple[int, int, int],
    times: tuple[float, float],
) -> None:
    """Schedule the failure of a part at a service time, unless it is past the horizon."""
    unit, cause, fresh = whose
    if times[0] + stores.unit_D[unit].away > plan.horizon:
        return
    slot = job.free_slot
    if slot >= 0:
        job.free_slot = stores.slot_H[slot].link
    else:
        slot = job.slots
        if slot >= stores.slot_H.shape[0]:
            job.full = 1
            return
        job.slots += 1
    row = stores.slot_H[slot]
    row.due = times[0]
    row.birth = times[1]
    row.unit = unit
    row.cause = cause
    row.fresh = fresh
    _wait_for(plan, job, stores, slot)


@part
def _wait_for(plan: JobPlan, job: JobState, stores: Stores, slot: int) -> None:
    """Put a slot in the heap at the time that follows if its unit stays powered."""
    row = stores.slot_H[slot]
    time = row.due + stores.unit_D[row.unit].away
    if time > plan.horizon:
        row.link = job.free_slot
        job.free_slot = slot
        return
    if job.renewals >= stores.renewal_H.shape[0]:
        job.full = 1
        return
    push(stores.renewal_H, job.renewals, time, 0.0, OF_UNITS + slot)
    job.renewals += 1


@part
def come_due(plan: JobPlan, job: JobState, stores: Stores, slot: int, time: float) -> int:
    """Return the cause of the part that fails now, and start its next life; -1 if it does not.

    Args:
        time: Time at which it waited there [exposed ticks].
    """
    row = stores.slot_H[slot]
    unit, cause, due = row.unit, row.cause, row.due
    if stores.spot_D[unit] >= job.active + plan.warm * job.idle:  # it is not powered
        row.link = stores.unit_D[unit].parked
        stores.unit_D[unit].parked = slot
        return -1
    if due + stores.unit_D[unit].away > time:
        _wait_for(plan, job, stores, slot)
        return -1
    fresh, birth = row.fresh, row.birth
    row.link = job.free_slot
    job.free_slot = slot
    _renew(plan, job, stores, (unit, cause), (due, birth))
    if fresh == 1:
        stores.member_DA[unit * plan.members + plan.cause[cause].member].left -= 1
        _next_original(plan, job, stores, unit, cause)
    job.struck = unit
    return int(cause)


@part
def _renew(
    plan: JobPlan, job: JobState, stores: Stores, whose: tuple[int, int], times: tuple[float, float]
) -> None:
    """Start a new lifetime of the failed part of a unit, or continue at its age."""
    unit, cause = whose
    due, birth = times
    row = plan.cause[cause]
    law = plan.law[row.law]
    member = stores.member_DA[unit * plan.members + row.member]
    index = unit * PARTS_PER_UNIT + member.renewed
    member.renewed += 1
    need = exponential(job.key, stream(cause, RENEWED), index)
    if row.as_old == 1:
        need += hazard_at(law, stores.knots_2K, due - birth)
    else:
        birth = due
    _use_slot(
        plan, job, stores, (unit, cause, 0), (birth + age_at(law, stores.knots_2K, need), birth)
    )
