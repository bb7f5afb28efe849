from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st

from perfatlas.serving import requests

rates = st.floats(1e-2, 1e4)
seeds = st.integers(0, 2**63)
cvs = st.floats(0.0, 4.0) | st.sampled_from([0.0, 1e-300, 1e-6, 1e3])


@given(st.integers(1, 300), rates, cvs, seeds)
def test_arrivals_rise_from_zero_and_repeat(count: int, rate: float, cv: float, seed: int) -> None:
    draws = [
        requests.gamma_arrivals(count, rate, cv, seed),
        requests.poisson_arrivals(count, rate, seed),
        requests.constant_arrivals(count, rate),
        requests.ramp_arrivals(count, (rate, 2 * rate), 3.0, cv, seed),
    ]
    again = requests.gamma_arrivals(count, rate, cv, seed)
    assert draws[0].tobytes() == again.tobytes()
    for arrival_N in draws:
        assert arrival_N.dtype == np.int64
        assert arrival_N.shape == (count,)
        assert arrival_N[0] == 0
        assert np.all(np.diff(arrival_N) >= 0)


@given(rates, seeds)
def test_more_requests_leave_the_first_as_they_were(rate: float, seed: int) -> None:
    few, many = (requests.gamma_arrivals(count, rate, 2.0, seed) for count in (20, 200))
    assert np.array_equal(few, many[:20])


@given(rates, st.floats(0.1, 10.0), cvs, seeds)
def test_another_rate_keeps_the_pattern(rate: float, factor: float, cv: float, seed: int) -> None:
    slow = requests.gamma_arrivals(100, rate, cv, seed)
    fast = requests.gamma_arrivals(100, rate * factor, cv, seed)
    # 99 gaps, each rounded to a whole picosecond at both rates
    assert np.allclose(fast * factor, slow, rtol=1e-9, atol=100 * (1 + factor))


@pytest.mark.parametrize("cv", [0.5, 1.0, 3.0])
def test_gaps_have_the_rate_and_the_coefficient_of_variation(cv: float) -> None:
    count, rate = 200_000, 8.0
    gap_s = np.diff(requests.gamma_arrivals(count, rate, cv, seed=1)) / requests.TICKS_PER_SECOND
    # five standard errors: cv / sqrt(n) of the mean; of a gamma's variance sqrt((2 + 6 cv^2) / n)
    assert abs(gap_s.mean() * rate - 1.0) < 5 * cv / math.sqrt(count)
    cv_error = 0.5 * math.sqrt((2 + 6 * cv**2) / count) + cv / math.sqrt(count)
    assert abs(gap_s.std() / gap_s.mean() / cv - 1.0) < 5 * cv_error


def test_poisson_gaps_are_exponential() -> None:
    gap_s = np.diff(requests.poisson_arrivals(100_000, 2.0, seed=3)) / requests.TICKS_PER_SECOND
    # P(gap > 1/rate) = 1/e, standard error sqrt(p (1 - p) / n) = 0.0015
    assert abs(np.mean(gap_s > 0.5) - math.exp(-1)) < 5 * 0.0015


def test_ramp_follows_the_cumulative_rate() -> None:
    # R(t) = 2 t + (6 - 2) t^2 / (2 x 4): by 4 s 16 arrived, at 2 s 4 + 2 = 6, then 6 each second
    arrival_N = requests.ramp_arrivals(29, (2.0, 6.0), 4.0, 0.0, seed=0)
    assert arrival_N[6] == 2 * requests.TICKS_PER_SECOND
    assert arrival_N[16] == 4 * requests.TICKS_PER_SECOND
    assert arrival_N[28] == 6 * requests.TICKS_PER_SECOND


@given(rates, seeds)
def test_a_flat_ramp_is_a_constant_rate(rate: float, seed: int) -> None:
    flat = requests.ramp_arrivals(50, (rate, rate), 7.0, 1.5, seed)
    constant = requests.gamma_arrivals(50, rate, 1.5, seed)
    assert np.allclose(flat, constant, rtol=1e-9, atol=100)


def test_ramp_without_length_has_the_last_rate() -> None:
    assert np.array_equal(
        requests.ramp_arrivals(9, (5.0, 4.0), 0.0, 0.0, seed=0), requests.constant_arrivals(9, 4.0)
    )


def test_an_endless_rate_sends_all_at_once() -> None:
    assert not requests.all_at_once(4).any()
    assert np.array_equal(requests.poisson_arrivals(4, math.inf, seed=0), requests.all_at_once(4))
    assert np.array_equal(requests.constant_arrivals(4, math.inf), requests.all_at_once(4))


def test_streams_of_purposes_and_places_differ() -> None:
    first = {
        requests.stream(5, p).random() for p in ("arrivals", "isl", "osl", "rows", "turns", "think")
    }
    first |= {requests.stream(5, "isl", place).random() for place in range(3)}
    assert len(first) == 9
