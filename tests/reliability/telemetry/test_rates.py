from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy.stats import poisson

from perfatlas.sampling import exact_rate_interval, rate_posterior


def test_published_intervals() -> None:
    # 419 failures: -9.3% and +10.0%; none in T: at most 3.0 / T
    low, high = exact_rate_interval(419, 1.0)
    assert low / 419 - 1.0 == pytest.approx(-0.093, abs=5e-4)
    assert high / 419 - 1.0 == pytest.approx(0.100, abs=6e-4)
    assert exact_rate_interval(0, 10.0)[0] == 0.0
    assert exact_rate_interval(0, 10.0)[1] == pytest.approx(0.2996, abs=5e-5)


def test_a_posterior_by_hand() -> None:
    told = rate_posterior(3, 7.0, prior=(2.0, 3.0))
    assert (told.shape, told.mean_per_s) == (5.0, 0.5)
    assert told.low_per_s < 0.5 < told.high_per_s


@given(st.integers(1, 500), st.floats(1e-3, 1e9))
def test_exact_ends_make_the_count_just_unlikely(events: int, exposure: float) -> None:
    low, high = exact_rate_interval(events, exposure)
    assert poisson.sf(events - 1, low * exposure) == pytest.approx(0.025, rel=1e-6)
    assert poisson.cdf(events, high * exposure) == pytest.approx(0.025, rel=1e-6)


def test_the_posterior_covers_at_its_level() -> None:
    random = np.random.default_rng(1)
    covered = 0
    for events in random.poisson(12.0, 2000).tolist():
        told = rate_posterior(events, 6.0)
        covered += told.low_per_s <= 2.0 <= told.high_per_s
    assert covered / 2000 == pytest.approx(0.95, abs=0.02)
