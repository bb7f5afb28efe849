"""Laws fitted to censored lifetimes by maximum likelihood, with profile-likelihood intervals.

Source: Cox and Oakes, Analysis of Survival Data, 1984, ch. 3; the interval of a parameter contains
    the values with a profile log-likelihood within half a chi-square quantile of the maximum.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np
from scipy.optimize import brentq, minimize_scalar
from scipy.stats import chi2

from perfatlas.quantities import InfeasibleError, counted
from perfatlas.reliability.telemetry.fits.distributions import (
    FAMILIES,
    Family,
    log_likelihood,
    most_likely,
)
from perfatlas.sampling import check_level

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from perfatlas.reliability.telemetry.history import Lifetimes

    Float = NDArray[np.float64]

_LOSS_AT_ZERO_LIKELIHOOD: Final = 1e300  # loss where the likelihood is 0
_MAX_LOG_PARAMETER: Final = 300.0  # bound of a parameter, in e-folds from 1
_FURTHEST: Final = 60.0  # steps of an internal parameter, in e-folds for logarithms


@dataclass(frozen=True, kw_only=True)
class Fit:
    """A maximum-likelihood fit."""

    family: str  # exponential, weibull or lognormal
    parameters: Mapping[str, float]  # Values by name; times in the unit of the lifetimes
    low: Mapping[str, float]  # Lower interval ends by name, 0 or -inf where unbounded
    high: Mapping[str, float]  # Upper interval ends by name, inf where unbounded
    level: float  # Confidence level of the intervals
    # Mean lifetime of the distribution [unit of the lifetimes]; where most units are censored it is
    # an extrapolation
    mean: float
    log_likelihood: float  # At the maximum; depends on the unit of time
    aic: float  # Akaike's criterion, 2 parameters - 2 log-likelihood
    failures: int  # Number of failures
    units: int  # Number of units
    exposure: float  # Total observation time [unit of the lifetimes]


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Comparison of the families."""

    fits: tuple[Fit, ...]  # Fits, smallest AIC first
    declined: Mapping[str, str]  # Reasons of families without a fit

    def fit(self, family: str) -> Fit:
        """Return the fit of a family.

        Raises:
            InfeasibleError: It has no fit.
        """
        for fit in self.fits:
            if fit.family == family:
                return fit
        raise InfeasibleError(self.declined.get(family, f"unknown family {family!r}"))


def compare_families(seen: Lifetimes, level: float = 0.95) -> Comparison:
    """Return the fits of all families by AIC.

    Args:
        level: Confidence level of the intervals.

    Raises:
        InfeasibleError: There is no failure.

    Limits: AIC only ranks the families; the best may still fit badly. See `fitness`.
    """
    fits, declined = [], {}
    for family in FAMILIES:
        try:
            fits.append(fit_family(family, seen, level))
        except InfeasibleError as problem:
            if family.name == "exponential":
                raise
            declined[family.name] = str(problem)
    return Comparison(fits=tuple(sorted(fits, key=lambda fit: fit.aic)), declined=declined)


