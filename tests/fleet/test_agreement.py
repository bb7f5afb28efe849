"""The simulator against the closed forms, as far as that takes seconds; the rest is `validate`."""

from __future__ import annotations

import math

import numpy as np
import pytest

from perfatlas.fleet.agreement import (
    HALF_WIDTH,
    MTTIS_S,
    RESTARTS_S,
    WRITES_S,
    Agreement,
    ageing_study,
    pattern_study,
    renewal_study,
    spares_study,
)
from perfatlas.fleet.model import Level, Restart, Strategy, one_cause
from perfatlas.fleet.renewal import optimal_interval_s, renewal_efficiency
from perfatlas.fleet.simulate import Job, simulate

pytestmark = pytest.mark.timeout(300)  # the first one compiles the simulator


def assert_agree(rows: list[Agreement]) -> None:
    for row in rows:
        assert abs(row.z) <= 3.0, f"{row.group}, {row.name}: {row.simulated} not {row.exact}"
    # and together: the sum of squares of n standard normals
    total = sum(row.z**2 for row in rows)
    assert total < len(rows) + 4 * math.sqrt(2 * len(rows))


def test_the_study_has_at_least_36_points() -> None:
    assert len(MTTIS_S) * len(WRITES_S) * len(RESTARTS_S) >= 36
    assert HALF_WIDTH <= 0.002


def test_renewal_efficiency_over_36_points_with_exposed_restarts_and_3_safe_ones() -> None:
    rows = renewal_study(half_width=0.005)
    assert [row.name.endswith("safe") for row in rows] == [False] * 36 + [True] * 3
    assert_agree(rows)


def test_asynchronous_multilevel_and_verified_patterns() -> None:
    rows = pattern_study()
    assert [round(row.exact, 5) for row in rows[:2]] == [0.7297, 0.80754]
    assert_agree(rows)
    assert all(row.half_width <= HALF_WIDTH for row in rows)


def test_waiting_for_spares_is_erlang_b_for_any_repair() -> None:
    rows = spares_study(replicas=60)
    assert len({row.exact for row in rows[:4]}) == 1
    assert_agree(rows)


def test_ageing_parts_keep_their_age() -> None:
    rows = ageing_study(replicas=200)
    assert [row.exact for row in rows if row.group == "long-run failures"] == [307.2] * 3
    assert_agree(rows)


def test_the_optimum_of_the_simulated_curve_is_the_exact_one() -> None:
    mtti_s, write_s = 1.8 * 3600, 300.0
    best = float(optimal_interval_s(write_s, mtti_s))
    job = Job(fleet=one_cause(mtti_s, 8), units=8, horizon_s=2000 * mtti_s)
    factors = np.array([0.6, 0.8, 1.0, 1.25, 1.6])
    strategies = [
        Strategy(
            interval_s=best * factor,
            levels=(Level(write_s=write_s),),
            restarts=(Restart(name="restart", phases={"all": 900.0}),),
        )
        for factor in factors
    ]
    found = [simulate(job, strategy, replicas=200).goodput for strategy in strategies]
    exact = renewal_efficiency(best * factors, write_s, 900.0, mtti_s).value_C
    assert int(np.argmax(found)) == 2
    np.testing.assert_allclose(found, exact, rtol=2e-3)


@pytest.mark.parametrize("mtti_s", [1e5, 1e6, 1e7])
def test_formulas_of_the_literature_converge_to_the_exact_one(mtti_s: float) -> None:
    from perfatlas.fleet.estimates import linear_goodput, meta_ettr, saxena_availability
    from perfatlas.fleet.intervals import young_interval_s

    tau = young_interval_s(1.0, mtti_s).value_C
    exact = float(renewal_efficiency(tau, 1.0, 10.0, mtti_s).value_C)
    for estimate in (meta_ettr, linear_goodput, saxena_availability):
        value = float(estimate(tau, 1.0, 10.0, mtti_s).value_C)
        assert abs(value - exact) < 3.0 / mtti_s
