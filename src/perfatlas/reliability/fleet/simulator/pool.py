"""Units of the job, idle spares and units under repair.

A unit is allocated and lost as a whole: a node, or a rack with trays of which some may be down.
Where units differ, in age, lemons, latent faults or parts, they are named: `order_D` lists the
units of the job, then idle units, then failed units. Elsewhere their numbers describe them exactly.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.compiled import drop, exponential, inlined, part, push, uniform
from perfatlas.reliability.fleet.laws import MAX_CAUSES, MAX_TICKS, NEVER, age_at
from perfatlas.reliability.fleet.simulator.failure_streams import await_failure, find_next
from perfatlas.reliability.fleet.simulator.lemons import chosen_spare, is_lemon
from perfatlas.reliability.fleet.simulator.random_streams import (
    BAD_SPARE,
    FIXED,
    PART,
    POSITION,
    RELAPSE,
    REPAIRED,
    STRUCK_IDLE,
    stream,
)
from perfatlas.reliability.fleet.simulator.unit_clocks import power_down, power_up

if TYPE_CHECKING:
    from perfatlas.reliability.fleet.laws import JobPlan, JobState, Stores

MAX_REPEATS: Final = 1024  # repeats of a stage that are drawn one by one
REPEATS_FROM: Final = 2**60  # counters of their random numbers, beyond those of the stages


@part
def send_to_repair(
    plan: JobPlan, job: JobState, stores: Stores, failure: tuple[int, int, int]
) -> None:
    """Start a repair: stages until a fix or false fix; it waits for a crew.

    Args:
        failure: Cause, number of the draw, and what returns: twice the unit, plus one for the whole
            unit; -1 where units are anonymous.
    """
    cause, turn, item = failure
    ticks, bad = _repair(plan, job, stores, cause, turn)
    begins = float(job.now)
    if plan.crews > 0:
        crew = 0
        for other in range(1, plan.crews):
            if job.crew_free[other] < job.crew_free[crew]:
                crew = other
        begins = max(begins, job.crew_free[crew])
        job.crew_free[crew] = min(begins + ticks, MAX_TICKS)
    if job.repairing >= stores.return_G.shape[0]:
        job.full = 1
        return
    mark = -1.0
    if bad:
        mark = float(cause)
        job.repairing_bad += item >= 0
    push(stores.return_G, job.repairing, min(begins + ticks, MAX_TICKS), mark, item)
    job.repairing += 1


@part
def _repair(
    plan: JobPlan, job: JobState, stores: Stores, cause: int, turn: int
) -> tuple[float, bool]:
    """Return the duration of a repair [ticks], and whether it is a false fix.

    The last stage is repeated until a fix or false fix: a geometric number of times, of which those
    beyond `MAX_REPEATS` take their mean duration.
    """
    repair = plan.repair[plan.cause[cause].repair]
    ticks, last = 0.0, repair.stages - 1
    for stage in range(repair.stages):
        row = repair.stage[stage]
        draw = exponential(job.key, stream(cause, REPAIRED), turn * 64 + stage)
        ticks += age_at(plan.law[row.law], stores.knots_2K, draw)
        if row.fixed >= 1.0:
            return ticks, False
        u = uniform(job.key, stream(cause, FIXED), turn * 64 + stage)
        if u < row.fixed + row.false_fix:
            return ticks, u >= row.fixed
    row = repair.stage[last]
    helps = row.fixed + row.false_fix
    u = uniform(job.key, stream(cause, FIXED), turn * 64 + repair.stages)
    repeats = 1.0 + np.floor(math.log(u) / math.log1p(-helps))
    drawn = int(min(repeats, MAX_REPEATS))
    again = 0.0
    for repeat in range(drawn):
        index = REPEATS_FROM + turn * MAX_REPEATS + repeat
        draw = exponential(job.key, stream(cause, REPAIRED), index)
        again += age_at(plan.law[row.law], stores.knots_2K, draw)
    u = uniform(job.key, stream(cause, FIXED), turn * 64 + repair.stages + 1)
    return ticks + again * (repeats / drawn), u * helps >= row.fixed


@inlined
def hit(plan: JobPlan, job: JobState, stores: Stores, cause: int, turn: int) -> bool:
    """Return whether a failure hits the running job, and remove the failed parts or units."""
    row = plan.cause[cause]
    if row.scope == 0:
        return True
    come_back(plan, job, stores, job.now)
    standing = plan.warm * job.idle
    position = 0
    if job.struck >= 0:
        position = stores.spot_D[job.struck]
    elif plan.warm == 1 or plan.named == 1 or job.active < plan.units:
        among = plan.powered
        if row.shared == 1:  # hits the job, whatever its number of units
            among = job.active
        position = int(uniform(job.key, stream(cause, POSITION), turn) * among)
        if position >= job.active + standing:
            return False  # a unit that has already failed
    if plan.named == 1:
        return bool(_hit_named(plan, job, stores, (cause, turn, position)))
    if standing > 0:
        return bool(_hit_powered(plan, job, stores, (cause, turn, position)))
    gone = min(row.hits, job.active)
    for i in range(gone):
        send_to_repair(plan, job, stores, (cause, turn * 64 + i, -1))
    job.active -= gone
    return True


@part
def _hit_powered(
    plan: JobPlan, job: JobState, stores: Stores, failure: tuple[int, int, int]
) -> bool:
    """Remove anonymous units where there are spares; return whether the job lost any.

    A burst continues from its position and wraps around, units of the job before idle ones.
    """
    cause, turn, position = failure
    up = job.active + job.idle
    gone = min(plan.cause[cause].hits, up)
    if position < job.active:
        idle = min(max(gone - (job.active - position), 0), job.idle)
    else:
        idle = gone - min(max(gone - (up - position), 0), job.active)
    for i in range(gone):
        send_to_repair(plan, job, stores, (cause, turn * 64 + i, -1))
    for i in range(idle):
        _take_idle(plan, job, stream(cause, STRUCK_IDLE), turn * 64 + i)
    job.active -= gone - idle
    return bool(gone > idle)


@inlined
def working(plan: JobPlan, job: JobState) -> int:
    """Return the units of running replicas: a job that shrinks drops whole replicas."""
    missing = plan.units - job.active
    if missing <= 0 or plan.replica_units == 0:
        return int(job.active)
    dropped = -(-missing // plan.replica_units) * plan.replica_units
    return int(max(plan.units - dropped, 1))


@part
def hits_work(plan: JobPlan, job: JobState, stores: Stores, cause: int, turn: int) -> bool:
    """Return whether an event on the work of the full job hits a unit that works."""
    if plan.cause[cause].shared == 1:
        return True
    works = working(plan, job)
    if job.struck >= 0:
        return bool(stores.spot_D[job.struck] < works)
    if works == plan.units and plan.cause[cause].lemon_kind < 0:
        return True
    position = int(uniform(job.key, stream(cause, POSITION), turn) * plan.units)
    return bool(position < works and not is_lemon(plan, stores, cause, stores.order_D[position]))


@part
def fail_again(plan: JobPlan, job: JobState, stores: Stores, cause: int, turn: int) -> bool:
    """Return whether a relapse stops the job, and remove its unit.

    The fault of a unit that has left the job shows when it returns.
    """
    come_back(plan, job, stores, job.now)
    unit, row = job.relapsed, plan.cause[cause]
    if unit < 0:
        if job.active == 0:
            return False
        send_to_repair(plan, job, stores, (cause, turn * 64, -1))
        job.active -= 1
        return True
    if stores.spot_D[unit] >= job.active:
        stores.bad_DL[unit * plan.lurking + row.lurks] += 1
        return False
    if row.scope == 1:
        _part_out(plan, job, stores, (cause, turn), unit)
    else:
        _unit_out(plan, job, stores, (cause, turn * 64), unit)
    return True


@part
def _hit_named(plan: JobPlan, job: JobState, stores: Stores, failure: tuple[int, int, int]) -> bool:
    """Remove a part, or whole units in order of position; return whether the job lost any."""
    cause, turn, position = failure
    row = plan.cause[cause]
    if job.struck < 0 and is_lemon(plan, stores, cause, stores.order_D[position]):
        return False
    if row.scope == 1:
        unit = stores.order_D[position]
        slot = int(uniform(job.key, stream(cause, PART), turn) * plan.parts)
        if slot < stores.down_D[unit]:
            return False
        spare = position >= job.active
        _part_out(plan, job, stores, (cause, turn), unit)
        return not spare
    up = job.active + plan.warm * job.idle
    gone = min(row.hits, up)
    wrapped = max(position + gone - up, 0)
    struck = False
    for i in range(gone):  # last position first, since a removal moves units behind it
        index = gone - 1 - i
        if i < gone - wrapped:
            index += position - wrapped
        struck = struck or index < job.active
        _unit_out(plan, job, stores, (cause, turn * 64 + i), stores.order_D[index])
    return struck


@part
def _part_out(
    plan: JobPlan, job: JobState, stores: Stores, failure: tuple[int, int], unit: int
) -> None:
    """Remove a part of a unit, and the unit where too few parts are left."""
    cause, turn = failure
    stores.down_D[unit] += 1
    send_to_repair(plan, job, stores, (cause, turn * 64, 2 * unit))
    if plan.parts - stores.down_D[unit] < plan.parts_needed:
        _out(plan, job, stores, unit)


@part
def _unit_out(
    plan: JobPlan, job: JobState, stores: Stores, failure: tuple[int, int], unit: int
) -> None:
    cause, index = failure
    stores.down_D[unit] += plan.parts
    send_to_repair(plan, job, stores, (cause, index, 2 * unit + 1))
    _out(plan, job, stores, unit)


@part
def swap(stores: Stores, number: int, two: int) -> None:
    """Exchange the units at two positions."""
    first, second = stores.order_D[number], stores.order_D[two]
    stores.order_D[number], stores.order_D[two] = second, first
    stores.spot_D[first], stores.spot_D[second] = two, number


@part
def _out(plan: JobPlan, job: JobState, stores: Stores, unit: int) -> None:
    """Move a unit of the job, or an idle one, to the failed units."""
    if plan.warm == 1 or stores.spot_D[unit] < job.active:
        power_down(plan, job, stores, unit)
    if stores.spot_D[unit] < job.active:
        job.active -= 1
        swap(stores, stores.spot_D[unit], job.active)
    else:
        job.idle -= 1
    swap(stores, stores.spot_D[unit], job.active + job.idle)


@part
def come_back(plan: JobPlan, job: JobState, stores: Stores, now: int) -> None:
    """Make all units repaired by now idle.

    Args:
        now: Current time [ticks].
    """
    while job.repairing > 0 and stores.return_G[0].time <= now:
        node = stores.return_G[0]
        item, mark = node.item, node.birth
        drop(stores.return_G, job.repairing)
        job.repairing -= 1
        if item < 0:
            job.idle += 1
            if mark >= 0.0:
                job.idle_bad += 1
                job.bad[int(mark)] += 1
        else:
            unit = item >> 1
            stores.down_D[unit] -= plan.parts if item & 1 else 1
            enough = plan.parts - stores.down_D[unit] >= plan.parts_needed
            if enough and stores.spot_D[unit] >= job.active + job.idle:
                swap(stores, stores.spot_D[unit], job.active + job.idle)
                job.idle += 1
                job.returned += 1
                stores.unit_D[unit].idle_since = job.returned
                if plan.warm == 1 and plan.members > 0:
                    power_up(plan, job, stores, unit)
                    find_next(plan, job, stores)
            if mark >= 0.0:
                job.repairing_bad -= 1
                lurks = unit * plan.lurking + plan.cause[int(mark)].lurks
                stores.bad_DL[lurks] += 1
                if stores.spot_D[unit] < job.active:
                    begin_relapses(plan, job, stores, unit)


@part
def fill_up(plan: JobPlan, job: JobState, stores: Stores) -> None:
    """Assign idle units to a job with missing units."""
    come_back(plan, job, stores, job.now)
    while job.active < plan.units and job.idle > 0:
        if plan.lurking > 0 or plan.named == 1:
            _join(plan, job, stores)
        else:
            job.idle -= 1
        job.active += 1
        job.took += 1


@part
def _join(plan: JobPlan, job: JobState, stores: Stores) -> None:
    """Assign an idle unit to the job; some still have the fault they were repaired for."""
    if plan.named == 1:
        swap(stores, chosen_spare(plan, job, stores), job.active)
        unit = stores.order_D[job.active]
        job.idle -= 1
        if plan.warm == 0 and plan.members > 0:
            power_up(plan, job, stores, unit)
            find_next(plan, job, stores)
        if plan.lurking > 0:
            begin_relapses(plan, job, stores, unit)
        return
    bad = _take_idle(plan, job, BAD_SPARE, job.took)
    if bad >= 0:
        _begin_relapse(plan, job, stores, (bad, job.took + 1, -1))


@part
def _take_idle(plan: JobPlan, job: JobState, drawn: int, index: int) -> int:
    """Take a random idle unit; return the cause of its remaining fault, -1 if none."""
    if job.idle_bad > 0:
        left = uniform(job.key, drawn, index) * job.idle
        for cause in range(plan.causes):
            left -= job.bad[cause]
            if left < 0.0:
                job.bad[cause] -= 1
                job.idle_bad -= 1
                job.idle -= 1
                return int(cause)
    job.idle -= 1
    return -1


@part
def begin_relapses(plan: JobPlan, job: JobState, stores: Stores, unit: int) -> None:
    """Schedule the relapses of a named unit that joined the job."""
    for cause in range(plan.causes):
        lurks = plan.cause[cause].lurks
        if lurks >= 0:
            index = unit * plan.lurking + lurks
            while stores.bad_DL[index] > 0 and job.full == 0:
                stores.bad_DL[index] -= 1
                job.relapses += 1
                _begin_relapse(plan, job, stores, (cause, job.relapses, unit))


@part
def _begin_relapse(
    plan: JobPlan, job: JobState, stores: Stores, again: tuple[int, int, int]
) -> None:
    """Schedule a relapse, given its cause, the number of the draw and the unit."""
    cause, index, unit = again
    law = plan.law[plan.repair[plan.cause[cause].repair].relapse]
    soon = age_at(law, stores.knots_2K, exponential(job.key, RELAPSE, index))
    item = cause + MAX_CAUSES
    await_failure(plan, job, stores, job.exposed + soon, (float(unit), item))
    find_next(plan, job, stores)


@part
def next_return(job: JobState, stores: Stores) -> int:
    """Return when the next repair ends [ticks]."""
    if job.repairing == 0:
        return NEVER
    return int(stores.return_G[0].time) + 1
