"""Duration of repairs, and whether they fix the fault or are false fixes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.compiled import exponential, part, push, uniform
from perfatlas.reliability.fleet.laws import LONGEST, age_at
from perfatlas.reliability.fleet.simulator.random_streams import FIXED, REPAIRED, stream

if TYPE_CHECKING:
    from perfatlas.reliability.fleet.laws import Stores

MOST_REPEATS: Final = 1024  # repeats of a stage that are drawn one by one
REPEATS_FROM: Final = 2**60  # counters of their random numbers, beyond those of the stages


@part
def send_to_repair(
    plan: Any,  # noqa: ANN401
    job: Any,  # noqa: ANN401
    stores: Stores,
    failure: tuple[int, int, int],
) -> None:
    """Start a repair: stages until a fix or false fix; it waits for a crew.

    Args:
        plan: The plan.
        job: The job.
        stores: Its tables and heaps.
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
        job.crew_free[crew] = min(begins + ticks, LONGEST)
    if job.repairing >= stores.return_G.shape[0]:
        job.full = 1
        return
    mark = -1.0
    if bad:
        mark = float(cause)
        job.repairing_bad += item >= 0
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
    """Return the duration of a repair [ticks], and whether it is a false fix.

    The last stage is repeated until a fix or false fix: a geometric number of times, of which those
    beyond `MOST_REPEATS` take their mean duration.
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
