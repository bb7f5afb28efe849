"""Data of charts reduced to what a page shows.

Shape legend: N values, P passes.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray


def shares_of_bins(values: Sequence[float], most: int) -> tuple[list[float], list[float]]:
    """Return the centres of bins and the share of the values in each.

    Args:
        values: The values (N,).
        most: Maximum number of bins; a few more than the square root of N otherwise.
    """
    counts, edges = np.histogram(values, bins=min(most, 5 + math.isqrt(len(values))))
    return ((edges[:-1] + edges[1:]) / 2.0).tolist(), (counts / len(values)).tolist()


def highest_points(
    x: NDArray[Any], y: NDArray[Any], most: int
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return at most some points of a curve, each the highest of its interval.

    Args:
        x: Positions, ascending (N,).
        y: Heights (N,).
        most: Maximum number of points.
    """
    if x.size <= most:
        return x, y
    starts = np.unique(np.linspace(0, x.size - 1, most).astype(np.int64))
    highest = np.maximum.reduceat(y, starts)
    highest[-1] = y[-1]
    return x[starts], highest


def first_and_last(
    passes: Mapping[str, NDArray[Any]], count: int
) -> tuple[dict[str, NDArray[Any]], dict[str, NDArray[Any]]]:
    """Return the first and the last passes of a step by their start.

    Args:
        passes: Columns of passes, of which `start_s` orders them (P,).
    """
    order = np.argsort(passes["start_s"], kind="stable")
    first, last = (
        {name: column[at] for name, column in passes.items()}
        for at in (order[:count], order[-count:])
    )
    return first, last
