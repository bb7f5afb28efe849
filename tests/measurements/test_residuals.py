"""Rows that their neighbours contradict, on synthetic tables."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfatlas.measurements.residuals import Residuals, carry, correct, number_groups

SPACE = np.array([[size, ranks] for size in range(8, 30) for ranks in (1.0, 2.0, 3.0)])
SMOOTH = 0.02 * SPACE[:, 0] + 0.05 * np.sin(3.0 * SPACE[:, 0] + SPACE[:, 1])
ROW = 31


def table(miss: float) -> Residuals:
    """Return residuals with one row off by `miss` e-folds."""
    residual = SMOOTH.copy()
    residual[ROW] += miss
    return carry(SPACE, residual, number_groups(SPACE[:, :1]))


@given(miss=st.floats(2.0, 4.0), sign=st.sampled_from([-1.0, 1.0]))
def test_an_outlier_is_not_repeated_but_stays_inside(miss: float, sign: float) -> None:
    found = correct(table(sign * miss), SPACE)
    assert np.log(found.factor_U[ROW]) == pytest.approx(SMOOTH[ROW], abs=0.3)
    left = SMOOTH[ROW] + sign * miss - np.log(found.factor_U[ROW])
    assert found.low_U[ROW] <= left <= found.high_U[ROW]
    others = np.arange(len(SPACE)) != ROW
    np.testing.assert_allclose(np.log(found.factor_U[others]), SMOOTH[others], atol=1e-4)


def test_a_row_its_neighbours_allow_is_what_was_measured() -> None:
    found = correct(table(0.1), SPACE)
    assert np.log(found.factor_U[ROW]) == pytest.approx(SMOOTH[ROW] + 0.1, abs=1e-4)
    assert found.high_U[ROW] < 0.3


def test_a_shape_beside_an_outlier_does_not_follow_it() -> None:
    beside = SPACE[ROW : ROW + 1] + np.array([[0.01, 0.0]])
    assert np.log(correct(table(2.4), beside).factor_U[0]) == pytest.approx(SMOOTH[ROW], abs=0.3)
