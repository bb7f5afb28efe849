"""The slowest of many ranks, with which a synchronous step ends.

Each of n ranks takes its time times 1 + x, with x drawn from a stated distribution, independently
in every step; the step takes the maximum. Quantiles of the maximum follow from those of one rank:
P(max <= x) = P(one <= x)^n.

Shape legend: C candidates, D distinct numbers of ranks, G points of quadrature.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.quantities import InvalidSpecError, did_you_mean, repr_for_error
from perfatlas.sampling.normal import normal_quantile

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    FloatArray = NDArray[np.float64]

# The expected maximum is an integral over its quantiles; this many Gauss-Legendre points on each
# side of the median keep its error below 1e-6 of the standard deviation up to 10^7 ranks.
_POINTS: Final = 96


def _normal(tail: FloatArray) -> FloatArray:
    """Return the value that a standard normal variable exceeds with a probability."""
    value = [-normal_quantile(number) for number in tail.ravel().tolist()]
    return np.array(value).reshape(tail.shape)


def _exponential(tail: FloatArray) -> FloatArray:
    """Return the same of an exponential variable of standard deviation 1 and mean 0."""
    value: FloatArray = -np.log(tail) - 1.0
    return value


def _uniform(tail: FloatArray) -> FloatArray:
    """Return the same of a uniform variable of standard deviation 1 and mean 0."""
    value: FloatArray = 3.0**0.5 * (1.0 - 2.0 * tail)
    return value


DISTRIBUTIONS: Final[dict[str, Callable[[FloatArray], FloatArray]]] = {
    "normal": _normal,
    "exponential": _exponential,
    "uniform": _uniform,
}


def slowdown_quantile(
    distribution: str, deviation_C: FloatArray, ranks_C: NDArray[np.int64], probability: float
) -> FloatArray:
    """Return a quantile of the slowest rank's relative excess over the mean of one rank (C,).

    Args:
        distribution: A name of `DISTRIBUTIONS`; each has mean 0.
        deviation_C: Standard deviation of a rank's time over its mean (C,).
        ranks_C: Ranks that wait for each other (C,).
        probability: Probability that the excess is at most the quantile, between 0 and 1.

    Raises:
        InvalidSpecError: The distribution is unknown, or a number is out of its range.

    Example:
        >>> import numpy as np
        >>> from perfatlas.sampling import slowdown_quantile
        >>> one, many = np.array([0.01, 0.01]), np.array([1, 1024])
        >>> slowdown_quantile("normal", one, many, 0.9).round(4).tolist()
        [0.0128, 0.0371]
    """
    if not 0 < probability < 1:
        raise InvalidSpecError(f"probability is {probability}; it is between 0 and 1")
    value = _checked(distribution, deviation_C, ranks_C)
    tail_C = -np.expm1(np.log(probability) / np.asarray(ranks_C))
    return np.asarray(deviation_C, dtype=np.float64) * value(tail_C)


def expected_slowdown(
    distribution: str, deviation_C: FloatArray, ranks_C: NDArray[np.int64]
) -> FloatArray:
    """Return the expected relative excess of the slowest rank over the mean of one rank (C,).

    For exponential excess it is deviation x (H(n) - 1) with the harmonic number H(n), for uniform
    excess deviation x sqrt(3) (n - 1)/(n + 1); for normal excess about deviation x sqrt(2 ln n).

    Args:
        distribution: A name of `DISTRIBUTIONS`; each has mean 0.
        deviation_C: Standard deviation of a rank's time over its mean (C,).
        ranks_C: Ranks that wait for each other (C,).

    Raises:
        InvalidSpecError: The distribution is unknown, or a number is out of its range.

    Limits: Ranks are independent. GPUs that failures slow are stragglers of a fleet, and must not
        be counted in both.

    Example:
        >>> import numpy as np
        >>> from perfatlas.sampling import expected_slowdown
        >>> one, ranks = np.array([0.01, 0.01]), np.array([2, 8192])
        >>> expected_slowdown("exponential", one, ranks).round(5).tolist()
        [0.005, 0.08588]
    """
    value = _checked(distribution, deviation_C, ranks_C)
    deviation_C = np.asarray(deviation_C, dtype=np.float64)
    ranks_D, which_C = np.unique(ranks_C, return_inverse=True)
    # With u uniform, the maximum has the excess whose tail is t = 1 - u^(1/n). Both ends of u are
    # stretched: y -> e^-y for large excess, its mirror for small.
    node_G, weight_G = _quadrature()
    depth_G, weight_G = 20.0 * (node_G + 1.0), 20.0 * weight_G * np.exp(-20.0 * (node_G + 1.0))
    half_G = 0.5 * np.exp(-depth_G)
    upper_GD = -np.expm1(np.log1p(-half_G)[:, None] / ranks_D)
    lower_GD = -np.expm1(np.log(half_G)[:, None] / ranks_D)
    lower_GD = np.minimum(lower_GD, 1.0 - 2.0**-53)
    mean_D = 0.5 * (weight_G @ value(upper_GD) + weight_G @ value(lower_GD))
    excess_C: FloatArray = deviation_C * np.where(ranks_D == 1, 0.0, mean_D)[which_C]
    return excess_C


@cache
def _quadrature() -> tuple[FloatArray, FloatArray]:
    """Return the points and weights of the integral over quantiles."""
    return np.polynomial.legendre.leggauss(_POINTS)


def _checked(
    distribution: str, deviation_C: FloatArray, ranks_C: NDArray[np.int64]
) -> Callable[[FloatArray], FloatArray]:
    """Return the function of a distribution after checks of the columns."""
    if distribution not in DISTRIBUTIONS:
        raise InvalidSpecError(
            f"unknown distribution {repr_for_error(distribution)}; choose one of"
            f" {', '.join(DISTRIBUTIONS)}{did_you_mean(distribution, list(DISTRIBUTIONS))}"
        )
    if not np.all(np.isfinite(deviation_C) & (np.asarray(deviation_C) >= 0)):
        raise InvalidSpecError("deviation_C: standard deviations are finite and not negative")
    if not np.all(np.asarray(ranks_C) >= 1):
        raise InvalidSpecError("ranks_C: at least one rank takes part in a step")
    return DISTRIBUTIONS[distribution]
