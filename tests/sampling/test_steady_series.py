"""Warm-up by MSER-5, the window that is measured, and confidence intervals of batches."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st

from perfatlas.sampling import batch_precision, warm_up


def test_a_warm_up_worked_by_hand() -> None:
    # batches of five: 10, 1, 1, 1, 1, 1, 1; after the first their spread, and so the error, is 0
    values = np.repeat([10.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0], 5)
    assert warm_up(values) == 5


def test_a_run_that_never_settles_is_cut_at_half() -> None:
    assert warm_up(np.arange(1000.0)) == 500


def test_too_few_observations_have_no_warm_up() -> None:
    assert warm_up(np.array([9.0, 1.0, 1.0])) == 0


def test_precision_worked_by_hand() -> None:
    # 20 batches of ten, alternately 1 and 3: mean 2, sample variance of batch means 20/19;
    # neighbours differ, so that no likeness widens it; t(0.95, 19 degrees) = 1.7291
    values = np.tile(np.repeat([1.0, 3.0], 10), 10)
    found = batch_precision(values)
    assert found.value == 2.0
    assert found.half_width == pytest.approx(1.7291 * math.sqrt(20 / 19 / 20), rel=1e-4)
    assert found.relative == found.half_width / 2.0


def test_neighbours_that_are_alike_widen_the_interval() -> None:
    draw = np.random.default_rng(1).normal(size=2000)
    walk = np.cumsum(draw)
    apart = batch_precision(np.random.default_rng(2).permutation(walk))
    assert batch_precision(walk).half_width > 3.0 * apart.half_width


def test_too_few_observations_have_no_interval() -> None:
    assert batch_precision(np.ones(50)).half_width == math.inf
    assert math.isnan(batch_precision(np.full(50, np.nan)).value)


@given(st.integers(0, 1000))
def test_a_confidence_interval_of_independent_draws_shrinks_with_their_number(seed: int) -> None:
    draw = np.random.default_rng(seed)
    few, many = (batch_precision(draw.exponential(size=size)).half_width for size in (400, 40_000))
    assert many < few


def test_nine_of_ten_intervals_hold_the_mean() -> None:
    # AR(1) with a known mean, started at it: 90% intervals, 300 runs, so 270 +- 16 (3 sigma)
    held = 0
    for seed in range(300):
        draw = np.random.default_rng(seed).normal(size=4000)
        state, values = 0.0, np.empty(4000)
        for at, step in enumerate(draw.tolist()):
            state = 0.9 * state + step
            values[at] = state
        found = batch_precision(values)
        held += abs(found.value) <= found.half_width
    assert 254 <= held <= 290
