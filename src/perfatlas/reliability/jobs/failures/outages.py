"""Conversion from service time, which pauses during outages, to wall-clock time.

Shape legend: X failures, W outages of several nodes, four values each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Float = NDArray[np.float64]


def on_the_wall(
    served_s_X: Float,
    node_X: NDArray[np.number],
    repair_s_X: Float,
    wide_W4: Float | None = None,
) -> Float:
    """Return the wall-clock times of failures drawn in service time [s] (X,).

    Args:
        served_s_X: Time in service of the node at each failure [s] (X,).
        node_X: The node (X,).
        repair_s_X: Repair time of each failure [s] (X,).
        wide_W4: Known outages of neighbouring nodes: wall-clock time [s], first node, repair [s]
            and number of nodes (W, 4).

    Example:
        >>> import numpy as np
        >>> from perfatlas.reliability.jobs.failures.outages import on_the_wall
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
    outages = _by_node(wide_W4)
    for rows in np.split(order_X, first_X[1:]):
        hit = outages.get(int(node_X[rows[0]]))
        if hit:
            wall_s_X[rows] = _among(served_s_X[rows].tolist(), repair_s_X[rows].tolist(), hit)
    return wall_s_X


def _by_node(wide_W4: Float) -> dict[int, list[tuple[float, float]]]:
    """Return start and end of the outages of each node, in time order."""
    found: dict[int, list[tuple[float, float]]] = {}
    for start_s, node, repair_s, width in wide_W4[np.argsort(wide_W4[:, 0])].tolist():
        for one in range(int(node), int(node + width)):
            found.setdefault(one, []).append((start_s, start_s + repair_s))
    return found


def _among(
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
