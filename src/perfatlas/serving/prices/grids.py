"""Grids of sizes at which steps are priced, and their reduction to breakpoints.

Shape legend: X sizes, Y probes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from perfatlas.operators import FloatArray

Sizes = NDArray[np.int64]


def sizes_up_to(
    most: int, *, least_step: int, parts: int, around: tuple[int, ...] = (0, 1)
) -> Sizes:
    """Return sizes from 1 to `most`, equally many per octave, in ascending order (X,).

    Kernel times jump at multiples of their tiles, so sizes on both sides of a multiple are
    included.

    Args:
        least_step: Minimum distance of sizes, in octaves with fewer than `parts` of them; a power
            of two.

    Example:
        >>> from perfatlas.serving.prices.grids import sizes_up_to
        >>> sizes_up_to(40, least_step=8, parts=2).tolist()
        [1, 8, 9, 16, 17, 24, 25, 32, 33, 40]
    """
    size_ranges = [np.array([1, most])]
    low, high = 0, least_step * parts
    while low < most:
        step = max(high // (2 * parts), least_step)
        multiples = np.arange(low, min(high, most) + 1, step)
        size_ranges += [multiples + offset for offset in around]
        low, high = high, 2 * high
    every = np.unique(np.concatenate(size_ranges))
    return every[(every >= 1) & (every <= most)]


def spaced_sizes(most: int, count: int) -> Sizes:
    """Return at most `count` sizes from 1 to `most`, evenly spaced in octaves, ascending (X,)."""
    return np.unique(np.rint(np.geomspace(1, most, count)).astype(np.int64))


def needed_sizes(sizes_X: Sizes, time_XY: FloatArray, tolerance: float) -> Sizes:
    """Return the sizes between which times are linear, including the first and last.

    An interval is split where linear interpolation has the largest error, until all errors are
    within the tolerance. Both sides of a jump are kept.

    Source: Douglas and Peucker 1973, Algorithms for the reduction of the number of points, with
        relative errors.

    Example:
        >>> import numpy as np
        >>> from perfatlas.serving.prices.grids import needed_sizes
        >>> sizes = np.arange(1, 7)
        >>> needed_sizes(sizes, np.array([[1.0, 2, 3, 8, 9, 10]]).T, 0.01).tolist()
        [1, 3, 4, 6]
    """
    needed = {0, sizes_X.size - 1}
    open_stretches = [(0, sizes_X.size - 1)]
    while open_stretches:
        first, last = open_stretches.pop()
        if last - first < 2:
            continue
        inside = slice(first + 1, last)
        along_X = (sizes_X[inside] - sizes_X[first]) / (sizes_X[last] - sizes_X[first])
        rise_Y = time_XY[last] - time_XY[first]
        line_XY = time_XY[first] + along_X[:, None] * rise_Y
        exact_XY = time_XY[inside]  # 0 for what never runs, which no line misses
        ratio_XY = np.divide(line_XY, exact_XY, out=np.ones_like(line_XY), where=exact_XY != 0.0)
        miss_X = np.abs(ratio_XY - 1.0).max(axis=1)
        worst = int(miss_X.argmax())
        if miss_X[worst] > tolerance:
            middle = first + 1 + worst
            needed.add(middle)
            open_stretches += [(first, middle), (middle, last)]
    return sizes_X[sorted(needed)]
