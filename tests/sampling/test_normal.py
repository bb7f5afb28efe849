"""The standard normal distribution against tabulated values and scipy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import ndtr, ndtri

from perfatlas.sampling import normal_probability, normal_quantile


def test_tabulated_quantiles() -> None:
    # Abramowitz and Stegun, table 26.1: P(1.6449) = 0.95, P(1.96) = 0.975
    assert [round(normal_quantile(p), 4) for p in (0.5, 0.95, 0.975)] == [0.0, 1.6449, 1.96]


@pytest.mark.parametrize("probability", [1e-300, 1e-12, 0.1, 0.7, 1.0 - 1e-12])
def test_quantile_agrees_with_scipy(probability: float) -> None:
    assert normal_quantile(probability) == pytest.approx(ndtri(probability), rel=1e-13)


def test_ends_are_infinite() -> None:
    assert [normal_quantile(p) for p in (0.0, 1.0)] == [-np.inf, np.inf]


@pytest.mark.parametrize("size", [8, 2000])  # interpreted and compiled
def test_probability_agrees_with_scipy(size: int) -> None:
    value_C = np.concatenate([np.linspace(-30.0, 9.0, size), [-np.inf, np.inf, np.nan]])
    np.testing.assert_allclose(normal_probability(value_C), ndtr(value_C), rtol=1e-12)


@pytest.mark.parametrize("size", [8, 2000])
def test_probabilities_of_both_sides_add_up(size: int) -> None:
    value_C = np.linspace(-5.0, 5.0, size)
    whole_C = normal_probability(value_C) + normal_probability(-value_C)
    np.testing.assert_allclose(whole_C, 1.0, rtol=1e-15)
