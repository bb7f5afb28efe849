"""Cost of owning a GPU: by hand, at limits, and in parts that sum to it."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, strategies as st

from perfatlas.cost import HourlyCost, recovery_factor

RATES = st.floats(0.0, 0.5)
YEARS = st.floats(0.5, 20.0)
SHARES = st.floats(0.0, 1.0)


def test_recovery_by_hand() -> None:
    """1,000 USD at 10% over 2 years, 100 left: 1,000 = x/1.1 + x/1.21 + 100/1.21."""
    yearly = 1000.0 * recovery_factor(0.1, 2.0, 0.1)
    assert yearly / 1.1 + (yearly + 100.0) / 1.21 == pytest.approx(1000.0)
    assert recovery_factor(0.0, 4.0, 0.2) == pytest.approx(0.2)


@given(rate=RATES, life=YEARS, left=SHARES)
def test_recovery_is_monotone(rate: float, life: float, left: float) -> None:
    factor = recovery_factor(rate, life, left)
    assert factor >= -1e-12
    assert recovery_factor(rate, life, left / 2.0) >= factor - 1e-12
    assert recovery_factor(rate + 0.01, life, left) >= factor - 1e-9


def test_hour_by_hand() -> None:
    """Half of the hours idle: (1 + 0.5 + 0.5 x 0.2 + 0.5 x 0.1) / 0.5 / 0.8 USD per useful hour."""
    cost = HourlyCost(gpu=1.0, network=0.5, usd_per_kwh=0.1, pue=2.0, utilization=0.5, goodput=0.8)
    parts = cost.parts(busy_w=1000.0, idle_w=500.0)
    assert sum(parts.values()) == pytest.approx((1.5 + 0.5 * 0.2 + 0.5 * 0.1) / 0.5 / 0.8)
    assert parts["power"] == pytest.approx(0.2)
    assert parts["failures"] == pytest.approx(0.2 * sum(parts.values()))


@given(u=st.floats(0.001, 1.0), goodput=st.floats(0.001, 1.0))
def test_parts_are_not_negative_and_sum(u: float, goodput: float) -> None:
    cost = HourlyCost(gpu=2.0, utilization=u, goodput=goodput)
    parts = cost.parts()
    assert min(parts.values()) >= 0.0
    assert sum(parts.values()) == pytest.approx(2.0 / u / goodput)


def test_full_use_costs_what_is_paid() -> None:
    assert sum(HourlyCost(gpu=2.0).parts().values()) == 2.0


def test_no_pue_on_all_in_power() -> None:
    cost = HourlyCost(gpu=0.0, usd_per_kwh=0.1, pue=1.5, all_in_w=1000.0)
    assert float(cost.parts(math.nan)["power"]) == pytest.approx(0.1)
    assert float(cost.parts(1000.0)["power"]) == pytest.approx(0.15)
