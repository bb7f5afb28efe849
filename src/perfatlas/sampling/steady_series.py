"""Steady state of a series: where its warm-up ends, and how precise its statistics are.

The warm-up is cut by MSER-5: of all cuts up to half of the run, the one after which the mean of
batches of five observations has the smallest standard error. Statistics after it are compared
between consecutive batches; neighbouring batches that are correlated widen the confidence interval.

Source: White, An Effective Truncation Heuristic for Bias Reduction in Simulation Output,
Simulation 69 (1997); Law, Simulation Modeling and Analysis (5th ed.), section 9.5.3, batch means.

Shape legend: N observations in order, M batches of five, B batches.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

NEAR_CAPACITY: Final = 0.03  # of the capacity, within which a load is neither stable nor overloaded
BATCH: Final = 5  # observations of a batch of MSER-5
BATCHES: Final = 20  # of the confidence intervals
MIN_OBSERVATIONS: Final = 10 * BATCHES  # observations that have statistics
SETTLED: Final = 0.45  # of a run: a later cut is that of a run that is too short
CONFIDENCE: Final = 0.9
ROUNDING: Final = 1e-9  # relative
MAX_CORRELATION: Final = 0.9  # upper limit of the lag-1 correlation of batches


Stability = Literal["stable", "near capacity", "overloaded"]


def stability_of(load: float) -> Stability:
    """Return whether a queue has a steady state; "near capacity" within 3% of it.

    Args:
        load: Offered rate over the largest one that can be sustained.

    Example:
        >>> from perfatlas.sampling import stability_of
        >>> stability_of(0.9), stability_of(0.98), stability_of(1.1)
        ('stable', 'near capacity', 'overloaded')
    """
    if load < 1.0 - NEAR_CAPACITY:
        return "stable"
    return "overloaded" if load > 1.0 + NEAR_CAPACITY else "near capacity"


def warm_up(values_N: NDArray[np.float64]) -> int:
    """Return how many first observations are warm-up, by MSER-5.

    Args:
        values_N: Observations in order, without NaN (N,).

    Returns:
        A multiple of five, at most half of them.

    Example:
        >>> import numpy as np
        >>> from perfatlas.sampling import warm_up
        >>> warm_up(np.r_[np.full(50, 9.0), np.tile([1.0, 1.2], 200)])
        50
    """
    batches = values_N.size // BATCH
    if batches < 2:
        return 0
    mean_M = values_N[: batches * BATCH].reshape(batches, BATCH).mean(axis=1)
    mean_M = mean_M - mean_M.mean()  # of what is left after a cut, the same but for rounding
    left_M = np.arange(batches, 0, -1, dtype=np.float64)
    sum_M = np.cumsum(mean_M[::-1])[::-1]
    square_M = np.cumsum(mean_M[::-1] ** 2)[::-1]
    error_M = (square_M - sum_M**2 / left_M) / left_M**2
    return int(np.argmin(error_M[: batches // 2 + 1])) * BATCH


class Precision(NamedTuple):
    """A statistic of a steady state."""

    value: float  # Over all requests that are measured
    half_width: float  # Of its 90% confidence interval

    @property
    def relative(self) -> float:
        """Half-width over value; infinite where the value is 0 and the half-width is not."""
        if self.half_width == 0.0:
            return 0.0
        return self.half_width / abs(self.value) if self.value else math.inf


def batch_precision(values_N: NDArray[np.float64], percentile: float | None = None) -> Precision:
    """Return a mean or a percentile with its confidence interval, from means of batches.

    Args:
        values_N: Observations of a steady state, in order (N,); NaN has no value.
        percentile: None for the mean.

    Returns:
        NaN and an infinite half-width of fewer observations than `MIN_OBSERVATIONS`.
    """
    from scipy.special import stdtrit

    known_N = values_N[np.isfinite(values_N)]
    value = _statistic(known_N, percentile) if known_N.size else math.nan
    if known_N.size < MIN_OBSERVATIONS:
        return Precision(value, math.inf)
    part_B = np.array(
        [_statistic(column, percentile) for column in np.array_split(known_N, BATCHES)]
    )
    apart_B = part_B - part_B.mean()
    spread = float((apart_B**2).sum())
    if spread == 0.0:
        return Precision(value, 0.0)
    correlation = float((apart_B[1:] * apart_B[:-1]).sum()) / spread
    correlation = min(max(correlation, 0.0), MAX_CORRELATION)
    error = math.sqrt(spread / (BATCHES - 1) / BATCHES * (1.0 + correlation) / (1.0 - correlation))
    if error < ROUNDING * abs(value):  # all observations are equal but for rounding
        return Precision(value, 0.0)
    return Precision(value, float(stdtrit(BATCHES - 1, 0.5 + CONFIDENCE / 2.0)) * error)


def _statistic(values_N: NDArray[np.float64], percentile: float | None) -> float:
    return float(values_N.mean() if percentile is None else np.percentile(values_N, percentile))
