"""Histories of failures for a cluster: drawn from what fails in a fleet, or given.

Shape legend: X failures.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.fleet.checks import check_fleet
from perfatlas.fleet.laws import mean_s, residual
from perfatlas.fleet.sampled import sample_s
from perfatlas.jobs.model import Failures, ticks
from perfatlas.quantities import InvalidSpecError, UnsupportedError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfatlas.fleet.model import Cause, Fleet
    from perfatlas.jobs.model import Cluster

MOST_FAILURES: Final = 10_000_000


def draw_failures(fleet: Fleet, cluster: Cluster, *, horizon_s: float, seed: int = 0) -> Failures:
    """Return failures of the nodes of a cluster, drawn from the causes of a fleet.

    A unit of the fleet is a node. Causes that stop jobs and take whole units are drawn as renewals
    of their lifetime; each takes as many neighbouring nodes as its blast radius has. The failures
    of a longer horizon begin with those of a shorter one.

    Args:
        fleet: Units, causes and repairs.
        cluster: Its nodes.
        horizon_s: How long [s].
        seed: Of the draws.

    Raises:
        InvalidSpecError: A number of nodes that is not that of the units, or far too many failures.
        UnsupportedError: A cause this scheduler has no place for: slow or silent ones, parts of a
            unit, lemons.

    Limits: every repair takes the mean of the first stage that fixes surely; crews never run out,
        and a lifetime goes on while a node is out.
    """
    check_fleet(fleet)
    if fleet.units != cluster.nodes:
        raise InvalidSpecError(
            f"the fleet has {fleet.units} units, the cluster {cluster.nodes} nodes"
        )
    if not (math.isfinite(horizon_s) and horizon_s > 0.0):
        raise InvalidSpecError(f"horizon_s = {horizon_s:g}: expected a time above zero")
    rows: list[NDArray[np.int64]] = []
    for number, cause in enumerate(fleet.causes):
        _supported(cause)
        repair_s = _repair_s(fleet, cause)
        places = cluster.nodes * cause.per_unit if cause.per_unit else cause.shared
        times_s, place_X = _renewals(cause, round(places), horizon_s, seed * 1_000 + number)
        width = min(cause.units, cluster.nodes)
        blocks = -(-cluster.nodes // width)
        node_X = place_X * blocks // max(round(places), 1) * width
        width_X = np.minimum(width, cluster.nodes - node_X)
        repair_X = np.full(times_s.shape, int(ticks(repair_s)))
        rows.append(np.stack([ticks(times_s), node_X, repair_X, width_X], axis=1))
    table = np.concatenate(rows) if rows else np.zeros((0, 4), np.int64)
    table = table[np.lexsort((table[:, 1], table[:, 0]))]
    return Failures(
        time_X=table[:, 0], node_X=table[:, 1], repair_X=table[:, 2], width_X=table[:, 3]
    )


def no_place(cause: Cause) -> str:
    """Return why a schedule of many jobs has no place for a cause, "" where it has one.

    Args:
        cause: Of a fleet.
    """
    if cause.effect != "stops":
        return "its effect is not that jobs stop"
    if cause.takes != "unit":
        return "it takes no whole node"
    return "it has lemons" if cause.lemons is not None else ""


def _supported(cause: Cause) -> None:
    odd = no_place(cause)
    if odd:
        raise UnsupportedError(
            f"cause {cause.name!r} cannot befall a schedule: {odd}; leave it out, or simulate "
            "one job"
        )


def _renewals(
    cause: Cause, places: int, horizon_s: float, seed: int
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return times and places of the failures of a number of parts."""
    mean = mean_s(cause.lifetime)
    if places * horizon_s / mean > MOST_FAILURES:
        raise InvalidSpecError(
            f"cause {cause.name!r} fails about {places * horizon_s / mean:.2g} times in "
            f"{horizon_s:g} s: at most {MOST_FAILURES:,}"
        )
    law = residual(cause.lifetime) if cause.ages == "mixed" else cause.lifetime
    at_s, alive = sample_s(law, max(places, 1), seed=seed)[:places], np.arange(places)
    times, where, turn = [], [], 1
    while alive.size:
        inside = at_s < horizon_s
        at_s, alive = at_s[inside], alive[inside]
        times.append(at_s)
        where.append(alive)
        # of all parts, whoever is left: so a longer horizon begins with the same failures
        draws = sample_s(cause.lifetime, max(places, 1), seed=seed + 7_919 * turn)
        at_s = at_s + draws[alive]
        turn += 1
    if not times:
        return np.zeros(0), np.zeros(0, np.int64)
    return np.concatenate(times), np.concatenate(where)


def _repair_s(fleet: Fleet, cause: Cause) -> float:
    named = {repair.name: repair for repair in fleet.repairs}
    repair = named[cause.repair] if cause.repair else fleet.repairs[0]
    total = 0.0
    for stage in repair.stages:
        total += mean_s(stage.lasts)
        if stage.fixes >= 1.0:
            break
    return total
