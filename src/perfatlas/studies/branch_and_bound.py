"""Branch and bound: candidates in the order of a bound, as long as one may be among the best.

Shape legend: N candidates, K objectives.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    FloatArray = NDArray[np.float64]
    IntArray = NDArray[np.int64]


def best_first(
    bounds: FloatArray, last: Callable[[], tuple[float, ...] | None], at_once: int
) -> Iterator[IntArray]:
    """Yield candidates in the order of their bounds, until none can be among the best.

    Args:
        bounds: Lower bounds of two objectives of which the smaller is better, the first one first
            (N, 2).
        last: Returns the objectives of the last of the best so far, None while there are too few.
        at_once: Largest number of candidates that are yielded together.

    Example:
        >>> import numpy as np
        >>> from perfatlas.studies.branch_and_bound import best_first
        >>> bounds = np.array([[3.0, 0.0], [1.0, 0.0], [2.0, 9.0], [2.0, 1.0]])
        >>> [some.tolist() for some in best_first(bounds, lambda: (2.0, 5.0), 2)]
        [[1, 3]]
    """
    order_N = np.lexsort(bounds.T[::-1])
    for start in range(0, order_N.size, at_once):
        some_N = order_N[start : start + at_once]
        worst = last()
        if worst is not None:
            first_N, second_N = bounds[some_N].T
            below_N = (first_N == worst[0]) & (second_N <= worst[1])
            some_N = some_N[(first_N < worst[0]) | below_N]
            if not some_N.size:
                return
        yield some_N
