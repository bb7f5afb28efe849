"""The slowest of many ranks: closed forms, quantiles, refusals."""

from __future__ import annotations

import numpy as np
import pytest

from perfatlas.quantities import InvalidSpecError
from perfatlas.sampling import DISTRIBUTIONS, expected_slowdown, slowdown_quantile

RANKS = np.array([1, 2, 3, 64, 8192, 100_000])


def test_expected_maxima_equal_their_closed_forms() -> None:
    """Exponential H(n) - 1, uniform sqrt(3)(n - 1)/(n + 1); normal 1/sqrt(pi) for two ranks."""
    one = np.ones(len(RANKS))
    harmonic = [sum(1 / k for k in range(1, n + 1)) for n in RANKS.tolist()]
    excess = expected_slowdown("exponential", one, RANKS)
    np.testing.assert_allclose(excess, np.array(harmonic) - 1, atol=1e-6)
    excess = expected_slowdown("uniform", one, RANKS)
    np.testing.assert_allclose(excess, np.sqrt(3) * (RANKS - 1) / (RANKS + 1), atol=1e-6)
    excess = expected_slowdown("normal", one, RANKS)
    np.testing.assert_allclose(excess[:3], [0, np.pi**-0.5, 1.5 * np.pi**-0.5], atol=1e-6)
    # 64 ranks: 2.3437 (tables of normal order statistics)
    assert excess[3] == pytest.approx(2.3437, abs=1e-3)


@pytest.mark.parametrize("distribution", list(DISTRIBUTIONS))
def test_quantiles_are_those_of_sampled_maxima(distribution: str) -> None:
    rng = np.random.default_rng(5)
    draws = {
        "normal": lambda: rng.normal(size=(40_000, 16)),
        "exponential": lambda: rng.exponential(size=(40_000, 16)) - 1,
        "uniform": lambda: rng.uniform(-(3**0.5), 3**0.5, size=(40_000, 16)),
    }[distribution]().max(axis=1)
    sixteen, tenth = np.array([16]), np.array([0.1])
    for probability in (0.05, 0.5, 0.95):
        quantile = slowdown_quantile(distribution, tenth, sixteen, probability)[0]
        assert np.mean(0.1 * draws <= quantile) == pytest.approx(probability, abs=0.01)
    assert expected_slowdown(distribution, tenth, sixteen)[0] == pytest.approx(
        0.1 * draws.mean(), abs=0.002
    )


@pytest.mark.parametrize("distribution", list(DISTRIBUTIONS))
def test_more_ranks_and_more_deviation_slow_a_step_further(distribution: str) -> None:
    excess = expected_slowdown(distribution, np.full(len(RANKS), 0.02), RANKS)
    assert excess[0] == 0
    assert np.all(np.diff(excess) > 0)
    twice = expected_slowdown(distribution, np.full(len(RANKS), 0.04), RANKS)
    np.testing.assert_allclose(twice, 2 * excess)


def test_numbers_out_of_range_are_refused() -> None:
    one, two = np.array([0.1]), np.array([2])
    with pytest.raises(InvalidSpecError, match="did you mean 'normal'"):
        expected_slowdown("norml", one, two)
    with pytest.raises(InvalidSpecError, match="not negative"):
        expected_slowdown("normal", -one, two)
    with pytest.raises(InvalidSpecError, match="at least one rank"):
        expected_slowdown("normal", one, 0 * two)
    with pytest.raises(InvalidSpecError, match="probability is 1"):
        slowdown_quantile("normal", one, two, 1.0)
