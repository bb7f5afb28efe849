from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st

from perfatlas.quantities import InvalidSpecError
from perfatlas.reliability.telemetry.fits import kaplan_meier
from perfatlas.reliability.telemetry.history import lifetimes


def test_a_curve_by_hand() -> None:
    # at risk 5, 4, 2: S = 4/5, 4/5 * 3/4, 4/5 * 3/4 * 1/2
    curve = kaplan_meier(lifetimes([1.0, 2.0, 2.5, 3.0, 4.0], [True, True, False, True, False]))
    assert curve.time_T.tolist() == [1.0, 2.0, 3.0]
    assert curve.at_risk_T.tolist() == [5.0, 4.0, 2.0]
    assert curve.survival_T == pytest.approx([0.8, 0.6, 0.3])
    # Greenwood: S^2 sum d / (n (n - d))
    second = 0.6 * math.sqrt(1 / (5 * 4) + 1 / (4 * 3))
    wide = 1.959963985 * second / (0.6 * -math.log(0.6))
    assert curve.low_T[1] == pytest.approx(0.6 ** math.exp(wide))
    assert curve.high_T[1] == pytest.approx(0.6 ** math.exp(-wide))
    assert curve.at([0.5, 1.0, 2.9, 4.0]) == pytest.approx([1.0, 0.8, 0.6, 0.3])
    with pytest.raises(InvalidSpecError, match="largest observed age, 4"):
        curve.at(4.1)


def test_without_failures_all_live() -> None:
    curve = kaplan_meier(lifetimes([1.0, 2.0], [False, False]))
    assert curve.time_T.size == 0
    assert curve.at([0.0, 2.0]).tolist() == [1.0, 1.0]


def test_units_that_come_late_are_not_at_risk_before() -> None:
    curve = kaplan_meier(
        lifetimes([1.0, 3.0, 4.0, 4.0], [True, True, False, False], [0.0, 0.0, 2.0, 1.0])
    )
    # at 1 two were watched (the third came at 2, the last comes just then); at 3 three
    assert curve.at_risk_T.tolist() == [2.0, 3.0]
    assert curve.survival_T == pytest.approx([0.5, 1.0 / 3.0])


def test_a_curve_that_ends_at_zero_claims_no_interval() -> None:
    curve = kaplan_meier(lifetimes([1.0, 2.0], [True, True]))
    assert curve.survival_T.tolist() == [0.5, 0.0]
    assert np.isnan([curve.low_T[1], curve.high_T[1]]).all()


@given(st.lists(st.integers(1, 9), min_size=1, max_size=40))
def test_without_censoring_it_is_the_share_that_lives_longer(ages: list[int]) -> None:
    curve = kaplan_meier(lifetimes(ages, [True] * len(ages)))
    for age in range(1, max(ages) + 1):
        longer = sum(one > age for one in ages) / len(ages)
        assert curve.at(age)[0] == pytest.approx(longer, abs=1e-12)


@given(st.lists(st.tuples(st.integers(1, 9), st.booleans()), min_size=1, max_size=40))
def test_it_falls_and_stays_in_its_interval(rows: list[tuple[int, bool]]) -> None:
    curve = kaplan_meier(lifetimes([age for age, _ in rows], [failed for _, failed in rows]))
    assert np.all(np.diff(curve.survival_T) < 0.0)
    alive = curve.survival_T > 0.0
    assert np.all(curve.low_T[alive] <= curve.survival_T[alive])
    assert np.all(curve.survival_T[alive] <= curve.high_T[alive])
    assert np.all((curve.low_T[alive] >= 0.0) & (curve.high_T[alive] <= 1.0))
