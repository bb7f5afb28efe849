"""Which interval of a thread encloses a moment most closely."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    IntArray = NDArray[np.int64]


def innermost(start_K: IntArray, end_K: IntArray, moment_L: IntArray) -> IntArray:
    """Return the index of the innermost interval around each moment, -1 without one.

    Example:
        >>> import numpy as np
        >>> from perfatlas.profiles.formats.nesting import innermost
        >>> starts, ends = np.array([0, 10]), np.array([90, 20])
        >>> innermost(starts, ends, np.array([15, 50, 95])).tolist()
        [1, 0, -1]
    """
    order = np.lexsort((-end_K, start_K))
    sorted_start, sorted_end = start_K[order].tolist(), end_K[order].tolist()
    innermost_L = np.full(len(moment_L), -1, np.int64)
    stack: list[int] = []
    opened = 0
    for position in np.argsort(moment_L, kind="stable").tolist():
        moment = int(moment_L[position])
        while opened < len(sorted_start) and sorted_start[opened] <= moment:
            while stack and sorted_end[stack[-1]] < sorted_start[opened]:
                stack.pop()
            stack.append(opened)
            opened += 1
        while stack and sorted_end[stack[-1]] < moment:
            stack.pop()
        if stack:
            innermost_L[position] = order[stack[-1]]
    return innermost_L
