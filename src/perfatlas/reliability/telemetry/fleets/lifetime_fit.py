"""Analysis of a lifetime table: fitted distributions, survival curve, goodness of fit.

Shape legend: T ages at which units failed, Q requested ages.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.quantities import InfeasibleError, InvalidSpecError
from perfatlas.reliability.telemetry.fits import compare_families, fitness, kaplan_meier
from perfatlas.reliability.telemetry.fleets.laws import fit_law, law_interval

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfatlas.reliability.telemetry.fits import Fit, SurvivalCurve
    from perfatlas.reliability.telemetry.history import Lifetimes

SURVIVAL_POINTS: Final = 9  # default number of points of a survival curve


def fit_lifetimes(
    seen: Lifetimes,
    *,
    unit: str,
    ages: Sequence[float] = (),
    level: float = 0.95,
    law: str | None = None,
) -> dict[str, Any]:
    """Return the analysis of lifetimes.

    Args:
        unit: Unit of their ages, as in fleet files.
        ages: Ages of the survival curve [unit]; by default nine at which units failed.
        level: Probability of the intervals.
        law: Distribution family; by default the one with the smallest AIC.

    Returns:
        units, failures, exposure, time_unit, level; laws, smallest AIC first, each with its
        parameters (value, low, high; times in `unit`), mean, log_likelihood and aic; declined, the
        families without a fit and why; constant_hazard_p, p-value of the likelihood-ratio test of
        Weibull against exponential; survival, the Kaplan-Meier curve; taken, the chosen family;
        fitness, its goodness of fit; lifetime, its distribution as in fleet files, and
        lifetime_interval, its intervals by the same names.

    Raises:
        InfeasibleError: There are no failures, or the chosen family has no fit.
        InvalidSpecError: An age exceeds the observed range.

    Example:
        >>> from perfatlas.reliability.telemetry.fleets import fit_lifetimes
        >>> from perfatlas.reliability.telemetry.history import lifetimes
        >>> found = fit_lifetimes(lifetimes([2.0, 6.0], [True, False]), unit="y")
        >>> found["lifetime"], found["survival"][0]["share"]
        ({'law': 'exponential', 'mean': '8 y'}, 0.5)
    """
    comparison = compare_families(seen, level)
    taken = comparison.fits[0] if law is None else comparison.fit(law)
    try:
        fits = fitness(taken, seen).text()
    except InfeasibleError as problem:
        fits = f"not tested: {problem}"
    return {
        "units": seen.units,
        "failures": seen.failures,
        "exposure": seen.exposure,
        "time_unit": unit,
        "level": level,
        "laws": [_law(fit) for fit in comparison.fits],
        "declined": dict(comparison.declined),
        "constant_hazard_p": comparison.shape_p_value,
        "survival": _survival(kaplan_meier(seen, level), ages),
        "taken": taken.family,
        "fitness": fits,
        "lifetime": fit_law(taken, unit),
        "lifetime_interval": law_interval(taken, unit),
    }


def _law(fit: Fit) -> dict[str, Any]:
    """Return a distribution with its usual parameters: the exponential one by its mean."""
    if fit.family == "exponential":
        ends = 1.0 / fit.high["rate"], 1.0 / fit.low["rate"] if fit.low["rate"] else math.inf
        parameters = {"mean": _known(1.0 / fit.parameters["rate"], *ends)}
    else:
        parameters = {
            name: _known(value, fit.low[name], fit.high[name])
            for name, value in fit.parameters.items()
        }
    return {
        "law": fit.family,
        "parameters": parameters,
        "mean": fit.mean,
        "log_likelihood": fit.log_likelihood,
        "aic": fit.aic,
    }


def _known(value: float, low: float, high: float) -> dict[str, float]:
    return {"value": value, "low": low, "high": high}


def _survival(curve: SurvivalCurve, ages: Sequence[float]) -> list[dict[str, float]]:
    """Return the curve at ages (Q,): its last step before each."""
    if wrong := [age for age in ages if not age >= 0.0]:
        raise InvalidSpecError(f"survival_at = {wrong[0]:g}: expected an age of zero or more")
    asked = [float(age) for age in ages]
    if not asked:
        rows = np.linspace(0, curve.time_T.size - 1, SURVIVAL_POINTS).round().astype(int)
        asked = np.unique(curve.time_T[rows]).tolist()
    at_Q = np.searchsorted(curve.time_T, asked, side="right") - 1
    told = []
    for age, share, at in zip(asked, curve.at(asked).tolist(), at_Q.tolist(), strict=True):
        low, high = (1.0, 1.0) if at < 0 else (float(curve.low_T[at]), float(curve.high_T[at]))
        told.append({"age": age, "share": share, "low": low, "high": high})
    return told
