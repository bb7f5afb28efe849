"""Goodness of fit: a chi-square test of observed and expected failures by age.

Source: Hjort, Annals of Statistics 18 (1990), goodness of fit by cumulative hazards: observed minus
    expected failures of age cells are jointly normal; their covariance is that of the counts less
    the part due to fitting the parameters.

Shape legend: J cells of age, P parameters, L lifetimes.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
from scipy.stats import chi2

from perfatlas.quantities import InfeasibleError, counted, significant, two_digits
from perfatlas.reliability.telemetry.fits.distributions import FAMILIES, log_likelihood

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfatlas.reliability.telemetry.fits.distributions import Family
    from perfatlas.reliability.telemetry.fits.maximum_likelihood import Fit
    from perfatlas.reliability.telemetry.history import Lifetimes

    Float = NDArray[np.float64]

_CELLS: Final = 8
_MIN_FAILURES: Final = 5.0  # expected in a cell, the usual rule for chi-square tests
_STEP: Final = 1e-4


@dataclass(frozen=True, kw_only=True)
class Fitness:
    """Result of a goodness-of-fit test."""

    family: str
    edges_J: Float  # Cell boundaries, the first 0 (J+1,) [unit of the lifetimes]
    observed_J: Float  # Observed failures (J,)
    expected_J: Float  # Expected failures of the units at risk (J,)
    statistic: float  # Chi-square statistic
    degrees: int  # Its degrees of freedom
    p_value: float  # Probability of a statistic at least as large if the distribution is right

    def text(self) -> str:
        """Return a summary sentence."""
        worst = int(np.argmax(np.abs(self.observed_J - self.expected_J) / np.sqrt(self.expected_J)))
        low, high = self.edges_J[worst], self.edges_J[worst + 1]
        cell = (
            f"{counted(int(self.observed_J[worst]), 'failure')}, expected"
            f" {significant(self.expected_J[worst])}"
        )
        verdict = "fits" if self.p_value >= 0.05 else "does not fit"
        return (
            f"{self.family} {verdict}: chi-square {self.statistic:.1f} with"
            f" {counted(self.degrees, 'degree')}, p = {two_digits(self.p_value)}; worst between"
            f" {significant(low)} and {significant(high)}: {cell}"
        )


def fitness(fit: Fit, seen: Lifetimes) -> Fitness:
    """Return the goodness of fit of a distribution to its lifetimes.

    Raises:
        InfeasibleError: There are too few failures or distinct ages.

    Limits: Asymptotic; valid from about five expected failures per cell. With many thousand
        failures every simple distribution is rejected: inspect the cells for the size of the
        deviation.
    """
    family = next(f for f in FAMILIES if f.name == fit.family)
    inside_P = _inside(family, fit)
    edges_J = _edges(seen)
    count = edges_J.size - 1
    if count <= inside_P.size:
        raise InfeasibleError(
            f"{counted(seen.failures, 'failure')}: too few to test a distribution with"
            f" {inside_P.size} parameters; about {int(_MIN_FAILURES) * (inside_P.size + 1)} at"
            " different ages are needed"
        )
    failed_L = seen.failed_L
    place_L = np.searchsorted(edges_J, seen.exit_L[failed_L], side="left") - 1
    observed_J = np.zeros(count)
    np.add.at(observed_J, np.minimum(place_L, count - 1), seen.weight_L[failed_L])
    expected_J = _expected(family, inside_P, seen, edges_J)
    covariance_JJ = _covariance(family, inside_P, seen, edges_J, expected_J)
    excess_J = observed_J - expected_J
    values_J, vectors_JJ = np.linalg.eigh(covariance_JJ / expected_J.mean())
    regular_J = values_J > 1e-6
    along_J = vectors_JJ[:, regular_J].T @ excess_J
    statistic = float(np.sum(along_J**2 / values_J[regular_J]) / expected_J.mean())
    degrees = int(regular_J.sum())
    return Fitness(
        family=fit.family,
        edges_J=edges_J,
        observed_J=observed_J,
        expected_J=expected_J,
        statistic=statistic,
        degrees=degrees,
        p_value=float(chi2.sf(statistic, degrees)),
    )


def _inside(family: Family, fit: Fit) -> Float:
    value_P = np.array([fit.parameters[name] for name in family.parameters])
    if family.name == "lognormal":
        return np.array([value_P[0], np.log(value_P[1])])
    inside_P: Float = np.log(value_P)
    return inside_P


def _edges(seen: Lifetimes) -> Float:
    """Return the boundaries of cells with about equal failures (J+1,); ties stay together."""
    failed_L = seen.failed_L
    order_L = np.argsort(seen.exit_L[failed_L])
    age_L, weight_L = seen.exit_L[failed_L][order_L], seen.weight_L[failed_L][order_L]
    wanted = int(min(_CELLS, weight_L.sum() // _MIN_FAILURES))
    total_L = np.cumsum(weight_L)
    inner = [
        age_L[np.searchsorted(total_L, total_L[-1] * j / wanted)] for j in range(1, max(wanted, 1))
    ]
    return np.unique([0.0, *inner, float(seen.exit_L.max())])


def _expected(family: Family, inside_P: Float, seen: Lifetimes, edges_J: Float) -> Float:
    expected = []
    for low, high in itertools.pairwise(edges_J):
        first_L = np.clip(seen.entry_L, low, high)
        last_L = np.clip(seen.exit_L, low, high)
        risk_L = last_L > first_L
        first_L, last_L, weight_L = first_L[risk_L], last_L[risk_L], seen.weight_L[risk_L]
        begun_L = np.zeros_like(first_L)
        late_L = first_L > 0.0
        begun_L[late_L] = family.hazard_integral(first_L[late_L], inside_P)
        expected.append(weight_L @ (family.hazard_integral(last_L, inside_P) - begun_L))
    return np.array(expected)


def _covariance(
    family: Family, inside_P: Float, seen: Lifetimes, edges_J: Float, expected_J: Float
) -> Float:
    """Return the covariance of observed minus expected (J, J), corrected for fitting."""
    count = inside_P.size
    step_PP = _STEP * np.eye(count)
    slope_PJ = np.array(
        [
            _expected(family, inside_P + step_P, seen, edges_J)
            - _expected(family, inside_P - step_P, seen, edges_J)
            for step_P in step_PP
        ]
    ) / (2.0 * _STEP)
    information_PP = np.empty((count, count))
    for i in range(count):
        for j in range(count):
            corners = [
                (a * b) * log_likelihood(family, inside_P + a * step_PP[i] + b * step_PP[j], seen)
                for a in (1.0, -1.0)
                for b in (1.0, -1.0)
            ]
            information_PP[i, j] = -sum(corners) / (4.0 * _STEP**2)
    used_JJ = slope_PJ.T @ np.linalg.solve(information_PP, slope_PJ)
    covariance_JJ: Float = np.diag(expected_J) - used_JJ
    return covariance_JJ
