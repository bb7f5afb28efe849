"""Scores of predictions and 90% intervals, and those of one factor and one width for all.

Shape legend: N measurements.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from perfatlas.operators import FloatArray

MISS_RATE: Final = 0.1  # of a 90% interval
TAILS: Final = (0.05, 0.95)
WIDTHS: Final = {"interval_score": "score", "constant_width_score": "constant"}  # with headings
SCORES: Final = {**WIDTHS, "rescaled_error": "rescaled"}


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


def rescaled_errors(log_N: FloatArray, groups: Sequence[Any]) -> FloatArray:
    """Return |error| of predictions times one factor, fitted to all other groups (N,).

    The factor is the median over the other groups of their median of measured over predicted. An
    error that it removes is a bias with one cause.

    Args:
        log_N: ln(measured / predicted) (N,).
        groups: What is left out of the factor of a row: its model, run or source (N,).

    Returns:
        NaN without a second group.

    Example:
        >>> import numpy as np
        >>> from validation.scoring import rescaled_errors
        >>> rescaled_errors(np.log([2.0, 2.0, 3.0]), "aab").round(3).tolist()  # 3/2 - 1; 2/3 - 1
        [0.5, 0.5, 0.333]
    """
    group_N = np.array([str(group) for group in groups])
    logs = {name: float(np.median(log_N[group_N == name])) for name in np.unique(group_N)}
    error_N = np.full(log_N.size, np.nan)
    for name in logs if len(logs) > 1 else ():
        factor = np.median([log for other, log in logs.items() if other != name])
        own_N = group_N == name
        error_N[own_N] = np.abs(np.expm1(factor - log_N[own_N]))
    return error_N


def rescaled_error(rows: Sequence[Mapping[str, Any]], left_out: str) -> float | None:
    """Return the median of `rescaled_errors` of rows, None without a second group.

    Args:
        rows: With `error`, predicted over measured less 1.
        left_out: Column of what the factor of a row leaves out, such as its model.
    """
    log_N = -np.log1p([row["error"] for row in rows])
    found = float(np.median(rescaled_errors(log_N, [row[left_out] for row in rows])))
    return None if np.isnan(found) else found


def scores_beside_constant(
    log_N: FloatArray, limits: tuple[FloatArray, FloatArray], groups: Sequence[Any]
) -> dict[str, float | None]:
    """Return the score of intervals, that of one width, and the median error with one factor.

    The width and the factor are fitted to all other groups.

    Args:
        log_N: ln(measured / predicted) (N,).
        limits: Lower and upper limits of it, each (N,).
        groups: What is left out of the constants that score a row: its model, run or source (N,).

    Returns:
        `interval_score` and `constant_width_score` of the rows with finite limits, and
        `rescaled_error`; None without such rows, and without a second group.

    Example:
        >>> import numpy as np
        >>> from validation.scoring import scores_beside_constant
        >>> log, one = np.array([0.0, 0.0, 1.0, 1.0]), np.ones(4)
        >>> found = scores_beside_constant(log, (-one, one), "aabb")  # 2; 0 + 20 x 1
        >>> [round(score, 2) for score in found.values()]
        [2.0, 20.0, 1.18]
    """
    kept_N = np.isfinite(limits[0]) & np.isfinite(limits[1]) & np.isfinite(log_N)
    if not kept_N.any():
        return dict.fromkeys(SCORES)
    known_N, low_N, high_N = (each[kept_N] for each in (log_N, *limits))
    group_N = np.array([str(group) for group in groups])[kept_N]
    own = interval_score(known_N, low_N, high_N)
    names = np.unique(group_N)
    if names.size < 2:
        return {**dict.fromkeys(SCORES), "interval_score": own}
    constant = [
        interval_score(known_N[group_N == name], *constant_limits(known_N[group_N != name]))
        * float((group_N == name).sum())
        for name in names
    ]
    return {
        "interval_score": own,
        "constant_width_score": sum(constant) / known_N.size,
        "rescaled_error": float(np.median(rescaled_errors(known_N, group_N.tolist()))),
    }
