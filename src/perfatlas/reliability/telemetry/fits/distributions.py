"""Lifetime distribution families: maximum likelihood for censored, left-truncated data.

log L = sum over failures of log h(t) - sum over all of (H(t) - H(entry)), h the hazard, H its
integral: a unit first observed at an age carries no information on earlier time.

A unit of unknown age, first observed at a time independent of its failures, fails after t with
density S(t) / mean, with S the survival function.
Source: Cox, Renewal Theory, 1962, sec. 5.2, recurrence time of an equilibrium process.

Internal parameters are logarithms of positive ones: (log rate), (log shape, log scale),
(mu, log sigma).

Shape legend: L lifetimes.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from scipy.optimize import brentq, minimize
from scipy.special import gammaincc, gammaln, log_ndtr

from perfatlas.quantities import InfeasibleError, counted

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from perfatlas.reliability.telemetry.history import Lifetimes

    Float = NDArray[np.float64]

_HALF_LOG_2PI: Final = 0.5 * np.log(2.0 * np.pi)
_SHAPES: Final = (1e-3, 1e3)  # of a Weibull distribution; beyond, all ages are equal or 0 in floats
_GRID: Final = 61


class Family(NamedTuple):
    """A distribution family."""

    name: str  # exponential, weibull or lognormal
    parameters: tuple[str, ...]
    outside: Callable[[Float], Float]  # Converts internal parameters (P,) to named ones (P,)
    # Log hazard at ages (L,) for internal parameters (P,)
    log_hazard: Callable[[Float, Float], Float]
    hazard_integral: Callable[[Float, Float], Float]  # Integral of the hazard up to ages (L,)
    fit: Callable[[Lifetimes], Float]  # Maximum-likelihood internal parameters (P,)
    mean: Callable[[Float], float]  # Mean lifetime for internal parameters
    # Log probability that a unit of unknown age survives longer than times (L,)
    log_rest: Callable[[Float, Float], Float]


def log_likelihood(family: Family, inside_P: Float, seen: Lifetimes) -> float:
    """Return the log-likelihood, of units of unknown age over their observation times."""
    failed_L = seen.failed_L
    # sum of products instead of @: BLAS threads cost more than they save on a column
    hazard_L = seen.weight_L[failed_L] * family.log_hazard(seen.exit_L[failed_L], inside_P)
    exposed_L = family.hazard_integral(seen.exit_L, inside_P)
    late_L = seen.entry_L > 0.0
    before_L = seen.weight_L[late_L] * family.hazard_integral(seen.entry_L[late_L], inside_P)
    exact = float(hazard_L.sum() - (seen.weight_L * exposed_L).sum() + before_L.sum())
    if seen.mixed is None:
        return exact
    mixed = seen.mixed
    density_L = -family.hazard_integral(mixed.exit_L[mixed.failed_L], inside_P)
    density_L -= np.log(family.mean(inside_P))
    rest_L = family.log_rest(mixed.exit_L[~mixed.failed_L], inside_P)
    failed_weight_L, rest_weight_L = mixed.weight_L[mixed.failed_L], mixed.weight_L[~mixed.failed_L]
    return exact + float(failed_weight_L @ density_L + rest_weight_L @ rest_L)


def most_likely(family: Family, seen: Lifetimes) -> Float:
    """Return the maximum-likelihood internal parameters (P,)."""
    if seen.mixed is None or len(family.parameters) == 1:
        return family.fit(seen)
    # start from the overall rate with a spread of one e-fold, and from the fit to known ages
    log_mean = -float(_fit_exponential(seen)[0])
    starts = [np.array([0.0, log_mean] if family.name == "weibull" else [log_mean - 0.5, 0.0])]
    with suppress(InfeasibleError):
        starts.append(family.fit(seen))
    optima = [_maximize(family, seen, start_P) for start_P in starts]
    return max(optima, key=lambda inside_P: log_likelihood(family, inside_P, seen))


def _maximize(family: Family, seen: Lifetimes, start_P: Float) -> Float:
    def loss(inside_P: Float) -> float:
        value = -log_likelihood(family, inside_P, seen)
        return value if np.isfinite(value) else np.inf

    with np.errstate(all="ignore"):
        optimum = minimize(
            loss, start_P, method="Nelder-Mead", options={"xatol": 1e-7, "fatol": 1e-7}
        )
    inside_P: Float = optimum.x
    return inside_P


def _fit_exponential(seen: Lifetimes) -> Float:
    rows = [seen] if seen.mixed is None else [seen, seen.mixed]
    return np.array([np.log(sum(r.failures for r in rows) / sum(r.exposure for r in rows))])


def _weibull_log_scale(shape: float, seen: Lifetimes) -> float:
    """Return the maximum-likelihood log scale for a shape, in closed form."""
    top = float(seen.exit_L.max())
    exposed = seen.weight_L @ ((seen.exit_L / top) ** shape - (seen.entry_L / top) ** shape)
    return float(np.log(top) + np.log(exposed / seen.failures) / shape)


def _weibull_score(log_shape: float, seen: Lifetimes) -> float:
    """Return the derivative of the profile log-likelihood over failures by the shape."""
    shape, top = float(np.exp(log_shape)), float(seen.exit_L.max())
    exit_L, entry_L = seen.exit_L / top, seen.entry_L / top
    power_L, before_L = exit_L**shape, entry_L**shape
    late_L = entry_L > 0.0
    moment_L = power_L * np.log(exit_L)
    moment_L[late_L] -= before_L[late_L] * np.log(entry_L[late_L])
    failed_L = seen.failed_L
    mean_log = (seen.weight_L[failed_L] @ np.log(exit_L[failed_L])) / seen.failures
    ratio = (seen.weight_L @ moment_L) / (seen.weight_L @ (power_L - before_L))
    return float(1.0 / shape + mean_log - ratio)


def _fit_weibull(seen: Lifetimes) -> Float:
    grid = np.linspace(np.log(_SHAPES[0]), np.log(_SHAPES[1]), _GRID)
    with np.errstate(all="ignore"):
        score_G = np.array([_weibull_score(log_shape, seen) for log_shape in grid])
    falls_G = (score_G[:-1] > 0.0) & (score_G[1:] <= 0.0)
    if not falls_G.any():
        raise InfeasibleError(
            f"no Weibull fit for {counted(seen.failures, 'failure')} of {seen.units} units: the"
            " likelihood is unbounded; failures at more than one age are needed"
        )
    roots = [brentq(_weibull_score, grid[g], grid[g + 1], (seen,)) for g in np.flatnonzero(falls_G)]
    fits = [np.array([root, _weibull_log_scale(float(np.exp(root)), seen)]) for root in roots]
    return max(fits, key=lambda inside_P: log_likelihood(WEIBULL, inside_P, seen))


def _weibull_hazard(time_L: Float, inside_P: Float) -> Float:
    log_ratio_L = np.log(time_L) - inside_P[1]
    hazard_L: Float = inside_P[0] - inside_P[1] + (np.exp(inside_P[0]) - 1.0) * log_ratio_L
    return hazard_L


def _weibull_integral(time_L: Float, inside_P: Float) -> Float:
    with np.errstate(over="ignore"):
        integral_L: Float = np.exp(np.exp(inside_P[0]) * (np.log(time_L) - inside_P[1]))
    return integral_L


def _weibull_rest(time_L: Float, inside_P: Float) -> Float:
    with np.errstate(divide="ignore"):
        rest_L: Float = np.log(gammaincc(np.exp(-inside_P[0]), _weibull_integral(time_L, inside_P)))
    return rest_L


def _lognormal_z(time_L: Float, inside_P: Float) -> Float:
    z_L: Float = (np.log(time_L) - inside_P[0]) * np.exp(-inside_P[1])
    return z_L


def _lognormal_hazard(time_L: Float, inside_P: Float) -> Float:
    z_L = _lognormal_z(time_L, inside_P)
    density_L = -_HALF_LOG_2PI - 0.5 * z_L * z_L - inside_P[1] - np.log(time_L)
    hazard_L: Float = density_L - log_ndtr(-z_L)
    return hazard_L


def _lognormal_integral(time_L: Float, inside_P: Float) -> Float:
    integral_L: Float = -log_ndtr(-_lognormal_z(time_L, inside_P))
    return integral_L


def _lognormal_rest(time_L: Float, inside_P: Float) -> Float:
    # integral of S beyond t over the mean: Phi(s - z) - t / mean Phi(-z), s the spread
    sigma, z_L = np.exp(inside_P[1]), _lognormal_z(time_L, inside_P)
    above_L = log_ndtr(sigma - z_L)
    log_mean = inside_P[0] + 0.5 * sigma * sigma
    less_L = np.exp(np.log(time_L) - log_mean + log_ndtr(-z_L) - above_L)
    rest_L: Float = above_L + np.log1p(-np.minimum(less_L, 1.0 - 1e-15))
    return rest_L


def _lognormal_gradient(inside_P: Float, seen: Lifetimes) -> Float:
    sigma = np.exp(inside_P[1])
    z_L = _lognormal_z(seen.exit_L, inside_P)
    failed_L, late_L = seen.failed_L, seen.entry_L > 0.0
    slope_L = np.exp(-_HALF_LOG_2PI - 0.5 * z_L * z_L - log_ndtr(-z_L))
    slope_L = np.where(failed_L, z_L, slope_L)
    by_mu = seen.weight_L @ slope_L / sigma
    by_sigma = seen.weight_L @ (slope_L * z_L) - seen.failures
    if late_L.any():
        e_L = _lognormal_z(seen.entry_L[late_L], inside_P)
        before_L = np.exp(-_HALF_LOG_2PI - 0.5 * e_L * e_L - log_ndtr(-e_L))
        by_mu -= seen.weight_L[late_L] @ before_L / sigma
        by_sigma -= seen.weight_L[late_L] @ (before_L * e_L)
    return np.array([by_mu, by_sigma])


def _fit_lognormal(seen: Lifetimes) -> Float:
    if np.ptp(seen.exit_L[seen.failed_L]) == 0.0:
        raise InfeasibleError(
            f"no lognormal fit for {counted(seen.failures, 'failure')} at one age; failures at"
            " more than one age are needed"
        )
    # Start at the median of the exponential distribution with a spread of one e-fold.
    median = np.log(2.0) * seen.exposure / seen.failures
    start_P = np.array([np.log(median), 0.0])
    optimum = minimize(
        lambda p: -log_likelihood(LOGNORMAL, p, seen) / seen.failures,
        start_P,
        jac=lambda p: -_lognormal_gradient(p, seen) / seen.failures,
        method="BFGS",
        options={"gtol": 1e-9},
    )
    slope_P = np.abs(_lognormal_gradient(optimum.x, seen)) / seen.failures
    if not (np.isfinite(optimum.fun) and slope_P.max() < 1e-4):
        raise InfeasibleError(
            f"no lognormal fit for {counted(seen.failures, 'failure')} of"
            f" {counted(seen.units, 'unit')}: the likelihood has no clear maximum"
        )
    inside_P: Float = optimum.x
    return inside_P


def _exp(value: float) -> float:
    """Return e to a power, inf on overflow."""
    with np.errstate(over="ignore"):
        return float(np.exp(value))


EXPONENTIAL: Final = Family(
    name="exponential",
    parameters=("rate",),
    outside=np.exp,
    log_hazard=lambda time_L, p: np.full(time_L.shape, p[0]),
    hazard_integral=lambda time_L, p: np.exp(p[0]) * time_L,
    fit=_fit_exponential,
    mean=lambda p: _exp(-p[0]),
    log_rest=lambda time_L, p: -np.exp(p[0]) * time_L,
)
WEIBULL: Final = Family(
    name="weibull",
    parameters=("shape", "scale"),
    outside=np.exp,
    log_hazard=_weibull_hazard,
    hazard_integral=_weibull_integral,
    fit=_fit_weibull,
    mean=lambda p: _exp(p[1] + gammaln(1.0 + _exp(-p[0]))),
    log_rest=_weibull_rest,
)
LOGNORMAL: Final = Family(
    name="lognormal",
    parameters=("mu", "sigma"),
    outside=lambda p: np.array([p[0], np.exp(p[1])]),
    log_hazard=_lognormal_hazard,
    hazard_integral=_lognormal_integral,
    fit=_fit_lognormal,
    mean=lambda p: _exp(p[0] + 0.5 * _exp(2.0 * p[1])),
    log_rest=_lognormal_rest,
)
FAMILIES: Final = (EXPONENTIAL, WEIBULL, LOGNORMAL)
