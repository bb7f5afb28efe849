from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st

from perfatlas.quantities import InvalidSpecError
from perfatlas.serving import requests

seeds = st.integers(0, 2**63)
bounds = st.tuples(st.integers(1, 10**6), st.integers(1, 10**6)).map(sorted)


@given(st.integers(1, 200), bounds, seeds)
def test_uniform_lengths_lie_inside_and_repeat(count: int, ends: list[int], seed: int) -> None:
    low, high = ends
    length_N = requests.uniform_lengths(count, (low, high), "isl", seed)
    assert length_N.dtype == np.int64
    assert low <= length_N.min() <= length_N.max() <= high
    assert length_N.tobytes() == requests.uniform_lengths(count, (low, high), "isl", seed).tobytes()


@given(seeds, st.floats(0.1, 10.0))
def test_the_rate_does_not_change_the_lengths(seed: int, rate: float) -> None:
    before = requests.uniform_lengths(30, (1, 9999), "isl", seed)
    requests.gamma_arrivals(30, rate, 2.0, seed)
    assert np.array_equal(before, requests.uniform_lengths(30, (1, 9999), "isl", seed))
    assert not np.array_equal(before, requests.uniform_lengths(30, (1, 9999), "osl", seed))


def test_both_ends_of_a_range_come_up_evenly() -> None:
    length_N = requests.uniform_lengths(60_000, (3, 8), "osl", seed=2)
    counts = np.bincount(length_N)[3:]
    # six lengths of 10,000 each, five standard deviations of sqrt(n p q) = 91
    assert np.all(np.abs(counts - 10_000) < 5 * 91)


def test_range_around_floors_and_ceils() -> None:
    # 101 x 0.9 = 90.9 and 101 x 1.1 = 111.1
    assert requests.range_around(101, 0.1) == (90, 112)
    assert requests.range_around(1, 0.9) == (1, 2)
    assert requests.range_around(64, 0.0) == (64, 64)


def test_lognormal_of_median_and_p99_by_hand() -> None:
    # sigma = ln(8) / 2.32635 = 0.89387
    shape = requests.lognormal(median=1000, p99=8000)
    assert shape.mu == pytest.approx(math.log(1000))
    assert shape.sigma == pytest.approx(0.89387, abs=1e-5)


@given(st.floats(1.0, 1e6), st.floats(1.0, 14.9))
def test_lognormal_of_mean_and_p99_has_both(mean: float, ratio: float) -> None:
    p99 = min(mean * ratio, float(requests.MAX_TOKENS))
    shape = requests.lognormal(mean=mean, p99=p99)
    assert math.exp(shape.mu + shape.sigma**2 / 2) == pytest.approx(mean, rel=1e-9)
    assert math.exp(shape.mu + 2.3263478740408408 * shape.sigma) == pytest.approx(p99, rel=1e-9)


def test_lognormal_sample_has_its_quantiles_and_mean() -> None:
    shape = requests.lognormal(mean=1155, sigma=0.8)
    length_N = requests.lognormal_lengths(200_000, shape, "isl", seed=4)
    # standard errors: 0.21% of the mean (cv 0.947), 0.67% of the 99th percentile
    assert length_N.mean() == pytest.approx(1155, rel=5 * 0.0021)
    p99 = math.exp(shape.mu + 2.32635 * 0.8)
    assert np.quantile(length_N, 0.99) == pytest.approx(p99, rel=5 * 0.0067)


@given(st.floats(1.0, 100.0), st.floats(0.0, 10.0), seeds)
def test_lognormal_lengths_are_whole_and_bounded(median: float, sigma: float, seed: int) -> None:
    length_N = requests.lognormal_lengths(
        50, requests.lognormal(median=median, sigma=sigma), "isl", seed
    )
    assert length_N.dtype == np.int64
    assert length_N.min() >= 1
    assert length_N.max() <= requests.MAX_TOKENS


@given(st.lists(st.tuples(st.integers(1, 99), st.integers(1, 99)), min_size=1), seeds)
def test_empirical_rows_stay_together(rows: list[tuple[int, int]], seed: int) -> None:
    isl_E, osl_E = (np.array(column) for column in zip(*rows, strict=True))
    isl_N, osl_N = requests.empirical_lengths(40, isl_E, osl_E, seed)
    assert set(zip(isl_N.tolist(), osl_N.tolist(), strict=True)) <= set(rows)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: requests.fixed_lengths(3, 0), "length = 0 tokens"),
        (lambda: requests.range_around(100, 1.0), "range ratio = 1.0"),
        (lambda: requests.uniform_lengths(3, (8, 7), "isl", 0), "from 8 to 7"),
        (lambda: requests.uniform_lengths(3, (0, 7), "isl", 0), "bound = 0 tokens"),
        (lambda: requests.lognormal(median=5), "one of p99, sigma"),
        (lambda: requests.lognormal(median=5, mean=6, sigma=1), "one of median, mean"),
        (lambda: requests.lognormal(median=500, p99=400), "p99 = 400 is below the median 500"),
        (lambda: requests.lognormal(mean=100, p99=1500), "between the mean and 14.97 times it"),
        (lambda: requests.lognormal(mean=100, p99=90), "no lognormal has mean 100 and p99 90"),
        (lambda: requests.lognormal(mean=0.5, sigma=1), "mean = 0.5"),
        (lambda: requests.lognormal(median=5, sigma=math.nan), "sigma = nan"),
        (
            lambda: requests.empirical_lengths(3, np.zeros(0, int), np.zeros(0, int), 0),
            "sample of 0",
        ),
        (
            lambda: requests.empirical_lengths(3, np.array([5, 0]), np.array([1, 1]), 0),
            "isl of the sample",
        ),
    ],
)
def test_lengths_out_of_range_are_refused(call: object, words: str) -> None:
    assert callable(call)
    with pytest.raises(InvalidSpecError, match=words):
        call()
