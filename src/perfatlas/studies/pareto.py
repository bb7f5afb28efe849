"""Pareto sets of two or three objectives.

Shape legend: K objectives, N points, P points of the set, B points of a block, A kept points.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    FloatArray = NDArray[np.float64]
    IntArray = NDArray[np.int64]

PAIR: Final = 2
BLOCK: Final = 256  # points that are compared with one another


def pareto_points(*objectives: FloatArray) -> IntArray:
    """Return the points that no other point exceeds in every objective, by descending first one.

    A point is left out if another one is as good in every objective and better in one. Of equal
    points, the one given first is kept. Points with NaN never belong to the set.

    Args:
        *objectives: Two or more objectives to maximize, each (N,).

    Returns:
        Positions (P,).

    Example:
        >>> import numpy as np
        >>> from perfatlas.studies import pareto_points
        >>> pareto_points(np.array([1.0, 3.0, 2.0, 2.0]), np.array([9.0, 1.0, 5.0, 4.0])).tolist()
        [1, 2, 0]
    """
    known = np.flatnonzero(np.logical_and.reduce([np.isfinite(each) for each in objectives]))
    values_NK = np.column_stack([each[known] for each in objectives])
    keys = (known, *(-values_NK[:, place] for place in reversed(range(len(objectives)))))
    order = np.lexsort(keys)
    if len(objectives) == PAIR:
        second_N = values_NK[order, 1]
        before_N = np.maximum.accumulate(np.concatenate([[-np.inf], second_N]))[:-1]
        found: IntArray = known[order[second_N > before_N]]
        return found
    return known[order[_kept(values_NK[order])]]


def _kept(values_NK: FloatArray) -> NDArray[np.bool_]:
    """Return which points no other one exceeds (N,); of equal points the first.

    Points are visited in descending order of the sum of their ranks, so that none exceeds an
    earlier one, and those that exceed most others come first.
    """
    ranks_NK = np.column_stack([np.unique(each, return_inverse=True)[1] for each in values_NK.T])
    order = np.argsort(-ranks_NK.sum(axis=1), kind="stable")
    kept_N = np.zeros(order.size, np.bool_)
    known_AK = np.empty((0, ranks_NK.shape[1]), ranks_NK.dtype)
    for first in range(0, order.size, BLOCK):
        places = order[first : first + BLOCK]
        places = places[~_exceeded(ranks_NK[places], known_AK)]
        block_BK = ranks_NK[places]
        reached_BB = np.all(block_BK[None, :, :] >= block_BK[:, None, :], axis=2)
        places = places[~np.tril(reached_BB, -1).any(axis=1)]
        kept_N[places] = True
        known_AK = np.concatenate([known_AK, ranks_NK[places]])
    return kept_N


def _exceeded(block_BK: IntArray, known_AK: IntArray) -> NDArray[np.bool_]:
    """Return which points are reached in every objective by a point that is kept (B,)."""
    reached_AB: NDArray[np.bool_] = np.ones((known_AK.shape[0], block_BK.shape[0]), np.bool_)
    for known_A, block_B in zip(known_AK.T, block_BK.T, strict=True):
        np.logical_and(reached_AB, known_A[:, None] >= block_B[None, :], out=reached_AB)
    return np.array(reached_AB.any(axis=0), np.bool_)
