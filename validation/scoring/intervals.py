"""Scores of 90% intervals, and those of an interval of one width for all.

Shape legend: N measurements.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfatlas.operators import FloatArray

MISS_RATE: Final = 0.1  # of a 90% interval
TAILS: Final = (0.05, 0.95)
SCORES: Final = {"interval_score": "score", "constant_width_score": "constant"}  # with headings


def interval_score(
    values_N: FloatArray | float, low_N: FloatArray | float, high_N: FloatArray | float
) -> float:
    """Return the mean Winkler score of 90% intervals; smaller is better.

    The width of an interval, plus 2/0.1 times the distance of a value outside it.

    Args:
        values_N: What was measured (N,).
        low_N: Lower limits (N,), or one for all.
        high_N: Upper limits (N,), or one for all.

    Source:
        Winkler, A decision-theoretic approach to interval estimation, 1972; Gneiting and Raftery
        2007, equation 43.

    Example:
        >>> import numpy as np
        >>> from validation.scoring import interval_score
        >>> interval_score(np.array([0.0, 1.5]), -1.0, 1.0)  # (2 + (2 + 20 x 0.5)) / 2
        7.0
    """
    outside_N = np.maximum(low_N - values_N, 0.0) + np.maximum(values_N - high_N, 0.0)
    return float(np.mean(high_N - low_N + 2.0 / MISS_RATE * outside_N))


def constant_limits(known_N: FloatArray) -> tuple[float, float]:
    """Return the interval of one width for all that holds 90% of known values.

    Args:
        known_N: ln(measured / predicted) of the rows that it is fitted to (N,).
    """
    low, high = np.quantile(known_N, TAILS)
    return float(low), float(high)


def scores_beside_constant(
    log_N: FloatArray, limits: tuple[FloatArray, FloatArray], groups: Sequence[Any]
) -> dict[str, float | None]:
    """Return the score of intervals, and that of one width fitted to all other groups.

    Args:
        log_N: ln(measured / predicted) (N,).
        limits: Lower and upper limits of it, each (N,).
        groups: What is left out of the constant that scores a row: its model, run or source (N,).

    Returns:
        `interval_score` and `constant_width_score` of the rows with finite limits; None without
        such rows, and without a second group.

    Example:
        >>> import numpy as np
        >>> from validation.scoring import scores_beside_constant
        >>> log, one = np.array([0.0, 0.0, 1.0, 1.0]), np.ones(4)
        >>> found = scores_beside_constant(log, (-one, one), "aabb")  # 2; 0 + 20 x 1
        >>> found["interval_score"], found["constant_width_score"]
        (2.0, 20.0)
    """
    kept_N = np.isfinite(limits[0]) & np.isfinite(limits[1]) & np.isfinite(log_N)
    if not kept_N.any():
        return dict.fromkeys(SCORES)
    known_N, low_N, high_N = (each[kept_N] for each in (log_N, *limits))
    group_N = np.array([str(group) for group in groups])[kept_N]
    own = interval_score(known_N, low_N, high_N)
    names = np.unique(group_N)
    if names.size < 2:
        return {"interval_score": own, "constant_width_score": None}
    constant = [
        interval_score(known_N[group_N == name], *constant_limits(known_N[group_N != name]))
        * float((group_N == name).sum())
        for name in names
    ]
    return {"interval_score": own, "constant_width_score": sum(constant) / known_N.size}
