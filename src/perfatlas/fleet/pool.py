"""Units of the job, idle spares and units under repair.

A unit is what the job loses and gets as a whole: a node, or a rack of trays of which some may be
down. `order_D` lists units: the job's, then idle ones, then those that are out.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.fleet.draws import exponential, uniform
from perfatlas.fleet.hazards import LONGEST, age_at
from perfatlas.fleet.heap import drop, push
from perfatlas.fleet.machine import part
from perfatlas.fleet.state import MOST_CAUSES, NEVER
from perfatlas.fleet.streams import (
    BAD_SPARE,
    FIXED,
    PART,
    POSITION,
    RELAPSE,
    REPAIRED,
    await_failure,
    find_next,
    stream,
)

if TYPE_CHECKING:
    from perfatlas.fleet.state import Stores

MOST_REPEATS: Final = 1024  # of a stage that are drawn one by one
REPEATS_FROM: Final = 2**60  # places of their random numbers, beyond those of the stages


@part
def hit(plan: Any, job: Any, stores: Stores, cause: int, turn: int) -> bool:  # noqa: ANN401
    """Return whether a failure hits the running job, and take out what it breaks.

    Args:
        plan: The plan.
        job: The job.
        stores: Its tables and heaps.
        cause: Of the failure.
        turn: How many failures of this cause there were before.
    """
    row = plan.cause[cause]
    if row.scope == 0 or plan.spares < 0:
        return True
    come_back(plan, job, stores, job.now)
    position = 0
    if plan.warm == 1 or plan.parts > 1 or job.active < plan.units:
        position = int(uniform(job.key, stream(cause, POSITION), turn) * plan.powered)
        if position >= job.active + plan.warm * job.idle:
            return False  # a unit that is out
    spare = position >= job.active
    if plan.parts > 1:
        return _hit_named(plan, job, stores, (cause, turn, position)) and not spare
    gone = min(row.hits, job.idle if spare else job.active)
    for i in range(gone):
        send_to_repair(plan, job, stores, (cause, turn * 64 + i, -1))
    if spare:
        job.idle -= gone
        job.idle_bad = min(job.idle_bad, job.idle)
    else:
        job.active -= gone
    return not spare


@part
def _hit_named(
    plan: Any,  # noqa: ANN401
    job: Any,  # noqa: ANN401
    stores: Stores,
    failure: tuple[int, int, int],
) -> bool:
    """Take out a part or whole units in order of place; return whether anything was up."""
    cause, turn, position = failure
    row = plan.cause[cause]
    if row.scope == 1:
        unit = stores.order_D[position]
        slot = int(uniform(job.key, stream(cause, PART), turn) * plan.parts)
        if slot < stores.down_D[unit]:
            return False
        stores.down_D[unit] += 1
        send_to_repair(plan, job, stores, (cause, turn * 64, 2 * unit))
        if plan.parts - stores.down_D[unit] < plan.parts_needed:
            _out(job, stores, unit)
        return True
    for i in range(row.hits):
        place = position if position < job.active + job.idle else job.active - 1
        if place < 0:
            break
        unit = stores.order_D[place]
        stores.down_D[unit] += plan.parts
        send_to_repair(plan, job, stores, (cause, turn * 64 + i, 2 * unit + 1))
        _out(job, stores, unit)
    return True


@part
def _swap(stores: Stores, one: int, two: int) -> None:
    first, second = stores.order_D[one], stores.order_D[two]
    stores.order_D[one], stores.order_D[two] = second, first
    stores.spot_D[first], stores.spot_D[second] = two, one


@part
def _out(job: Any, stores: Stores, unit: int) -> None:  # noqa: ANN401
    """Move a unit of the job, or an idle one, behind the idle ones."""
    if stores.spot_D[unit] < job.active:
        job.active -= 1
        _swap(stores, stores.spot_D[unit], job.active)
    else:
        job.idle -= 1
    _swap(stores, stores.spot_D[unit], job.active + job.idle)


@part
def send_to_repair(
    plan: Any,  # noqa: ANN401
    job: Any,  # noqa: ANN401
    stores: Stores,
    failure: tuple[int, int, int],
) -> None:
    """Start a repair: stages until one fixes, or seems to; it waits for a crew.

    Args:
        plan: The plan.
        job: The job.
        stores: Its tables and heaps.
        failure: Cause, number of the draw, and what comes back: twice the unit, one more where it
            is whole; -1 where units have no names.
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
        job.crew_free[crew] = min(begins + ticks, LONGEST)
    if job.repairing >= stores.return_G.shape[0]:
        job.full = 1
        return
    mark = -1.0
    if bad:
        mark = float(cause)
    push(stores.return_G, job.repairing, min(begins + ticks, LONGEST), mark, item)
    job.repairing += 1


