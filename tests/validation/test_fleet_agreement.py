"""The simulator against the closed forms, as far as that takes seconds; the rest is `validate`."""

from __future__ import annotations

import math

import numpy as np
import pytest

from perfatlas.reliability.fleet.closed_form import optimal_interval_s, renewal_efficiency
from perfatlas.reliability.fleet.model import Job, Level, Restart, Strategy, one_cause
from perfatlas.reliability.fleet.simulator import simulate
from tests.reliability.fleet.literature import (
    linear_goodput,
    meta_ettr,
    saxena_availability,
    young_interval_s,
)
from validation.fleet.agreement import (
    OTHER_SEEDS,
    Agreement,
    Measured,
    Point,
    compare,
    expected_largest,
    families,
)


def moved(first: float, second: float) -> Agreement:
    """Return a point whose two looks are so many standard errors off."""

    def measure(seed: int, finer: int) -> Measured:
        if finer == 1:
            return Measured(1.0 + 0.1 * first, 0.1, 0.2, 100)
        assert seed == 5 + OTHER_SEEDS
        return Measured(1.0 + 0.05 * second, 0.05, 0.1, 100 * finer)

    (row,) = compare([Point(group="g", name="n", exact=1.0, measure=measure)], seed=5)
    return row


def test_a_point_far_off_is_drawn_once_more_and_both_looks_are_kept() -> None:
    near, chance, wrong = moved(2.9, 99.0), moved(3.2, 1.0), moved(-3.2, -3.1)
    assert (near.second_z, near.agrees) == (None, True)
    assert chance.z == pytest.approx(3.2)
    assert chance.second_z == pytest.approx(1.0)
    assert chance.agrees
    assert not wrong.agrees
    (row,) = families([near, chance, wrong])
    assert row["second_looks"] == 2
    # first looks count, second ones do not
    assert row["sum_of_squares"] == pytest.approx(2.9**2 + 2 * 3.2**2)
    # three degrees of freedom: erfc(sqrt(x/2)) + sqrt(2x/pi) e^(-x/2)
    x = row["sum_of_squares"]
    by_hand = math.erfc(math.sqrt(x / 2)) + math.sqrt(2 * x / math.pi) * math.exp(-x / 2)
    assert row["chance"] == pytest.approx(by_hand)


def test_the_largest_of_some_points_by_hand_and_growing() -> None:
    assert expected_largest(1) == pytest.approx(math.sqrt(2 / math.pi), rel=1e-6)
    # of two: 2 / sqrt(pi) is the mean of the larger absolute value
    assert expected_largest(2) == pytest.approx(2 / math.sqrt(math.pi), rel=1e-6)
    values = [expected_largest(n) for n in (1, 6, 36, 146)]
    assert values == sorted(values)


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
    write, restart, mtti = (np.array(value) for value in (1.0, 10.0, mtti_s))
    tau = young_interval_s(write, mtti)
    exact = float(renewal_efficiency(tau, 1.0, 10.0, mtti_s).value_C)
    for estimate in (meta_ettr, linear_goodput, saxena_availability):
        assert abs(float(estimate(tau, write, restart, mtti)) - exact) < 3.0 / mtti_s
