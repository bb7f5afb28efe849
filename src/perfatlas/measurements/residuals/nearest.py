"""The nearest measured shapes, equal on all machines.

Measured shapes lie on grids, so that several are often equally far from a shape, and the last digit
of a logarithm, which differs between processors, would select among them.

Shape legend: U unique shapes, R measured rows, F coordinates, K neighbours.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from perfatlas.operators import FloatArray, IntArray

    Search = Callable[[FloatArray, int], tuple[FloatArray, IntArray]]

DIGITS: Final = 11  # decimals of a distance; rows that are equally far to these are a tie
TIED: Final = 8  # further rows looked at first, among which ties with the last one are found


def all_pairs(rows_RF: FloatArray) -> Search:
    """Return a search that compares shapes with all rows.

    Args:
        rows_RF: Coordinates of the rows (R, F).
    """
    return partial(_compare_all, rows_RF)


def search_tree(rows_RF: FloatArray) -> Search:
    """Return a search of a k-d tree, which takes longer to build than to compare few shapes.

    Args:
        rows_RF: Coordinates of the rows (R, F).
    """
    from scipy.spatial import cKDTree

    return partial(_search, cKDTree(rows_RF))


def nearest_rows(
    search: Search, query_UF: FloatArray, count: int, rows: int, *, tied: int = TIED
) -> tuple[FloatArray, IntArray]:
    """Return rounded distances and indices of the nearest rows (U, K), ties in order of the rows.

    Args:
        search: Returns distances and indices of so many rows, in any order of ties.
        query_UF: Coordinates of the shapes (U, F).
        count: Number of neighbours, at most `rows`.
        rows: Number of rows.
        tied: Further rows to look at for ties with the last neighbour.

    Example:
        >>> import numpy as np
        >>> from perfatlas.measurements.residuals.nearest import all_pairs, nearest_rows
        >>> rows = np.array([[3.0], [1.0 + 1e-15], [-1.0], [1.0]])
        >>> nearest_rows(all_pairs(rows), np.zeros((1, 1)), 2, 4)[1].tolist()
        [[1, 2]]
    """
    tried = min(count + tied, rows)
    distance_UK, index_UK = search(query_UF, tried)
    distance_UK = np.round(distance_UK, DIGITS)
    order_UK = np.lexsort((index_UK, distance_UK), axis=1)
    distance_UK = np.take_along_axis(distance_UK, order_UK, axis=1)
    index_UK = np.take_along_axis(index_UK, order_UK, axis=1)
    more_U = distance_UK[:, count - 1] == distance_UK[:, -1]
    found = distance_UK[:, :count].copy(), index_UK[:, :count].copy()
    if tried < rows and more_U.any():
        further = nearest_rows(search, query_UF[more_U], count, rows, tied=4 * tied)
        for all_UK, some_UK in zip(found, further, strict=True):
            all_UK[more_U] = some_UK
    return found


def _compare_all(
    rows_RF: FloatArray, query_UF: FloatArray, count: int
) -> tuple[FloatArray, IntArray]:
    """Return distances and indices of the nearest rows by comparing all pairs."""
    square_UR = (rows_RF**2).sum(axis=1) - 2.0 * (query_UF @ rows_RF.T)
    index_UK = np.argpartition(square_UR, count - 1, axis=1)[:, :count].astype(np.int64)
    distance_UK = np.sqrt(((rows_RF[index_UK] - query_UF[:, None, :]) ** 2).sum(axis=2))
    return distance_UK, index_UK


def _search(
    tree: Any,  # noqa: ANN401 - scipy carries no types
    query_UF: FloatArray,
    count: int,
) -> tuple[FloatArray, IntArray]:
    """Return distances and indices of the nearest rows from a search tree."""
    distance_UK, index_UK = tree.query(query_UF, k=list(range(1, count + 1)))
    return distance_UK, index_UK.astype(np.int64)
