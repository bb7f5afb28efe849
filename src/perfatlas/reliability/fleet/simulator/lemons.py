"""Lemons and spares: which units fail more often, and which spare takes over."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.compiled import inlined, part, uniform
from perfatlas.reliability.fleet.laws import FIRST, LAST_RETURNED, RANDOM
from perfatlas.reliability.fleet.simulator.random_streams import (
    BAD_SPARE,
    CHOSEN,
    COUNTED,
    LEMON,
    stream,
)

if TYPE_CHECKING:
    from perfatlas.reliability.fleet.laws import JobPlan, JobState, Stores


@part
def draw_lemons(plan: JobPlan, job: JobState, stores: Stores) -> None:
    """Choose the lemons of every cause at random among all units of the job and spares.

    Source: Floyd's algorithm for a random subset (Bentley and Floyd, CACM 30(9), 1987).
    """
    stores.lemon_Q[:] = 0
    stores.lemon_DK[:] = 0
    units = stores.order_D.shape[0]
    for cause in range(plan.causes):
        row = plan.cause[cause]
        if row.lemons == 0:
            continue
        if row.last_lemon < 1.0 and uniform(job.key, stream(cause, COUNTED), 0) >= row.last_lemon:
            stores.lemon_Q[row.first_lemon + row.lemons - 1] = -1
        if row.lemon_kind < 0:
            continue
        for lemon in range(row.lemons):
            last = units - row.lemons + lemon
            unit = int(uniform(job.key, stream(cause, CHOSEN), lemon) * (last + 1))
            if stores.lemon_DK[unit * plan.lemon_kinds + row.lemon_kind] == 1:
                unit = last
            stores.holder_Q[row.first_lemon + lemon] = unit
            stores.lemon_DK[unit * plan.lemon_kinds + row.lemon_kind] = 1
        if stores.lemon_Q[row.first_lemon + row.lemons - 1] < 0:
            unit = stores.holder_Q[row.first_lemon + row.lemons - 1]
            stores.lemon_DK[unit * plan.lemon_kinds + row.lemon_kind] = 0


@inlined
def is_lemon(plan: JobPlan, stores: Stores, cause: int, unit: int) -> bool:
    """Return whether a unit is a lemon of a cause, which fails in a stream of its own."""
    row = plan.cause[cause]
    if row.lemon_kind < 0 or row.lemons > 0:
        return False
    return bool(stores.lemon_DK[unit * plan.lemon_kinds + row.lemon_kind] == 1)


@part
def lemon_fails(plan: JobPlan, job: JobState, stores: Stores, cause: int, turn: int) -> bool:
    """Return whether a failure of a lemon counts: a retired one fails like a normal part."""
    row = plan.cause[cause]
    u = uniform(job.key, stream(cause, LEMON), turn) * row.lemons
    lemon = row.first_lemon + int(u)
    if stores.lemon_Q[lemon] < 0:
        return False  # this job has no lemon with this index
    retired = row.strikes > 0 and stores.lemon_Q[lemon] >= row.strikes
    if retired and u - int(u) >= row.normal_share:
        return False
    if row.lemon_kind >= 0:
        job.struck = stores.holder_Q[lemon]
        most = job.active
        if row.scope > 0:
            most += plan.warm * job.idle
        if stores.spot_D[job.struck] >= most:
            return False  # it is under repair, or a spare that does not fail
    stores.lemon_Q[lemon] += 1
    return True


@part
def chosen_spare(plan: JobPlan, job: JobState, stores: Stores) -> int:
    """Return the position of the idle unit that takes over."""
    first, last = job.active, job.active + job.idle
    if plan.spare_order == RANDOM:
        return int(first + int(uniform(job.key, BAD_SPARE, job.took) * job.idle))
    best = first
    for spot in range(first + 1, last):
        unit, other = stores.order_D[spot], stores.order_D[best]
        earlier = unit < other
        if plan.spare_order != FIRST:
            since, bests = stores.unit_D[unit].idle_since, stores.unit_D[other].idle_since
            if since != bests:
                earlier = (since < bests) != (plan.spare_order == LAST_RETURNED)
        if earlier:
            best = spot
    return int(best)
