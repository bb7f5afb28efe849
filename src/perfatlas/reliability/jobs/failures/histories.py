"""Failure histories of a cluster, drawn from the causes of a fleet.

Shape legend: X failures, P parts, B blocks: nodes, or groups of nodes that fail together, W outages
of several nodes, four values each.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.quantities import InvalidSpecError, UnsupportedError, counted, two_digits
from perfatlas.reliability.fleet.laws import Exponential, mean_s, residual, sample_s
from perfatlas.reliability.fleet.model import check_fleet
from perfatlas.reliability.jobs.model import Failures, ticks

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from perfatlas.reliability.fleet.laws import Law
    from perfatlas.reliability.fleet.model import Cause, Fleet, Lemons
    from perfatlas.reliability.jobs.model import Cluster

    Float = NDArray[np.float64]
    Ints = NDArray[np.int64]


def on_the_wall(
    served_s_X: Float,
    node_X: NDArray[np.number],
    repair_s_X: Float,
    wide_W4: Float | None = None,
) -> Float:
    """Return the wall-clock times of failures drawn in service time [s] (X,).

    Args:
        wide_W4: Known outages of neighbouring nodes: wall-clock time [s], first node, repair [s]
            and number of nodes (W, 4).

    Example:
        >>> import numpy as np
        >>> from perfatlas.reliability.jobs.failures.histories import on_the_wall
        >>> on_the_wall(np.array([5.0, 1.0]), np.array([0, 0]), np.array([10.0, 10.0])).tolist()
        [15.0, 1.0]
    """
    wall_s_X = np.asarray(served_s_X, np.float64).copy()
    if not wall_s_X.size:
        return wall_s_X
    order_X = np.lexsort((served_s_X, node_X))
    first_X = np.flatnonzero(np.diff(node_X[order_X], prepend=-1))
    before_s_X = np.cumsum(repair_s_X[order_X]) - repair_s_X[order_X]
    counts = np.diff(first_X, append=order_X.size)
    wall_s_X[order_X] += before_s_X - np.repeat(before_s_X[first_X], counts)
    if wide_W4 is None or not wide_W4.size:
        return wall_s_X
    # start and end of the outages of each node, in time order
    outages: dict[int, list[tuple[float, float]]] = {}
    for begun_s, node, repair_s, width in wide_W4[np.argsort(wide_W4[:, 0])].tolist():
        for index in range(int(node), int(node + width)):
            outages.setdefault(index, []).append((begun_s, begun_s + repair_s))
    for rows in np.split(order_X, first_X[1:]):
        hit = outages.get(int(node_X[rows[0]]))
        if hit:
            wall_s_X[rows] = _wall_s(served_s_X[rows].tolist(), repair_s_X[rows].tolist(), hit)
    return wall_s_X


def _wall_s(
    served_s: Sequence[float], repair_s: Sequence[float], outages: Sequence[tuple[float, float]]
) -> list[float]:
    """Return the wall-clock failure times of one node, including outages shared with others."""
    wall_s, at = [], 0
    out_s = back_s = 0.0  # time out of service so far, and time of the last return
    for served, repair in zip(served_s, repair_s, strict=True):
        while at < len(outages) and outages[at][0] <= served + out_s:
            start_s, end_s = outages[at]
            out_s += max(end_s - max(start_s, back_s), 0.0)
            back_s = max(back_s, end_s)
            at += 1
        wall_s.append(served + out_s)
        back_s = wall_s[-1] + repair
        out_s += repair
    return wall_s


MAX_FAILURES: Final = 10_000_000
EXACT: Final = 1e-9  # relative rounding error of a number of parts
LEMONS: Final = 104_729  # separate from the seeds of lifetimes


def failure_times(
    cause: Cause, parts: float, blocks: int, horizon_s: float, *, seed: int
) -> tuple[Float, Ints]:
    """Return the failure times of parts [s] (X,) and their blocks (X,), unsorted.

    A fractional part has that fraction of the failure rate. Lemons are whole blocks whose parts
    share its rate; they are drawn at random, the same ones for every horizon. Where their share is
    not a whole number of blocks, one more block is a partial lemon: its rate is raised by that
    fraction.
    """
    if abs(parts - round(parts)) <= EXACT * max(parts, 1.0):
        parts = float(round(parts))
    whole = max(math.ceil(parts), 1)
    weight_P = np.minimum(parts - np.arange(whole), 1.0)
    at_P = np.arange(whole) * blocks / parts
    block_P = np.minimum((at_P + EXACT).astype(np.int64), blocks - 1)
    extra = cause.lemons.share * (cause.lemons.factor - 1.0) if cause.lemons else 0.0
    expected = whole * (1.0 + extra) * horizon_s / mean_s(cause.lifetime)
    if expected > MAX_FAILURES:
        raise InvalidSpecError(
            f"cause {cause.name!r} fails about {two_digits(expected)} times in {horizon_s:g} s:"
            f" expected at most {MAX_FAILURES:,}"
        )
    first = residual(cause.lifetime) if cause.ages == "mixed" else cause.lifetime
    times, where = [np.zeros(0)], [np.zeros(0, np.int64)]
    for turn, at_s, alive in _turns((first, cause.lifetime), np.ones(whole), horizon_s, seed):
        selected = np.ones(alive.size, bool)
        if alive.size and alive[-1] == whole - 1 and weight_P[-1] < 1.0:
            selected[-1] = np.random.default_rng((seed, turn)).random() < weight_P[-1]
        times.append(at_s[selected])
        where.append(block_P[alive[selected]])
    time_s_X, block_X = np.concatenate(times), np.concatenate(where)
    if cause.lemons is None:
        return time_s_X, block_X
    size_B = np.bincount(block_P, weight_P, minlength=blocks).astype(np.float64)
    rate_B = lemon_parts(size_B, cause.lemons, seed) / mean_s(cause.lifetime)
    return _with_lemons((time_s_X, block_X), rate_B, cause.lemons.strikes, (horizon_s, seed))


def lemon_parts(size_B: Float, lemons: Lemons, seed: int) -> Float:
    """Return the extra failure rate of each block in units of one normal part (B,).

    Example:
        >>> import numpy as np
        >>> from perfatlas.reliability.fleet.model import Lemons
        >>> from perfatlas.reliability.jobs.failures.histories import lemon_parts
        >>> found = lemon_parts(np.full(10, 8.0), Lemons(share=0.25, factor=3.0), 0)
        >>> sorted(found.tolist(), reverse=True)[:4]
        [16.0, 16.0, 8.0, 0.0]
    """
    order_B = np.random.default_rng(seed).permutation(size_B.size)
    before_B = np.cumsum(size_B[order_B]) - size_B[order_B]
    bad_B = np.zeros(size_B.size)
    bad_B[order_B] = np.clip(lemons.share * size_B.sum() - before_B, 0.0, size_B[order_B])
    bad_B[bad_B < EXACT * size_B.sum()] = 0.0
    return bad_B * (lemons.factor - 1.0)


def _turns(
    laws: tuple[Law, Law], scale_P: Float, horizon_s: float, seed: int
) -> Iterator[tuple[int, Float, Ints]]:
    """Yield the next failures of all parts within the horizon: round, time [s], part."""
    alive, turn = np.arange(scale_P.size), 0
    at_s_P = sample_s(laws[0], scale_P.size, seed=seed) * scale_P
    while True:
        inside = at_s_P < horizon_s
        at_s_P, alive = at_s_P[inside], alive[inside]
        if not alive.size:
            return
        yield turn, at_s_P, alive
        turn += 1
        # drawn for all parts, so that a longer horizon starts with the same failures
        draws = sample_s(laws[1], scale_P.size, seed=seed + 7_919 * turn) * scale_P
        at_s_P = at_s_P + draws[alive]


def _with_lemons(
    drawn: tuple[Float, Ints], rate_B: Float, strikes: int, until: tuple[float, int]
) -> tuple[Float, Ints]:
    """Return failures including the extra ones of lemons, until they are retired.

    As lifetimes are memoryless, a lemon is a normal block plus a stream at the extra rate.
    """
    bad = np.flatnonzero(rate_B)
    if not bad.size:
        return drawn
    law, (horizon_s, seed) = Exponential(mean_s=1.0), until
    times, where = [drawn[0]], [drawn[1]]
    for _, at_s, alive in _turns((law, law), 1.0 / rate_B[bad], horizon_s, seed + LEMONS):
        times.append(at_s)
        where.append(bad[alive])
    time_s_X, block_X = np.concatenate(times), np.concatenate(where)
    if not strikes:
        return time_s_X, block_X
    more_X = np.arange(time_s_X.size) >= drawn[0].size
    order_X = np.lexsort((time_s_X, block_X))
    sorted_X = block_X[order_X]
    begins_X = np.searchsorted(sorted_X, sorted_X)  # of the block in that order
    late_X = np.zeros(time_s_X.size, bool)
    late_X[order_X] = np.arange(sorted_X.size) - begins_X >= strikes
    drawn_X = ~(more_X & late_X)
    return time_s_X[drawn_X], block_X[drawn_X]


def draw_failures(fleet: Fleet, cluster: Cluster, *, horizon_s: float, seed: int = 0) -> Failures:
    """Return failures of the nodes of a cluster, drawn from the causes of a fleet.

    A unit of the fleet is a node. Causes that stop jobs and take whole units are drawn as renewal
    processes of their lifetime; each takes down as many neighbouring nodes as its blast radius.
    Parts of a node neither age nor fail while the node is under repair. A fractional part has that
    fraction of the failure rate. Lemons are whole nodes drawn at random for each cause, the same
    ones for every horizon. The failures of a longer horizon start with those of a shorter one.

    Args:
        horizon_s: How long [s].

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
        if odd := unsupported(cause):
            raise UnsupportedError(
                f"cause {cause.name!r} is not supported by fleet schedule: {odd}; remove it, or"
                " simulate one job with goodput"
            )
        # mean time to the end of the first stage that always fixes [s]
        named = {repair.name: repair for repair in fleet.repairs}
        repair = named[cause.repair] if cause.repair else fleet.repairs[0]
        repair_s = 0.0
        for stage in repair.stages:
            repair_s += mean_s(stage.lasts)
            if stage.fixes >= 1.0:
                break
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


def unsupported(cause: Cause) -> str:
    """Return why a schedule of many jobs does not support a cause, "" where it does."""
    if cause.effect != "stops":
        return "its effect is not to stop jobs"
    return "it does not take whole nodes" if cause.takes != "unit" else ""
