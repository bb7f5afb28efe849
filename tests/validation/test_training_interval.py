"""Intervals of training steps of models that the numbers were not fitted to."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import t as student

from validation.runs.model_spread import unfitted_model_interval


def test_the_interval_of_two_models_by_hand() -> None:
    # Two models of two runs: means 0.2 and 0, squares between 0.04, within 0.01 / 2 = 0.0025 x 2.
    residual_R = np.array([0.25, 0.15, 0.05, -0.05])
    between, within = 2 * (0.1**2 + 0.1**2), 4 * 0.05**2 / 2
    share = (1 + 1 / 2) / 2
    parts = share * between, (1 - share) * within
    freedom = sum(parts) ** 2 / (parts[0] ** 2 / 1 + parts[1] ** 2 / 2)
    half = student.ppf(0.95, freedom) * sum(parts) ** 0.5
    found = unfitted_model_interval(residual_R, "aabb", 0.9)
    assert found == pytest.approx((0.1 - half, 0.1 + half))


def test_an_interval_covers_models_that_were_not_fitted() -> None:
    rng = np.random.default_rng(3)
    inside, quantiles = [], []
    for _ in range(400):
        deviation_K = rng.normal(0.0, 0.12, 6)
        run_KR = deviation_K[:, None] + rng.normal(0.0, 0.08, (6, 20))
        known_R, new_R = run_KR[:5].ravel(), run_KR[5]
        low, high = unfitted_model_interval(known_R, np.repeat(list("abcde"), 20).tolist(), 0.9)
        inside.append(((low <= new_R) & (new_R <= high)).mean())
        low, high = np.quantile(known_R, (0.05, 0.95))
        quantiles.append(((low <= new_R) & (new_R <= high)).mean())
    assert np.mean(inside) == pytest.approx(0.9, abs=0.04)
    assert np.mean(quantiles) < 0.85


def test_one_model_has_the_quantiles_of_its_runs() -> None:
    residual_R = np.linspace(-0.1, 0.1, 21)
    assert unfitted_model_interval(residual_R, ["a"] * 21, 0.9) == pytest.approx((-0.09, 0.09))
    assert unfitted_model_interval(np.zeros(4), "aabb", 0.9) == (0.0, 0.0)
