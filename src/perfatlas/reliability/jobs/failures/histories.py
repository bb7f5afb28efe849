"""Failure histories of a cluster, drawn from the causes of a fleet.

Shape legend: X failures.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from perfatlas.quantities import InvalidSpecError, UnsupportedError, counted
from perfatlas.reliability.fleet.laws import mean_s
from perfatlas.reliability.fleet.model import check_fleet
from perfatlas.reliability.jobs.failures.failure_draws import failure_times
from perfatlas.reliability.jobs.failures.outages import on_the_wall
from perfatlas.reliability.jobs.model import Failures, ticks

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfatlas.reliability.fleet.model import Cause, Fleet
    from perfatlas.reliability.jobs.model import Cluster


def draw_failures(fleet: Fleet, cluster: Cluster, *, horizon_s: float, seed: int = 0) -> Failures:
    """Return failures of the nodes of a cluster, drawn from the causes of a fleet.

    A unit of the fleet is a node. Causes that stop jobs and take whole units are drawn as renewal
    processes of their lifetime; each takes down as many neighbouring nodes as its blast radius.
    Parts of a node neither age nor fail while the node is under repair. A fractional part has that
    fraction of the failure rate. Lemons are whole nodes drawn at random for each cause, the same
    ones for every horizon. The failures of a longer horizon start with those of a shorter one.

    Args:
        fleet: The fleet: units, causes and repairs.
        cluster: The cluster.
        horizon_s: How long [s].
        seed: Random seed.

    Raises:
        InvalidSpecError: The numbers of nodes and units differ, or there are too many failures.
        UnsupportedError: A cause that the scheduler does not support: slowdowns, silent errors,
            parts of a unit.

    Limits: every repair takes the mean of the first stage that always fixes; unlimited repair
        capacity. The clock of a cause that takes several nodes pauses only for its own repairs, and
        no clock pauses for a drain, in which the repair starts when the jobs of the node have
        ended.
    """
    check_fleet(fleet)
    if fleet.units != cluster.nodes:
        raise InvalidSpecError(
            f"the fleet has {counted(fleet.units, 'unit')}, the cluster"
            f" {counted(cluster.nodes, 'node')}"
        )
    if not (math.isfinite(horizon_s) and horizon_s > 0.0):
        raise InvalidSpecError(f"horizon_s = {horizon_s:g}: expected a time above zero")
    rows: list[NDArray[np.float64]] = []
    for number, cause in enumerate(fleet.causes):
        _supported(cause)
        repair_s = _repair_s(fleet, cause)
        parts = cluster.nodes * cause.per_unit if cause.per_unit else cause.shared
        width = min(cause.units, cluster.nodes)
        blocks = -(-cluster.nodes // width)
        times_s, block_X = failure_times(
            cause, parts, blocks, horizon_s, seed=seed * 1_000 + number
        )
        node_X = block_X * width
        width_X = np.minimum(width, cluster.nodes - node_X)
        repair_X = np.full(times_s.shape, repair_s)
        drawn = np.stack([times_s, node_X, repair_X, width_X], axis=1)
        if width > 1:
            drawn[:, 0] = on_the_wall(times_s, node_X, repair_X)
        rows.append(drawn)
    table = np.concatenate(rows) if rows else np.zeros((0, 4))
    wide_X = table[:, 3] > 1.0
    single = table[~wide_X]
    single[:, 0] = on_the_wall(single[:, 0], single[:, 1], single[:, 2], table[wide_X])
    table = np.concatenate([table[wide_X], single])
    table = table[table[:, 0] < horizon_s]
    time_X, node_X = ticks(table[:, 0]), table[:, 1].astype(np.int64)
    order_X = np.lexsort((node_X, time_X))
    return Failures(
        time_X=time_X[order_X],
        node_X=node_X[order_X],
        repair_X=ticks(table[order_X, 2]),
        width_X=table[order_X, 3].astype(np.int64),
    )


def no_place(cause: Cause) -> str:
    """Return why a schedule of many jobs does not support a cause, "" where it does.

    Args:
        cause: Cause of a fleet.
    """
    if cause.effect != "stops":
        return "its effect is not to stop jobs"
    return "it does not take whole nodes" if cause.takes != "unit" else ""


def _supported(cause: Cause) -> None:
    odd = no_place(cause)
    if odd:
        raise UnsupportedError(
            f"cause {cause.name!r} is not supported by fleet schedule: {odd}; remove it, or"
            " simulate one job with goodput"
        )


def _repair_s(fleet: Fleet, cause: Cause) -> float:
    named = {repair.name: repair for repair in fleet.repairs}
    repair = named[cause.repair] if cause.repair else fleet.repairs[0]
    total = 0.0
    for stage in repair.stages:
        total += mean_s(stage.lasts)
        if stage.fixes >= 1.0:
            break
    return total
