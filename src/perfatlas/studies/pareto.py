"""Pareto sets of two objectives.

Shape legend: N points, P points of the set.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def pareto_points(first: NDArray[np.float64], second: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the points that no other point exceeds in both objectives, by descending `first`.

    Of equal points, the one given first is kept. Points with NaN never belong to the set.

    Args:
        first: An objective to maximize (N,).
        second: Another one (N,).

    Returns:
        Positions (P,).

    Example:
        >>> import numpy as np
        >>> from perfatlas.studies import pareto_points
        >>> pareto_points(np.array([1.0, 3.0, 2.0, 2.0]), np.array([9.0, 1.0, 5.0, 4.0])).tolist()
        [1, 2, 0]
    """
    known = np.flatnonzero(np.isfinite(first) & np.isfinite(second))
    order = known[np.lexsort((known, -second[known], -first[known]))]
    before = np.maximum.accumulate(np.concatenate([[-np.inf], second[order]]))[:-1]
    found: NDArray[np.int64] = order[second[order] > before]
    return found
