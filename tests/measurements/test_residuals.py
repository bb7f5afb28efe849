"""Rows inconsistent with their neighbours, on synthetic tables."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from perfatlas.measurements.residuals import residuals

SPACE = np.array([[size, ranks] for size in range(8, 30) for ranks in (1.0, 2.0, 3.0)])
SMOOTH = 0.02 * SPACE[:, 0] + 0.05 * np.sin(3.0 * SPACE[:, 0] + SPACE[:, 1])
ROW = 31


def table(miss: float) -> residuals.Residuals:
    """Return residuals with one row off by `miss` e-folds."""
    residual = SMOOTH.copy()
    residual[ROW] += miss
    return residuals.residuals_by_distance(SPACE, residual, residuals.number_groups(SPACE[:, :1]))


@given(miss=st.floats(2.0, 4.0), sign=st.sampled_from([-1.0, 1.0]))
def test_an_outlier_is_not_repeated_but_stays_inside(miss: float, sign: float) -> None:
    found = residuals.correct(table(sign * miss), SPACE)
    assert np.log(found.factor_U[ROW]) == pytest.approx(SMOOTH[ROW], abs=0.3)
    left = SMOOTH[ROW] + sign * miss - np.log(found.factor_U[ROW])
    assert found.low_U[ROW] <= left <= found.high_U[ROW]
    others = np.arange(len(SPACE)) != ROW
    np.testing.assert_allclose(np.log(found.factor_U[others]), SMOOTH[others], atol=1e-4)


def test_a_row_consistent_with_its_neighbours_is_the_measured_time() -> None:
    found = residuals.correct(table(0.1), SPACE)
    assert np.log(found.factor_U[ROW]) == pytest.approx(SMOOTH[ROW] + 0.1, abs=1e-4)
    assert found.high_U[ROW] < 0.3


def test_a_shape_beside_an_outlier_does_not_follow_it() -> None:
    beside = SPACE[ROW : ROW + 1] + np.array([[0.01, 0.0]])
    assert np.log(residuals.correct(table(2.4), beside).factor_U[0]) == pytest.approx(
        SMOOTH[ROW], abs=0.3
    )


TALL = np.column_stack((SPACE, np.full(len(SPACE), 7.0)))  # a third coordinate never varied
EDGE = residuals.residuals_by_distance(TALL, 2.0 + SMOOTH, residuals.number_groups(TALL[:, :1]))


@given(size=st.floats(29.0, 31.0), ranks=st.sampled_from([1.0, 2.0, 3.0]))
def test_within_two_octaves_beyond_the_rows_the_correction_is_that_of_the_edge(
    size: float, ranks: float
) -> None:
    found = residuals.correct(EDGE, np.array([[size, ranks, 7.0], [29.0, ranks, 7.0]]))
    assert found.measured_U.all()
    assert found.factor_U[0] == pytest.approx(found.factor_U[1])


def test_beyond_the_rows_the_interval_grows_until_it_spans_physics() -> None:
    query = np.array([[29.0 + more, 2.0, 7.0] for more in (0.0, 0.25, 0.5, 1.0, 2.0)])
    found = residuals.correct(EDGE, query)
    assert np.all(np.diff(found.high_U - found.low_U) >= 0.0)
    # in e-folds from physics: its answer is 0, the edge's more than 2
    low_U = np.log(found.factor_U) + found.low_U
    assert low_U[0] > 2.0
    assert low_U[3] <= 0.0


@given(size=st.floats(31.0, 80.0), step=st.floats(0.0, 1.0))
def test_farther_out_the_correction_shrinks_too_slowly_for_a_time_to_fall(
    size: float, step: float
) -> None:
    found = residuals.correct(EDGE, np.array([[size, 2.0, 7.0], [size + step, 2.0, 7.0]]))
    near, far = np.log(found.factor_U)
    assert near - far <= residuals.EDGE_LOSS * step + 0.0101
    if not found.measured_U[1]:
        assert found.factor_U[1] == 1.0


def test_far_beyond_the_rows_physics_is_used() -> None:
    edge = np.log(residuals.correct(EDGE, np.array([[29.0, 2.0, 7.0]])).factor_U[0])
    gone = 29.0 + residuals.EDGE_TRIED + edge / residuals.EDGE_LOSS
    found = residuals.correct(EDGE, np.array([[gone - 1.0, 2.0, 7.0], [gone + 1.0, 2.0, 7.0]]))
    assert found.measured_U.tolist() == [True, False]
    assert found.factor_U[1] == 1.0


def test_dimensions_that_rows_never_vary_are_not_extrapolated() -> None:
    found = residuals.correct(EDGE, np.array([[20.0, 2.0, 7.0], [20.0, 2.0, 90.0]]))
    assert found.measured_U.tolist() == [True, False]
    size_alone = residuals.correct(EDGE, np.array([[60.0, 2.0, 7.0]]), np.array([0.0, 1.0, 1.0]))
    assert not size_alone.measured_U[0]


def test_a_shape_is_not_predicted_by_its_own_twin() -> None:
    # Residuals without any relation between shapes, each shape in two rows: nothing is learnt of
    # a shape from the others, as without the second rows.
    noise = np.random.default_rng(4).normal(0.0, 0.3, len(SPACE))
    group = residuals.number_groups(SPACE[:, :1])
    single = residuals.residuals_by_distance(SPACE, noise, group)
    double = residuals.residuals_by_distance(
        *(np.concatenate((one, one)) for one in (SPACE, noise, group))
    )
    assert double.high_B[0] - double.low_B[0] > 0.6
    assert double.distance_B[1] > 0.0
    query = np.array([[15.5, 2.0]])
    widths = [
        residuals.correct(one, query).high_U - residuals.correct(one, query).low_U
        for one in (single, double)
    ]
    assert widths[1] == pytest.approx(widths[0], rel=0.4)


def test_rows_of_one_shape_alone_have_no_other_shapes() -> None:
    known = residuals.residuals_by_distance(
        np.zeros((40, 2)), np.linspace(-0.1, 0.1, 40), np.zeros(40, int)
    )
    assert np.isfinite(known.high_B).all()