def fit_family(family: Family, seen: Lifetimes, level: float = 0.95) -> Fit:
    """Return the maximum-likelihood fit of a family.

    Limits: profile intervals are asymptotic; below about five failures they are approximate.

    Example:
        >>> from perfatlas.reliability.telemetry.fits.distributions import EXPONENTIAL
        >>> from perfatlas.reliability.telemetry.fits.maximum_likelihood import fit_family
        >>> from perfatlas.reliability.telemetry.history import lifetimes
        >>> fit = fit_family(EXPONENTIAL, lifetimes([2.0, 6.0], [True, False]))
        >>> round(fit.parameters["rate"], 9)
        0.125
    """
    check_level(level)
    if not seen.failures:
        raise InfeasibleError(
            f"none of {counted(seen.units, 'unit')} failed in {seen.exposure:g} of exposure: no"
            " distribution can be fitted; use the upper bound of the rate"
        )
    inside_P = most_likely(family, seen)
    best = log_likelihood(family, inside_P, seen)
    mean = family.mean(inside_P)
    absurd = np.abs(inside_P).max() > _MAX_LOG_PARAMETER
    if absurd or not (math.isfinite(mean) and math.isfinite(best)):
        raise InfeasibleError(
            f"no {family.name} fit for {counted(seen.failures, 'failure')} of"
            f" {counted(seen.units, 'unit')}: the maximum-likelihood fit has no finite mean or an"
            " unbounded parameter"
        )
    drop = 0.5 * float(chi2.ppf(level, 1))
    ends = [_interval(family, inside_P, seen, which, best - drop) for which in range(len(inside_P))]
    named = [family.outside(np.array([end[side] for end in ends])) for side in (0, 1)]
    value_P = family.outside(inside_P)
    rows = [seen] if seen.mixed is None else [seen, seen.mixed]
    return Fit(
        family=family.name,
        parameters=_named(family, value_P),
        low=_named(family, named[0]),
        high=_named(family, named[1]),
        level=level,
        mean=mean,
        log_likelihood=best,
        aic=2.0 * len(inside_P) - 2.0 * best,
        failures=sum(row.failures for row in rows),
        units=sum(row.units for row in rows),
        exposure=sum(row.exposure for row in rows),
    )


def with_mean(fit: Fit, mean: float) -> Fit:
    """Return a distribution with the same shape and another mean; scale intervals are scaled too.

    Args:
        mean: New mean lifetime [unit of the lifetimes].

    Example:
        >>> from perfatlas.reliability.telemetry.fits.distributions import EXPONENTIAL
        >>> from perfatlas.reliability.telemetry.fits.maximum_likelihood import fit_family
        >>> from perfatlas.reliability.telemetry.fits import with_mean
        >>> from perfatlas.reliability.telemetry.history import lifetimes
        >>> fit = fit_family(EXPONENTIAL, lifetimes([2.0, 6.0], [True, False]))
        >>> round(with_mean(fit, 4.0).parameters["rate"], 9)
        0.25
    """
    factor = mean / fit.mean

    def moved(named: Mapping[str, float]) -> dict[str, float]:
        changes = {
            "rate": lambda value: value / factor,
            "scale": lambda value: value * factor,
            "mu": lambda value: value + math.log(factor),
        }
        return {name: changes.get(name, float)(value) for name, value in named.items()}

    return replace(
        fit,
        parameters=moved(fit.parameters),
        low=moved(fit.low),
        high=moved(fit.high),
        mean=mean,
    )


def _named(family: Family, value_P: Float) -> dict[str, float]:
    return {name: float(v) for name, v in zip(family.parameters, value_P, strict=True)}


def _interval(
    family: Family, inside_P: Float, seen: Lifetimes, which: int, least: float
) -> tuple[float, float]:
    """Return both ends of the interval of an internal parameter."""

    def above(value: float) -> float:
        return _profile(family, inside_P, seen, which, value) - least

    center = float(inside_P[which])
    return _end(above, center, -1.0), _end(above, center, 1.0)


def _end(above: Callable[[float], float], center: float, side: float) -> float:
    """Return the zero of a decreasing function on one side, infinity where there is none."""
    near, step = center, 0.01
    while step < _FURTHEST:
        far = center + side * step
        if above(far) < 0.0:
            return float(brentq(above, near, far, xtol=1e-10))
        near, step = far, 2.0 * step
    return side * math.inf


def _profile(family: Family, inside_P: Float, seen: Lifetimes, which: int, value: float) -> float:
    """Return the profile log-likelihood with one internal parameter fixed."""
    trial_P = inside_P.copy()
    trial_P[which] = value
    if len(inside_P) == 1:
        return log_likelihood(family, trial_P, seen)
    other = 1 - which

    def loss(free: float) -> float:
        trial_P[other] = free
        negative = -log_likelihood(family, trial_P, seen)
        return negative if math.isfinite(negative) else _LOSS_AT_ZERO_LIKELIHOOD

    start = float(inside_P[other])
    with np.errstate(over="ignore", invalid="ignore", divide="ignore", under="ignore"):
        best = minimize_scalar(loss, bracket=(start - 0.05, start + 0.05), tol=1e-9)
    return -float(best.fun)
