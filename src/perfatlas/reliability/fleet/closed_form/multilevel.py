"""Multi-level checkpoints: cheap local ones often, expensive durable ones rarely.

Shape legend: C candidates, L levels (cheapest first), I segments of one outer period. Seconds.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from perfatlas.quantities import InvalidSpecError
from perfatlas.reliability.fleet.laws import FloatArray, not_negative, positive

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike


def multilevel_efficiency(
    interval_s: ArrayLike,
    every_L: Sequence[int],
    write_s_CL: ArrayLike,
    restart_s_CL: ArrayLike,
    rate_per_s_CL: ArrayLike,
    detection_s: ArrayLike = 0.0,
) -> FloatArray:
    """Return the exact long-run efficiency of multi-level checkpoints (C,).

    A failure of class l needs a checkpoint of level l or higher; recovery is exposed, and a failure
    during recovery falls back to the higher level of the two.

    Args:
        interval_s: Work of one segment [s] (C,).
        every_L: Segments between checkpoints of each level, the first 1, each a multiple of the
            one before; each segment ends with the highest level due (L,).
        write_s_CL: Blocking write of each level [s] (C, L) or (L,).
        restart_s_CL: Recovery from each level [s] (C, L) or (L,).
        rate_per_s_CL: Rate of failures that need each level [1/s] (C, L) or (L,).
        detection_s: Downtime after each failure, without further failures [s] (C,).

    Raises:
        InvalidSpecError: Periods are not nested, a time is negative, or no failure can happen.

    Source: absorbing chain over one outer period, after Moody et al., SC'10, and Di et al.,
        IPDPS'14; E_i = (1-p_i)/Lambda + p_i E_(i+1) + (1-p_i) sum_l lambda_l/Lambda G_(l,i) with
        G_(l,i) the time from a class-l failure in segment i to the end of the period; every failure
        adds its detection.

    Example:
        >>> import numpy as np
        >>> from perfatlas.reliability.fleet.closed_form import multilevel_efficiency
        >>> hours = lambda *values: np.array(values) * 3600
        >>> found = multilevel_efficiency(
        ...     0.2 * 3600, (1, 6), hours(0.005, 0.05), hours(0.02, 0.2),
        ...     np.array([0.5, 0.1]) / 3600)
        >>> print(f"{found[0]:.5f}")
        0.80754
    """
    every = tuple(int(period) for period in every_L)
    nested = all(b % a == 0 and b > a for a, b in pairwise(every))
    if not every or every[0] != 1 or not nested:
        raise InvalidSpecError(
            f"every = {every}: expected segments between checkpoints of each level, starting with"
            " 1, each a larger multiple of the one before, such as (1, 6)"
        )
    tau_C = np.atleast_1d(positive("interval_s", interval_s))
    write, restart, rate = (
        np.atleast_2d(not_negative(name, values))
        for name, values in (
            ("write_s", write_s_CL), ("restart_s", restart_s_CL), ("rate_per_s", rate_per_s_CL)
        )
    )  # fmt: skip
    shape = np.broadcast_shapes((tau_C.size, len(every)), write.shape, restart.shape, rate.shape)
    tau_C = np.broadcast_to(tau_C, shape[:1])
    lag_C = np.broadcast_to(not_negative("detection_s", detection_s), shape[:1])
    write, restart, rate = (np.broadcast_to(values, shape) for values in (write, restart, rate))
    if np.any(rate.sum(axis=1) <= 0.0):
        raise InvalidSpecError(
            "rate_per_s: all zero; expected at least one failure rate above zero"
        )
    time_C = _outer_period_s(every, tau_C, write, (restart, rate, lag_C))
    return np.asarray(every[-1] * tau_C / time_C, np.float64)


def _outer_period_s(
    every: Sequence[int],
    tau_C: FloatArray,
    write: FloatArray,
    failing: tuple[FloatArray, FloatArray, FloatArray],
) -> FloatArray:
    """Return the mean time of one outer period [s] (C,): the absorbing chain over its segments."""
    restart, rate, lag_C = failing
    total_C = rate.sum(axis=1)
    segments = every[-1]
    level_I = [max(n for n, p in enumerate(every) if (i + 1) % p == 0) for i in range(segments)]
    fail_CI = -np.expm1(-total_C[:, None] * (tau_C[:, None] + write[:, level_I]))
    constant_CL, weight_CLL = _recoveries(restart, rate, lag_C)
    share_CL = rate / total_C[:, None]
    matrix = np.zeros((tau_C.size, segments, segments))
    known_CI = np.zeros((tau_C.size, segments))
    for i in range(segments):
        matrix[:, i, i] += 1.0
        if i + 1 < segments:
            matrix[:, i, i + 1] -= 1.0 - fail_CI[:, i]
        spent_C = 1.0 / total_C + lag_C + np.sum(share_CL * constant_CL, axis=1)
        known_CI[:, i] = fail_CI[:, i] * spent_C
        for m, period in enumerate(every):
            back_C = np.sum(share_CL * weight_CLL[:, :, m], axis=1)
            matrix[:, i, i - i % period] -= fail_CI[:, i] * back_C
    return np.asarray(np.linalg.solve(matrix, known_CI[:, :, None])[:, 0, 0], np.float64)


def _recoveries(
    restart: FloatArray, rate: FloatArray, lag_C: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return time to recover from a class (C, L), and the level then used (C, L, L)."""
    candidates, levels = rate.shape
    total_C = rate.sum(axis=1)
    survives_CL = np.exp(-total_C[:, None] * restart)
    share_CL = rate / total_C[:, None]
    constant_CL = np.zeros((candidates, levels))
    weight_CLL = np.zeros((candidates, levels, levels))
    for low in range(levels - 1, -1, -1):  # from the most severe class down
        fails_C = 1.0 - survives_CL[:, low]
        stays_C = 1.0 - fails_C * share_CL[:, : low + 1].sum(axis=1)
        constant_C = fails_C * (1.0 / total_C + lag_C)
        weight_CL = np.zeros((candidates, levels))
        weight_CL[:, low] = survives_CL[:, low]
        for high in range(low + 1, levels):
            constant_C = constant_C + fails_C * share_CL[:, high] * constant_CL[:, high]
            weight_CL += (fails_C * share_CL[:, high])[:, None] * weight_CLL[:, high]
        constant_CL[:, low] = constant_C / stays_C
        weight_CLL[:, low] = weight_CL / stays_C[:, None]
    return constant_CL, weight_CLL