@part
def _repair(
    plan: Any,  # noqa: ANN401
    job: Any,  # noqa: ANN401
    stores: Stores,
    cause: int,
    turn: int,
) -> tuple[float, bool]:
    """Return how long a repair takes [ticks], and whether it only seems to have fixed.

    The last stage is repeated until something comes of it: a geometric number of times, of which
    more than `MOST_REPEATS` take as long, on average, as so many.
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
    drawn = int(min(repeats, MOST_REPEATS))
    again = 0.0
    for repeat in range(drawn):
        place = REPEATS_FROM + turn * MOST_REPEATS + repeat
        draw = exponential(job.key, stream(cause, REPAIRED), place)
        again += age_at(plan.law[row.law], stores.knots_2K, draw)
    u = uniform(job.key, stream(cause, FIXED), turn * 64 + repair.stages + 1)
    return ticks + again * (repeats / drawn), u * helps >= row.fixed


@part
def come_back(plan: Any, job: Any, stores: Stores, now: int) -> None:  # noqa: ANN401
    """Let everything repaired by now be idle.

    Args:
        plan: The plan.
        job: The job.
        stores: Its tables and heaps.
        now: Present [ticks].
    """
    while job.repairing > 0 and stores.return_G[0].time <= now:
        node = stores.return_G[0]
        item, mark = node.item, node.birth
        drop(stores.return_G, job.repairing)
        job.repairing -= 1
        if item < 0:
            job.idle += 1
        else:
            unit = item >> 1
            stores.down_D[unit] -= plan.parts if item & 1 else 1
            enough = plan.parts - stores.down_D[unit] >= plan.parts_needed
            if enough and stores.spot_D[unit] >= job.active + job.idle:
                _swap(stores, stores.spot_D[unit], job.active + job.idle)
                job.idle += 1
        if mark >= 0.0:
            job.idle_bad = min(job.idle_bad + 1, job.idle)
            job.bad_cause = int(mark)


@part
def fill_up(plan: Any, job: Any, stores: Stores) -> None:  # noqa: ANN401
    """Give idle units to a job that lacks some.

    Args:
        plan: The plan.
        job: The job.
        stores: Its tables and heaps.
    """
    come_back(plan, job, stores, job.now)
    while job.active < plan.units and job.idle > 0:
        bad = False
        if job.idle_bad > 0:
            bad = uniform(job.key, BAD_SPARE, job.took) * job.idle < job.idle_bad
        job.idle -= 1
        job.active += 1
        job.took += 1
        if bad:
            job.idle_bad -= 1
            law = plan.law[plan.repair[plan.cause[job.bad_cause].repair].relapse]
            soon = age_at(law, stores.knots_2K, exponential(job.key, RELAPSE, job.took))
            item = job.bad_cause + MOST_CAUSES
            await_failure(plan, job, stores, job.exposed + soon, (-1.0, item))
            find_next(plan, job, stores)


@part
def next_return(job: Any, stores: Stores) -> int:  # noqa: ANN401
    """Return when the next repair ends [ticks].

    Args:
        job: The job.
        stores: Its heaps.
    """
    if job.repairing == 0:
        return NEVER
    return int(stores.return_G[0].time) + 1
