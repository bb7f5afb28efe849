"""Statistics of samples: the median with its interval, how runs differ, and unsteady clocks.

Shape legend: S samples, in order of time.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

CONFIDENCE: Final = 0.90
MIN_SAMPLES: Final = 20  # samples that a state of the clock is told from
MIN_CHANGE: Final = 0.03  # of the time, between two states of the clock
SEPARATION: Final = 6.0  # of two modes, in median absolute deviations inside them
MIN_MODE: Final = 0.2  # of the samples
SWITCHES_OF_A_STEP: Final = 3  # between modes at most, if the clock changed once
SIGNIFICANCE: Final = 0.01
TEST: Final = "Mann-Whitney U on raw samples, two-sided, Holm-corrected over the cases"


class MedianInterval(NamedTuple):
    """A median and its two-sided interval, in the unit of the samples."""

    median: float
    low: float
    high: float

    @property
    def half_width(self) -> float:
        """Half of the interval, relative to the median."""
        return (self.high - self.low) / 2.0 / self.median


def median_interval(samples_S: Sequence[float] | NDArray[np.float64]) -> MedianInterval:
    """Return the median and its 90% interval between order statistics.

    It holds for every distribution of independent samples. With fewer than five samples it is
    their range, which covers less.

    Args:
        samples_S: At least one.

    Source: David and Nagaraja, "Order Statistics", 3rd edition, section 7.1: the number of samples
        below the median is binomial with p = 1/2.

    Example:
        >>> from perfatlas.lab.harness import median_interval
        >>> median_interval([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0])
        MedianInterval(median=4.5, low=2.0, high=7.0)
    """
    ordered = np.sort(np.asarray(samples_S, np.float64))
    count = ordered.size
    below, outside = 0, 0.0
    for rank in range(count // 2):
        outside += math.comb(count, rank) / 2.0**count
        if outside > (1.0 - CONFIDENCE) / 2.0:
            break
        below = rank
    low, high = ordered[below], ordered[count - 1 - below]
    return MedianInterval(float(np.median(ordered)), float(low), float(high))


def ratio_interval(
    first_S: Sequence[float] | NDArray[np.float64], second_S: Sequence[float] | NDArray[np.float64]
) -> MedianInterval:
    """Return second over first with its interval, from samples taken in turn.

    A clock that drifts changes both samples of a turn, and not their ratio.

    Args:
        first_S: Samples of one arm.
        second_S: Those of the other in the same turns.
    """
    return median_interval(np.asarray(second_S, np.float64) / np.asarray(first_S, np.float64))


def different(pairs: Sequence[tuple[Sequence[float], Sequence[float]]]) -> list[float]:
    """Return the p-value of each pair of runs, corrected for their number.

    Args:
        pairs: Raw samples of both runs, case by case.

    Source: Mann and Whitney 1947; Holm 1979.
    """
    from scipy.stats import mannwhitneyu

    raw = [float(mannwhitneyu(old, new).pvalue) for old, new in pairs]
    corrected, largest = [1.0] * len(raw), 0.0
    for rank, pair in enumerate(sorted(range(len(raw)), key=raw.__getitem__)):
        largest = max(largest, min(1.0, raw[pair] * (len(raw) - rank)))
        corrected[pair] = largest
    return corrected


def clock_state(samples_S: Sequence[float] | NDArray[np.float64]) -> str:
    """Return steady, drift, throttled, sped up or two modes: how times changed over a run.

    Two modes are times that fall into two groups far apart. If they change group once, the clock
    changed: it was throttled if it is slower from then on. A trend without groups is a drift.

    Args:
        samples_S: Samples in order of time.
    """
    times_S = np.log(np.asarray(samples_S, np.float64))
    if times_S.size < MIN_SAMPLES:
        return "steady"
    slow_S = _slow_mode(times_S)
    if slow_S is not None:
        switches = int(np.count_nonzero(np.diff(slow_S.astype(np.int8))))
        if switches > SWITCHES_OF_A_STEP:
            return "two modes"
        return "throttled" if slow_S[-slow_S.size // 8 :].mean() > 0.5 else "sped up"
    return "drift" if _drifts(times_S) else "steady"


def _slow_mode(times_S: NDArray[np.float64]) -> NDArray[np.bool_] | None:
    """Return which samples are in the slower of two modes, None if there is one."""
    ordered = np.sort(times_S)
    fewest = max(2, math.ceil(MIN_MODE * ordered.size))
    splits = np.arange(fewest, ordered.size - fewest + 1)
    gaps = ordered[splits] - ordered[splits - 1]
    split = int(splits[np.argmax(gaps)])
    fast, slow = ordered[:split], ordered[split:]
    inside = max(_deviation(fast), _deviation(slow))
    distance = float(np.median(slow) - np.median(fast))
    if distance < max(MIN_CHANGE, SEPARATION * inside) or gaps.max() < 2.0 * inside:
        return None
    is_slow: NDArray[np.bool_] = times_S >= slow[0]
    return is_slow


def _deviation(times: NDArray[np.float64]) -> float:
    return float(np.median(np.abs(times - np.median(times))))


def _drifts(times_S: NDArray[np.float64]) -> bool:
    """Return whether times have a trend: Kendall's tau, and the slope of Theil and Sen."""
    from scipy.stats import kendalltau, theilslopes

    turns_S = np.arange(times_S.size)
    change = float(theilslopes(times_S, turns_S)[0]) * times_S.size
    if abs(change) < MIN_CHANGE:
        return False
    return bool(kendalltau(turns_S, times_S).pvalue < SIGNIFICANCE)
