"""Fits of censored lifetimes beside those of lifelines, an independent implementation.

lifelines starts its search elsewhere and stops it earlier: parameters agree to its tolerance.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from perfatlas.reliability.telemetry.fits import distributions, kaplan_meier
from perfatlas.reliability.telemetry.fits.maximum_likelihood import fit_family
from perfatlas.reliability.telemetry.history import lifetimes

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of what lifelines imports
    lifelines = pytest.importorskip("lifelines", reason="needs pip install lifelines")

REL = 2e-4
# Family, the fitter of lifelines, and our parameters from its own
CASES: list[tuple[distributions.Family, str, Callable[[Any], dict[str, float]]]] = [
    (distributions.EXPONENTIAL, "ExponentialFitter", lambda f: {"rate": 1.0 / f.lambda_}),
    (distributions.WEIBULL, "WeibullFitter", lambda f: {"shape": f.rho_, "scale": f.lambda_}),
    (distributions.LOGNORMAL, "LogNormalFitter", lambda f: {"mu": f.mu_, "sigma": f.sigma_}),
]


def drawn(seed: int, *, late: bool) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return exit, failed and entry of 400 units of a Weibull distribution, about half of them
    censored.
    """
    random = np.random.default_rng(seed)
    age = 2.0 * random.weibull(1.4, 400)
    end = random.uniform(0.3, 4.0, 400)
    entry = random.uniform(0.0, 0.8, 400) if late else np.zeros(400)
    seen = np.minimum(age, end)
    watched = seen > entry
    return seen[watched], (age <= end)[watched], entry[watched]


def fitted(fitter: Any, *seen: NDArray[Any]) -> Any:  # noqa: ANN401 - a class of lifelines
    exit_L, failed_L, entry_L = seen
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return fitter.fit(exit_L, failed_L, entry=entry_L if entry_L.any() else None)


@pytest.mark.study
@pytest.mark.parametrize("late", [False, True], ids=["from new", "left-truncated"])
@pytest.mark.parametrize(("family", "name", "ours"), CASES, ids=[case[1] for case in CASES])
def test_maximum_likelihood_is_that_of_lifelines(
    family: distributions.Family, name: str, ours: Callable[[Any], dict[str, float]], *, late: bool
) -> None:
    for seed in (3, 4):
        seen = drawn(seed, late=late)
        assert 0.3 < seen[1].mean() < 0.7
        other = fitted(getattr(lifelines, name)(), *seen)
        fit = fit_family(family, lifetimes(*seen))
        assert fit.parameters == pytest.approx(ours(other), rel=REL)
        assert fit.log_likelihood == pytest.approx(other.log_likelihood_, rel=1e-6)


@pytest.mark.parametrize("late", [False, True], ids=["from new", "left-truncated"])
def test_the_survival_curve_is_that_of_lifelines(*, late: bool) -> None:
    exit_L, failed_L, entry_L = drawn(5, late=late)
    exit_L, entry_L = np.ceil(exit_L * 20.0) / 20.0, np.floor(entry_L * 20.0) / 20.0  # ties
    curve = kaplan_meier(lifetimes(exit_L, failed_L, entry_L))
    other = fitted(lifelines.KaplanMeierFitter(), exit_L, failed_L, entry_L)
    at_T = curve.time_T
    assert at_T.size > 20
    survival_T = other.survival_function_at_times(at_T).to_numpy()
    assert curve.survival_T == pytest.approx(survival_T, rel=1e-9)
    interval = other.confidence_interval_survival_function_.loc[at_T].to_numpy()
    known = np.isfinite(curve.low_T)
    assert known.sum() > 20
    assert curve.low_T[known] == pytest.approx(interval[known, 0], rel=1e-6)
    assert curve.high_T[known] == pytest.approx(interval[known, 1], rel=1e-6)
