"""Allocation of a job that is queued again: the scheduler places all of its units anew."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from perfatlas.compiled import part
from perfatlas.reliability.fleet.simulator.failure_streams import find_next
from perfatlas.reliability.fleet.simulator.pool import begin_relapses, swap
from perfatlas.reliability.fleet.simulator.unit_clocks import power_down, power_up

if TYPE_CHECKING:
    from perfatlas.reliability.fleet.laws import Stores


@part
def allocate_anew(plan: Any, job: Any, stores: Stores) -> None:  # noqa: ANN401
    """Exchange units until the job runs on the usable ones with the lowest numbers.

    Args:
        plan: The plan.
        job: A complete job that restarts.
        stores: Its tables and heaps.
    """
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
