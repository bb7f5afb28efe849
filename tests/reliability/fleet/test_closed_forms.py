from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy.optimize import minimize_scalar

from perfatlas.reliability.fleet import closed_form
from perfatlas.reliability.fleet.closed_form.spares import erlang_b
from tests.reliability.fleet.literature import (
    daly_interval_s,
    linear_goodput,
    meta_ettr,
    saxena_availability,
    saxena_interval_s,
    young_interval_s,
)

H = 3600.0
DAY = 86400.0
# M [h], delta [s], R [min]; then the table of worked examples, one row per candidate
MTTI = np.array([7.9, 1.8, 0.23]) * H
WRITE = np.array([60.0, 300.0, 300.0])
RESTART = np.array([5.0, 15.0, 5.0]) * 60.0


def test_exact_optimum_and_named_intervals_match_the_worked_table() -> None:
    optimum = closed_form.optimal_interval_s(WRITE, MTTI) / 60
    young = young_interval_s(WRITE, MTTI) / 60
    daly = daly_interval_s(WRITE, MTTI) / 60
    saxena = saxena_interval_s(WRITE, MTTI, RESTART) / 60
    assert optimum.round(3).tolist() == [30.127, 29.618, 8.678]
    assert young.round(3).tolist() == [30.790, 32.863, 11.747]
    assert daly.round(3).tolist() == [30.127, 29.615, 8.650]
    assert saxena.round(3).tolist() == [30.968, 35.426, 14.595]


def test_exact_efficiency_matches_the_worked_table() -> None:
    at_optimum = closed_form.renewal_efficiency(
        closed_form.optimal_interval_s(WRITE, MTTI), WRITE, RESTART, MTTI
    )
    young = young_interval_s(WRITE, MTTI)
    at_young = closed_form.renewal_efficiency(young, WRITE, RESTART, MTTI)
    saxena = saxena_interval_s(WRITE, MTTI, RESTART)
    at_saxena = closed_form.renewal_efficiency(saxena, WRITE, RESTART, MTTI)
    assert at_optimum.value_C.round(5).tolist() == [0.92662, 0.63165, 0.25833]
    assert at_young.value_C.round(5).tolist() == [0.92660, 0.63070, 0.25049]
    assert at_saxena.value_C.round(5).tolist() == [0.92659, 0.62882, 0.23469]
    assert at_optimum.valid_C.all()
    assert at_optimum.reason_C.tolist() == ["", "", ""]


def test_linear_estimates_match_the_table() -> None:
    young = young_interval_s(WRITE, MTTI)
    meta = meta_ettr(young, WRITE, RESTART, MTTI)
    linear = linear_goodput(young, WRITE, RESTART, MTTI)
    assert meta.round(5).tolist() == [0.92687, 0.61534, 0.14874]
    assert linear.round(5).tolist() == [0.92449, 0.55682, 0.0]


def test_saxena_interval_maximises_its_own_availability() -> None:
    write, mtti, restart = (np.array(value) for value in (300.0, 1.8 * H, 900.0))
    best = float(saxena_interval_s(write, mtti, restart))
    found = minimize_scalar(
        lambda t: -float(saxena_availability(t, write, restart, mtti)),
        bracket=(best / 2, best, best * 2),
    )
    assert found.x == pytest.approx(best, rel=1e-6)


@given(st.floats(-13.0, 1.5))
def test_optimum_agrees_with_a_numeric_one(log_ratio: float) -> None:
    d = 10.0**log_ratio
    x = float(closed_form.optimal_interval_s(d, 1.0))
    # the derivative of the logarithm of x / (e^(x+d) - 1), multiplied by x, changes sign at x
    low, high = 0.0, 1.0
    for _ in range(200):
        middle = (low + high) / 2
        deficit = middle * middle * sum(middle**k / (k + 2) for k in range(60))
        deficit = deficit if middle < 0.5 else -math.log1p(-middle) - middle
        low, high = (middle, high) if deficit < d else (low, middle)
    assert x == pytest.approx(low, rel=1e-6)


@given(st.floats(10.0, 1e5), st.floats(0.0, 1e3), st.floats(0.0, 1e4), st.floats(1e2, 1e7))
def test_efficiency_falls_with_every_cost(
    interval: float, write: float, restart: float, mtti: float
) -> None:
    base = float(closed_form.renewal_efficiency(interval, write, restart, mtti).value_C)
    assert 0.0 <= base <= 1.0
    assert float(closed_form.renewal_efficiency(interval, write + 1, restart, mtti).value_C) <= base
    assert float(closed_form.renewal_efficiency(interval, write, restart + 1, mtti).value_C) <= base
    assert (
        float(closed_form.renewal_efficiency(interval, write, restart, mtti, 1.0).value_C) <= base
    )
    safe = closed_form.renewal_efficiency(interval, write, restart, mtti, restart_exposed=False)
    assert float(safe.value_C) >= base * (1.0 - 1e-12)  # rounding


