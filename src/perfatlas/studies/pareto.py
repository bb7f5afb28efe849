"""Pareto sets of two or more objectives.

Shape legend: K objectives, N points, P points of the set, A kept points.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.compiled import compiled

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    FloatArray = NDArray[np.float64]
    IntArray = NDArray[np.int64]

PAIR: Final = 2
COMPARED_PAIRWISE: Final = 128  # points that are all compared with one another


def pareto_points(*objectives: FloatArray | Sequence[float]) -> IntArray:
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
    whole_NK = np.column_stack([np.asarray(each, np.float64) for each in objectives])
    finite = np.flatnonzero(np.isfinite(whole_NK).all(axis=1))
    values_NK = whole_NK[finite]
    keys = (finite, *(-values_NK[:, index] for index in reversed(range(len(objectives)))))
    order = np.lexsort(keys)
    if len(objectives) == PAIR:
        second_N = values_NK[order, 1]
        before_N = np.maximum.accumulate(np.concatenate([[-np.inf], second_N]))[:-1]
        front: IntArray = finite[order[second_N > before_N]]
        return front
    return finite[order[_kept(values_NK[order])]]


def _kept(values_NK: FloatArray) -> NDArray[np.bool_]:
    """Return which points no other one exceeds (N,); of equal points the first."""
    kept_N = np.zeros(values_NK.shape[0], np.bool_)
    if kept_N.size > COMPARED_PAIRWISE:
        _mark(np.ascontiguousarray(values_NK), np.empty(kept_N.size, np.int64), kept_N)
        return kept_N
    reached_NN = np.all(values_NK[None, :, :] >= values_NK[:, None, :], axis=2)
    earlier_NN = np.tril(reached_NN, -1)
    return np.array(~earlier_NN.any(axis=1), np.bool_)


@compiled
def _mark(values_NK: FloatArray, known_A: IntArray, kept_N: NDArray[np.bool_]) -> None:
    """Mark the points that no earlier one reaches in every objective."""
    size, width = 0, values_NK.shape[1]
    for point in range(values_NK.shape[0]):
        reached = False
        for index in range(size):
            other, column = known_A[index], 0
            while column < width and values_NK[other, column] >= values_NK[point, column]:
                column += 1
            if column == width:
                known_A[index], known_A[0] = known_A[0], other
                reached = True
                break
        if not reached:
            kept_N[point] = True
            known_A[size] = point
            size += 1
