"""Nonparametric survival curve: Kaplan-Meier with Greenwood's variance.

Source: Kaplan and Meier, JASA 53 (1958); intervals on the scale of log(-log S), Kalbfleisch and
Prentice, The Statistical Analysis of Failure Time Data, 2002, sec. 1.4: they stay in 0 ... 1.

Shape legend: T ages at which units failed, Q requested ages.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from perfatlas.quantities import InvalidSpecError
from perfatlas.sampling import check_level, standard_errors

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from perfatlas.reliability.telemetry.history import Lifetimes

    Float = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class SurvivalCurve:
    """A survival curve with a step at each age at which units failed."""

    time_T: Float  # Ages of failures, rising (T,) [unit of the lifetimes]
    at_risk_T: Float  # Units at risk just before (T,)
    failed_T: Float  # Failures at that age (T,)
    survival_T: Float  # Survival probability (T,)
    low_T: Float  # Lower end of its interval (T,); NaN where the share is 0
    high_T: Float  # Upper end (T,); NaN where the share is 0
    level: float  # Pointwise confidence level
    last: float  # Largest observed age

    def at(self, ages_Q: ArrayLike) -> Float:
        """Return the survival probability at ages (Q,).

        Args:
            ages_Q: The ages (Q,) [unit of the lifetimes].
        """
        ages = np.atleast_1d(np.asarray(ages_Q, np.float64))
        if not (ages <= self.last).all():
            raise InvalidSpecError(
                f"survival at {ages.max():g}: expected at most the largest observed age,"
                f" {self.last:g}; a fitted distribution can extrapolate"
            )
        steps = np.concatenate([[1.0], self.survival_T])
        survival_Q: Float = steps[np.searchsorted(self.time_T, ages, side="right")]
        return survival_Q


def kaplan_meier(seen: Lifetimes, level: float = 0.95) -> SurvivalCurve:
    """Return the survival curve of censored and left-truncated lifetimes.

    Args:
        level: Pointwise confidence level.

    Raises:
        InvalidSpecError: The level is outside 0 to 1.

    Limits: censoring must be independent of the age at failure. With left truncation few units are
        at risk at small ages; where the curve falls to 0 there, it stays 0: see `at_risk_T`.

    Example:
        >>> from perfatlas.reliability.telemetry.fits import kaplan_meier
        >>> from perfatlas.reliability.telemetry.history import lifetimes
        >>> curve = kaplan_meier(lifetimes([1.0, 2.0, 2.0, 4.0], [True, True, False, False]))
        >>> curve.survival_T.tolist()
        [0.75, 0.5]
    """
    check_level(level)
    failed_L = seen.failed_L
    time_T, place_L = np.unique(seen.exit_L[failed_L], return_inverse=True)
    failed_T = np.zeros(time_T.size)
    np.add.at(failed_T, place_L, seen.weight_L[failed_L])
    at_risk_T = _weight_below(seen.entry_L, seen.weight_L, time_T)  # entry < age <= exit
    at_risk_T -= _weight_below(seen.exit_L, seen.weight_L, time_T)
    left_T = at_risk_T - failed_T
    survival_T = np.cumprod(left_T / at_risk_T).astype(np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        spread_T = np.sqrt(np.cumsum(failed_T / (at_risk_T * left_T)))
        log_T = np.log(survival_T)
        wide_T = standard_errors(level) * spread_T / -log_T
        low_T = np.exp(log_T * np.exp(wide_T))
        high_T = np.exp(log_T * np.exp(-wide_T))
    dead_T = survival_T <= 0.0
    return SurvivalCurve(
        time_T=time_T,
        at_risk_T=at_risk_T,
        failed_T=failed_T,
        survival_T=survival_T,
        low_T=np.where(dead_T, np.nan, low_T),
        high_T=np.where(dead_T, np.nan, high_T),
        level=level,
        last=float(seen.exit_L.max()),
    )


def _weight_below(age_L: Float, weight_L: Float, time_T: Float) -> Float:
    order_L = np.argsort(age_L, kind="stable")
    total_L = np.concatenate([[0.0], np.cumsum(weight_L[order_L])])
    below_T: Float = total_L[np.searchsorted(age_L[order_L], time_T, side="left")]
    return below_T