def test_restart_longer_than_the_mtti_is_said() -> None:
    found = closed_form.renewal_efficiency(600.0, 60.0, 36000.0, 60.0)
    assert found.value_C < 1e-200
    assert "almost no work" in str(found.reason_C)
    # M 1 h, R 2 h: e^-2 x (tau / M) / (e^((tau + 60 s) / M) - 1), tau 10 min: 0.112
    cut = closed_form.renewal_efficiency(600.0, 60.0, 7200.0, 3600.0)
    by_hand = math.exp(-2.0) * (600 / 3600) / math.expm1(660 / 3600)
    assert cut.value_C == pytest.approx(by_hand, rel=1e-12)
    assert 0.11 < by_hand < 0.12
    assert "most restarts are interrupted" in str(cut.reason_C)
    assert str(closed_form.renewal_efficiency(600.0, 60.0, 3600.0, 7200.0).reason_C) == ""
    safe = closed_form.renewal_efficiency(600.0, 60.0, 7200.0, 3600.0, restart_exposed=False)
    assert str(safe.reason_C) == ""  # no failure strikes in a restart


def test_2048_nodes_by_the_exact_form() -> None:
    mtti = DAY / (2048 * 6.5e-3)
    value = closed_form.renewal_efficiency(
        1800.0, 60.0, 720.0, mtti
    ).value_C  # detection exposed as well
    assert value == pytest.approx(0.74794, abs=5e-6)


def test_asynchronous_check_value_and_limit() -> None:
    found = closed_form.asynchronous_efficiency(0.5 * H, 10.0, 0.1 * H, 0.2 * H, 1.8 * H)
    assert found.value_C == pytest.approx(0.729704, abs=5e-7)
    without_lag = closed_form.asynchronous_efficiency(0.5 * H, 10.0, 0.0, 0.2 * H, 1.8 * H)
    blocking = closed_form.renewal_efficiency(0.5 * H, 10.0, 0.2 * H, 1.8 * H)
    assert without_lag.value_C == blocking.value_C
    crowded = closed_form.asynchronous_efficiency(60.0, 1.0, 300.0, 10.0, H)
    assert not crowded.valid_C
    assert "in flight" in str(crowded.reason_C)
    assert closed_form.snapshots_in_flight(60.0, 1.0, 300.0) == 5.0


def test_multilevel_check_value_and_one_level() -> None:
    found = closed_form.multilevel_efficiency(0.2, (1, 6), [0.005, 0.05], [0.02, 0.2], [0.5, 0.1])
    assert found[0] == pytest.approx(0.80754, abs=5e-6)
    one = closed_form.multilevel_efficiency([0.5, 0.7], (1,), 0.02, 0.2, 0.4)
    exact = closed_form.renewal_efficiency([0.5, 0.7], 0.02, 0.2, 2.5).value_C
    np.testing.assert_allclose(one, exact, rtol=1e-12)


def test_three_levels_that_cost_the_same_are_one() -> None:
    three = closed_form.multilevel_efficiency(
        0.5, (1, 2, 6), [0.02] * 3, [0.2] * 3, [0.4, 0.0, 0.0]
    )
    one = closed_form.multilevel_efficiency(0.5, (1,), 0.02, 0.2, 0.4)
    np.testing.assert_allclose(three, one, rtol=1e-12)


def test_verified_pattern_check_value_and_limit() -> None:
    pattern = closed_form.VerifiedPattern(0.02, 0.03, 0.2, 0.05, 1 / 1.8, 1 / 24)
    assert closed_form.verified_time_s(0.5, pattern) == pytest.approx(0.758325, abs=5e-7)
    plain = closed_form.VerifiedPattern(0.0, 0.03, 0.2, 0.05, 1 / 1.8, 0.0)
    exact = 0.5 / closed_form.renewal_efficiency(0.5, 0.03, 0.2, 1.8, 0.05).value_C
    assert closed_form.verified_time_s(0.5, plain) == pytest.approx(float(exact), rel=1e-12)


def test_erlang_b_by_hand_and_the_worked_fleet() -> None:
    assert erlang_b([0, 1, 2], 1.0).tolist() == [1.0, 0.5, 0.2]
    found = closed_form.blocked_probability(2048, [24, 25], 6.5e-3 / DAY, DAY)
    assert found.round(5).tolist() == [0.00136, 0.0007]
    assert closed_form.spares_for(2048, 6.5e-3 / DAY, DAY, blocked=1e-3) == 25


def test_birth_death_reduces_to_erlang_b_and_grows_with_warmth_and_few_crews() -> None:
    cold = closed_form.birth_death_blocked(100, 3, 0.01, 1.0)
    assert cold == pytest.approx(float(erlang_b(4, 1.0)), rel=1e-12)
    assert closed_form.birth_death_blocked(100, 3, 0.01, 1.0, warm=True) > cold
    assert closed_form.birth_death_blocked(100, 3, 0.01, 1.0, crews=1) > cold
    # one crew, no spare: two states, up 1 and down 1
    assert closed_form.birth_death_blocked(100, 0, 0.01, 1.0, crews=1) == pytest.approx(0.5)
    assert closed_form.birth_death_blocked(100, 0, 0.0, 1.0) == 0.0
