"""The simulator against the closed forms, as far as that takes seconds; the rest is `validate`."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pytest

from perfatlas.reliability.fleet.closed_form import optimal_interval_s, renewal_efficiency
from perfatlas.reliability.fleet.model import Job, Level, Restart, Strategy, one_cause
from perfatlas.reliability.fleet.simulator import simulate
from validation.fleet.agreement import (
    OTHER_SEEDS,
    Agreement,
    Measured,
    Point,
    chance_of,
    compare,
    expected_largest,
    families,
)
from validation.fleet.agreement_nodes import (
    ageing_points,
    bursts_points,
    crews_points,
    erlang_points,
    first_failure_points,
    racks_points,
    warm_points,
)
from validation.fleet.agreement_patterns import (
    HALF_WIDTH,
    MTTIS_S,
    RESTARTS_S,
    WRITES_S,
    asynchronous_points,
    maintained_points,
    multilevel_points,
    renewal_points,
    verified_points,
)
from validation.fleet.study import STUDIES

if TYPE_CHECKING:
    from collections.abc import Callable


def test_the_studies_have_the_points_that_are_asked() -> None:
    assert len(MTTIS_S) * len(WRITES_S) * len(RESTARTS_S) >= 36
    assert HALF_WIDTH <= 0.002
    sizes = {point.group: len(study()) for study in STUDIES for point in study()[:1]}
    assert sizes.pop("renewal efficiency") == 39
    assert len(sizes) == 11
    assert sum(sizes.values()) == 152 - 39
    assert all(6 <= size <= 36 for size in sizes.values())
    names = [point.name for point in renewal_points()]
    assert [name.endswith("safe") for name in names] == [False] * 36 + [True] * 3


def _few_erlang_points() -> list[Point]:
    """Return every fourth of the points with spares, which take longest."""
    return erlang_points(replicas=10)[::4]


@pytest.mark.study
@pytest.mark.parametrize(
    "study",
    [
        partial(renewal_points, half_width=0.008),
        partial(asynchronous_points, half_width=0.007),
        partial(multilevel_points, half_width=0.012),
        partial(verified_points, half_width=0.002),
        partial(maintained_points, half_width=0.007),
        _few_erlang_points,
        partial(crews_points, replicas=12),
        partial(warm_points, replicas=12),
        partial(racks_points, replicas=12),
        partial(bursts_points, replicas=20),
        ageing_points,
        first_failure_points,
    ],
    ids=lambda study: getattr(study, "func", study).__name__,
)
def test_simulator_and_closed_form_agree(study: Callable[[], list[Point]]) -> None:
    rows = compare(study(), seed=1)
    for row in rows:
        assert row.agrees, f"{row.group}, {row.name}: {row.simulated} not {row.exact}"
    _, chance = chance_of(rows)
    assert chance > 1e-3


def test_known_values_stand_in_the_studies() -> None:
    found = {p.group: p.exact for study in STUDIES for p in study() if p.name == "check value"}
    assert {name: round(value, 5) for name, value in found.items()} == {
        "asynchronous checkpoints": 0.72970,
        "multilevel checkpoints": 0.80754,
        "silent errors, verified": round(0.5 / 0.758325, 5),
    }
    assert (
        len({p.exact for p in erlang_points() if p.name.startswith("5 repairs offered, 10")}) == 1
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
    from perfatlas.reliability.fleet.closed_form import (
        linear_goodput,
        meta_ettr,
        saxena_availability,
        young_interval_s,
    )

    tau = young_interval_s(1.0, mtti_s).value_C
    exact = float(renewal_efficiency(tau, 1.0, 10.0, mtti_s).value_C)
    for estimate in (meta_ettr, linear_goodput, saxena_availability):
        value = float(estimate(tau, 1.0, 10.0, mtti_s).value_C)
        assert abs(value - exact) < 3.0 / mtti_s
