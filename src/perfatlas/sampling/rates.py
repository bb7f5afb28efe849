"""Rates from counts: Gamma-Poisson posteriors and exact Poisson intervals."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

from perfatlas.quantities import InvalidSpecError, repr_for_error
from perfatlas.sampling.normal import normal_quantile

JEFFREYS: Final = (0.5, 0.0)  # Gamma shape and rate of the scale-invariant prior


@dataclass(frozen=True, kw_only=True)
class RatePosterior:
    """Posterior of an event rate, given a count over an exposure."""

    events: int
    exposure_s: float  # Observed unit-seconds [s]
    shape: float  # Shape of the Gamma posterior
    mean_per_s: float  # Mean of the rate [1/s]
    low_per_s: float  # Lower end of the central interval [1/s]
    high_per_s: float  # Upper end [1/s]
    level: float  # Probability of the interval

    @property
    def observed_per_s(self) -> float:
        """Return the count over its exposure [1/s]; rates per cause add up to the total rate.

        Posterior means do not: each adds half a failure of prior.
        """
        return self.events / self.exposure_s


def rate_posterior(
    events: int,
    exposure_s: float,
    *,
    prior: tuple[float, float] = JEFFREYS,
    level: float = 0.95,
) -> RatePosterior:
    """Return the posterior of a rate of failures.

    Args:
        exposure_s: Number of units times the observed time [s].
        prior: Shape and rate [s] of the Gamma prior; Jeffreys' by default.
        level: Probability of the central interval.

    Raises:
        InvalidSpecError: A count or an exposure is negative, or the posterior is improper.

    Source: Gamma(a + n, b + T) is conjugate to the Poisson distribution; Gelman et al.,
        Bayesian Data Analysis, 2013, sec. 2.6.

    Limits: Assumes independent failures at one rate; too narrow with bursts or lemon nodes.

    Example:
        >>> from perfatlas.sampling import rate_posterior
        >>> round(rate_posterior(0, 1000.0, prior=(1.0, 0.0), level=0.9).high_per_s, 9)
        0.002995732
    """
    _check(events, exposure_s)
    check_level(level)
    shape, more_s = events + prior[0], exposure_s + prior[1]
    if not (shape > 0.0 and more_s > 0.0 and math.isfinite(shape + more_s)):
        raise InvalidSpecError(
            f"{events} events in {exposure_s:g} s with the prior {prior}: shape and exposure, "
            "including the prior, must be positive"
        )
    low, high = _gamma_quantile(shape, [0.5 - 0.5 * level, 0.5 + 0.5 * level]) / more_s
    return RatePosterior(
        events=events,
        exposure_s=exposure_s,
        shape=shape,
        mean_per_s=shape / more_s,
        low_per_s=float(low),
        high_per_s=float(high),
        level=level,
    )


def exact_rate_interval(events: int, exposure_s: float, level: float = 0.95) -> tuple[float, float]:
    """Return a confidence interval of a rate whose coverage is at least its level [1/s].

    Args:
        events: Observed failures. With none, the interval is one-sided: from 0 to the upper bound
            at the full level, 3.0 / exposure at 95%.
        exposure_s: Observed unit-seconds [s].

    Raises:
        InvalidSpecError: A count is negative, or an exposure is not positive.

    Source: Garwood, Biometrika 28 (1936).

    Example:
        >>> from perfatlas.sampling import exact_rate_interval
        >>> [round(rate, 3) for rate in exact_rate_interval(419, 419.0)]
        [0.907, 1.1]
    """
    _check(events, exposure_s)
    check_level(level)
    if exposure_s == 0.0:
        raise InvalidSpecError("a rate needs a positive exposure")
    if events == 0:
        return 0.0, float(_gamma_quantile(1.0, level) / exposure_s)
    low = _gamma_quantile(events, 0.5 - 0.5 * level) / exposure_s
    high = _gamma_quantile(events + 1.0, 0.5 + 0.5 * level) / exposure_s
    return float(low), float(high)


def standard_errors(level: float) -> float:
    """Return the half-width of a normal confidence interval, in standard errors.

    Raises:
        InvalidSpecError: The level does not lie between 0 and 1.

    Example:
        >>> from perfatlas.sampling import standard_errors
        >>> print(f"{standard_errors(0.95):.3f}")
        1.960
    """
    return -normal_quantile(0.5 - 0.5 * check_level(level))


def _gamma_quantile(shape: float, probability: Any) -> Any:  # noqa: ANN401 - scipy is untyped
    """Return a quantile of the Gamma distribution of rate 1, or one per probability."""
    from scipy.special import gammaincinv  # imported late: half a second that only intervals need

    return gammaincinv(shape, probability)


def _check(events: int, exposure_s: float) -> None:
    if isinstance(events, bool) or events != int(events) or events < 0:
        raise InvalidSpecError(f"events = {repr_for_error(events)}; a whole number of at least 0")
    if not 0.0 <= exposure_s < math.inf:
        raise InvalidSpecError(
            f"exposure_s = {repr_for_error(exposure_s)}; finite and at least 0 s"
        )


def check_level(level: float) -> float:
    """Return the level of an interval after checking that it lies between 0 and 1.

    Args:
        level: Probability that the interval covers the value.

    Raises:
        InvalidSpecError: It does not lie between 0 and 1.
    """
    if not 0.0 < level < 1.0:
        raise InvalidSpecError(f"level = {repr_for_error(level)}; between 0 and 1, such as 0.95")
    return float(level)
