"""Histories of failures for a cluster: drawn from what fails in a fleet, or given.

Shape legend: X failures, P parts.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.fleet.checks import check_fleet
from perfatlas.fleet.laws import mean_s, residual
from perfatlas.fleet.sampled import sample_s
from perfatlas.jobs.model import Failures, ticks
from perfatlas.jobs.outages import on_the_wall
from perfatlas.quantities import InvalidSpecError, UnsupportedError, counted

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfatlas.fleet.model import Cause, Fleet
    from perfatlas.jobs.model import Cluster

MOST_FAILURES: Final = 10_000_000


def draw_failures(fleet: Fleet, cluster: Cluster, *, horizon_s: float, seed: int = 0) -> Failures:
    """Return failures of the nodes of a cluster, drawn from the causes of a fleet.

    A unit of the fleet is a node. Causes that stop jobs and take whole units are drawn as renewals
    of their lifetime; each takes as many neighbouring nodes as its blast radius has. What sits in a
    node does not age and does not fail while the node is under repair. Lemons are parts drawn by
    chance, the same ones for every horizon. The failures of a longer horizon begin with those of a
    shorter one.

    Args:
        fleet: Units, causes and repairs.
        cluster: Its nodes.
        horizon_s: How long [s].
        seed: Of the draws.

    Raises:
        InvalidSpecError: A number of nodes that is not that of the units, or far too many failures.
        UnsupportedError: A cause this scheduler has no place for: slow or silent ones, parts of a
            unit.

    Limits: every repair takes the mean of the first stage that fixes surely; crews never run out.
        The clock of what takes several nodes stands still for its own repairs alone, and no clock
        knows of a drain, in which a repair begins when the jobs of the node have ended.
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
        places = cluster.nodes * cause.per_unit if cause.per_unit else cause.shared
        times_s, place_X = _renewals(cause, round(places), horizon_s, seed * 1_000 + number)
        width = min(cause.units, cluster.nodes)
        blocks = -(-cluster.nodes // width)
        node_X = place_X * blocks // max(round(places), 1) * width
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
    """Return why a schedule of many jobs has no place for a cause, "" where it has one.

    Args:
        cause: Of a fleet.
    """
    if cause.effect != "stops":
        return "its effect is not that jobs stop"
    return "it takes no whole node" if cause.takes != "unit" else ""


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
    lemons, factor = cause.lemons, 1.0
    lemon_P = np.zeros(max(places, 1), bool)
    if lemons is not None:
        order_P = np.random.default_rng(seed).permutation(lemon_P.shape[0])
        lemon_P[order_P[: round(places * lemons.share)]] = True
        factor = lemons.factor
    expected = (places + (factor - 1.0) * lemon_P.sum()) * horizon_s / mean_s(cause.lifetime)
    if expected > MOST_FAILURES:
        raise InvalidSpecError(
            f"cause {cause.name!r} fails about {expected:.2g} times in {horizon_s:g} s: at most"
            f" {MOST_FAILURES:,}"
        )
    law = residual(cause.lifetime) if cause.ages == "mixed" else cause.lifetime
    at_s = (sample_s(law, max(places, 1), seed=seed) / np.where(lemon_P, factor, 1.0))[:places]
    alive = np.arange(places)
    times, where, turn = [], [], 1
    while alive.size:
        inside = at_s < horizon_s
        at_s, alive = at_s[inside], alive[inside]
        times.append(at_s)
        where.append(alive)
        # of all parts, whoever is left: so a longer horizon begins with the same failures
        draws = sample_s(cause.lifetime, max(places, 1), seed=seed + 7_919 * turn)
        if lemons is not None and not (lemons.strikes and turn >= lemons.strikes):
            draws = draws / np.where(lemon_P, factor, 1.0)
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
