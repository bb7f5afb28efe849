"""Ranking of candidates under limits: those that meet all limits first, by an objective.

Shape legend: N candidates, G groups of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from perfatlas.compiled import compiled
from perfatlas.operators import unique_rows

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    AnyArray = np.ndarray[Any, Any]
    FloatArray = NDArray[np.float64]
    IntArray = NDArray[np.int64]
    BoolArray = NDArray[np.bool_]


def joined(parts: Sequence[Mapping[str, AnyArray]]) -> dict[str, AnyArray]:
    """Return candidates of several parts as one set of columns, empty without any part."""
    names = parts[0] if parts else ()
    return {name: np.concatenate([part[name] for part in parts]) for name in names}


def ranking_values(meets: BoolArray, score: FloatArray, excess: FloatArray) -> FloatArray:
    """Return the value that ranks candidates which meet all limits, or which miss one (N,).

    Args:
        meets: Whether candidates meet all limits (N,).
        score: Their objective, larger is better; NaN is the worst (N,).
        excess: Largest ratio of a result to its limit, which ranks those that miss one (N,).
    """
    value = np.where(meets, score, -excess)
    return np.where(np.isnan(value), -np.inf, value)


def rank_order(meets: BoolArray, value: FloatArray, *ties: FloatArray) -> IntArray:
    """Return candidates in the order of their rank, the best first (N,).

    Args:
        meets: Whether candidates meet all limits (N,).
        *ties: What ranks equal ones, the smaller first, each (N,).

    Example:
        >>> import numpy as np
        >>> from perfatlas.studies.ranking import rank_order
        >>> rank_order(np.array([False, True, True]), np.array([9.0, 1.0, 2.0])).tolist()
        [2, 1, 0]
    """
    order: IntArray = np.lexsort((*reversed(ties), -value, ~meets))
    return order


def first_distinct(order: IntArray, *identity: AnyArray) -> IntArray:
    """Return the first candidate of each distinct identity, in the given order.

    Args:
        order: Candidates.
        *identity: Numbers that are the same for candidates of one identity, each (N,).

    Example:
        >>> import numpy as np
        >>> from perfatlas.studies.ranking import first_distinct
        >>> first_distinct(np.array([2, 0, 1]), np.array([8, 4, 8])).tolist()
        [2, 1]
    """
    first, _ = unique_rows([each[order] for each in identity])
    return order[np.sort(first)]


def best_of_groups(
    group: IntArray, meets: BoolArray, value: FloatArray, tie: FloatArray | None = None
) -> IntArray:
    """Return the best candidate of each group, in ascending order (G,).

    Args:
        group: Group of each candidate, from 0 (N,).
        meets: Whether candidates meet all limits (N,).
        tie: What ranks equal ones, the smaller first; then the first is the best (N,).

    Example:
        >>> import numpy as np
        >>> from perfatlas.studies.ranking import best_of_groups
        >>> group, meets = np.array([0, 0, 1, 1]), np.array([True, False, True, True])
        >>> best_of_groups(group, meets, np.array([1.0, 2.0, 3.0, 4.0])).tolist()
        [0, 3]
    """
    best_G = np.full(int(group.max(initial=-1)) + 1, -1, np.int64)
    tie = np.zeros(group.size) if tie is None else tie
    _keep_best(np.ascontiguousarray(group), meets, value, np.ascontiguousarray(tie), best_G)
    return np.sort(best_G)


@compiled
def _keep_best(
    group_N: IntArray, meets_N: BoolArray, value_N: FloatArray, tie_N: FloatArray, best_G: IntArray
) -> None:
    """Write the best member of each group, of which all are -1 at first."""
    for index in range(group_N.shape[0]):
        group = group_N[index]
        best = best_G[group]
        if best < 0:
            best_G[group] = index
        elif meets_N[index] != meets_N[best]:
            if meets_N[index]:
                best_G[group] = index
        elif value_N[index] != value_N[best]:
            if value_N[index] > value_N[best]:
                best_G[group] = index
        elif tie_N[index] < tie_N[best]:
            best_G[group] = index
