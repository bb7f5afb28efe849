"""Probability that a predicted quantity stays within a limit.

Shape legend: C candidates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfatlas.sampling import normal_probability, normal_quantile

if TYPE_CHECKING:
    from numpy.typing import NDArray

    FloatArray = NDArray[np.float64]

TAIL: Final = normal_quantile(0.95)  # standard deviations between the median and a 90% end


class _Spread(NamedTuple):
    """Standard deviations of the logarithm below and above the median (C,)."""

    below: FloatArray
    above: FloatArray


def probability_at_most(
    predicted: FloatArray, low: FloatArray, high: FloatArray, limit: float
) -> FloatArray:
    """Return the probability that a quantity does not exceed a limit (C,).

    The logarithm of the quantity is normal on both sides of the prediction, its median, with the
    90% interval of the prediction: P = Phi(1.645 ln(limit / x) / ln(x_high / x)) above it, and
    likewise below. Where an end is unknown, or there is no interval, as of a roofline, the
    prediction itself is compared.

    Args:
        predicted: The prediction (C,), NaN for a quantity that does not exist: it meets any limit.
        low: Lower end of its 90% interval (C,).
        high: Upper end (C,), NaN for none.

    Limits: Where the upper end is unknown, the quantity may be larger than predicted by any factor,
        and so the probability is an upper limit.

    Example:
        >>> import numpy as np
        >>> from perfatlas.studies import probability_at_most
        >>> one = np.ones(3)
        >>> found = probability_at_most(one * [1, 1, 2], one * [0.5, 1, 1], one * [2, 1, 4], 2.0)
        >>> found.round(3).tolist()
        [0.95, 1.0, 0.5]
    """
    spread = _spread(predicted, low, high)
    with np.errstate(divide="ignore", invalid="ignore"):
        log_ratio = np.log(limit / predicted)
        scale = np.where(log_ratio >= 0.0, spread.above, spread.below)
        normal = np.where(log_ratio == 0.0, 0.0, log_ratio / scale)
    probability = normal_probability(normal)
    certain = (log_ratio == 0.0) & (scale == 0.0)
    return np.where(np.isnan(predicted) | certain, 1.0, probability)


def value_exceeded(
    predicted: FloatArray, low: FloatArray, high: FloatArray, probability: float
) -> FloatArray:
    """Return the value that a quantity reaches or exceeds with a probability (C,).

    Args:
        predicted: The prediction (C,).
        low: Lower end of its 90% interval (C,).
        high: Upper end (C,), NaN for none.

    Limits: Where an end is unknown, the prediction.

    Example:
        >>> import numpy as np
        >>> from perfatlas.studies import value_exceeded
        >>> one = np.ones(1)
        >>> value_exceeded(2 * one, 1 * one, 4 * one, 0.95).round(3).tolist()
        [1.0]
    """
    spread, normal = _spread(predicted, low, high), normal_quantile(1.0 - probability)
    scale = spread.above if normal >= 0.0 else spread.below
    quantile: FloatArray = predicted * np.exp(normal * scale)
    return quantile


def _spread(predicted: FloatArray, low: FloatArray, high: FloatArray) -> _Spread:
    with np.errstate(divide="ignore", invalid="ignore"):
        below = np.maximum(np.log(predicted / low), 0.0) / TAIL
        above = np.maximum(np.log(high / predicted), 0.0) / TAIL
    has_interval = ~np.isnan(below + above)
    return _Spread(np.where(has_interval, below, 0.0), np.where(has_interval, above, 0.0))
