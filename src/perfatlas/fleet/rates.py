"""Failure rates from counts: of one kind of part, and of a system of many kinds.

Shape legend: K kinds of parts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from perfatlas.fleet.columns import not_negative
from perfatlas.fleet.durations import HOURS_OF_FIT
from perfatlas.quantities import InvalidSpecError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike


@dataclass(frozen=True, kw_only=True)
class RatePosterior:
    """What is known of a rate: a Gamma distribution.

    Args:
        shape: Prior shape and events.
        exposure_s: Prior exposure and observed time, over all parts [s].
    """

    shape: float
    exposure_s: float

    @property
    def mean_per_s(self) -> float:
        """Mean rate [1/s]."""
        return self.shape / self.exposure_s

    def quantile_per_s(self, probability: float) -> float:
        """Return a quantile of the rate [1/s].

        Args:
            probability: Above 0 and below 1.
        """
        from scipy.special import gammaincinv

        return float(gammaincinv(self.shape, probability) / self.exposure_s)


def rate_posterior(
    events: float, exposure_s: float, *, prior_events: float = 0.5, prior_s: float = 0.0
) -> RatePosterior:
    """Return the posterior of a Poisson rate.

    Args:
        events: Failures seen.
        exposure_s: Observed time over all parts [s].
        prior_events: Of the Gamma prior; 0.5 without time is Jeffreys'.
        prior_s: Time of the prior [s].

    Raises:
        InvalidSpecError: A negative count, or no time at all.

    Source: conjugate prior of the Poisson process.
    """
    if not events >= 0.0 or not exposure_s + prior_s > 0.0 or not prior_events >= 0.0:
        raise InvalidSpecError(
            f"{events:g} events in {exposure_s:g} s: expected a count of 0 or more and some time"
        )
    return RatePosterior(shape=events + prior_events, exposure_s=exposure_s + prior_s)


def exact_rate_interval(
    events: int, exposure_s: float, *, confidence: float = 0.95
) -> tuple[float, float]:
    """Return the exact interval of a Poisson rate [1/s], one-sided where nothing happened.

    Args:
        events: Failures seen.
        exposure_s: Observed time over all parts [s].
        confidence: Share of such intervals that hold the rate.

    Raises:
        InvalidSpecError: A negative count or no time.

    Source: Garwood 1936, quantiles of chi-square; 3.0 / T above zero events at 95 %.

    Example:
        >>> from perfatlas.fleet.rates import exact_rate_interval
        >>> low, high = exact_rate_interval(419, 419.0)
        >>> print(f"{low - 1:+.1%} {high - 1:+.1%}")
        -9.3% +10.0%
    """
    from scipy.special import chdtri

    if events < 0 or not exposure_s > 0.0:
        raise InvalidSpecError(f"{events} events in {exposure_s:g} s: expected 0 up and some time")
    tail = 1.0 - confidence
    if events == 0:
        return 0.0, -math.log(tail) / exposure_s
    low = chdtri(2.0 * events, 1.0 - tail / 2.0) / 2.0
    high = chdtri(2.0 * events + 2.0, tail / 2.0) / 2.0
    return float(low / exposure_s), float(high / exposure_s)


def system_rate_per_s(parts_K: ArrayLike, fit_K: ArrayLike) -> float:
    """Return the rate of a series system [1/s]: sum of parts times FIT.

    Args:
        parts_K: Parts of each kind (K,).
        fit_K: Failures of one part in 1e9 h (K,).

    Raises:
        InvalidSpecError: A negative number.

    Source: lambda = sum n_c FIT_c 1e-9 / h; every part is needed and fails independently.

    Example:
        >>> from perfatlas.fleet.rates import system_rate_per_s
        >>> print(f"{system_rate_per_s([8, 2], [1e6, 5e6]) * 3600:.3f} per hour")
        0.018 per hour
    """
    rate = not_negative("parts", parts_K) * not_negative("fit", fit_K)
    return float(np.sum(rate)) / HOURS_OF_FIT / 3600.0


def system_posterior(
    parts_K: Sequence[float], posterior_K: Sequence[RatePosterior]
) -> RatePosterior:
    """Return what is known of a series system from what is known of its parts.

    Args:
        parts_K: Parts of each kind (K,).
        posterior_K: Rate of one part of each kind (K,).

    Raises:
        InvalidSpecError: No parts.

    Source: the Gamma distribution with the mean and variance of the sum.

    Limits: exact for one kind; for several, quantiles are close where no kind dominates with few
        events.
    """
    pairs = [pair for pair in zip(parts_K, posterior_K, strict=True) if pair[0] > 0.0]
    if not pairs:
        raise InvalidSpecError("a system needs at least one part")
    mean = sum(parts * rate.mean_per_s for parts, rate in pairs)
    variance = sum(parts**2 * rate.shape / rate.exposure_s**2 for parts, rate in pairs)
    return RatePosterior(shape=mean**2 / variance, exposure_s=mean / variance)
