"""Scores of intervals beside those of one width for all."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st

from validation.runs import tpot_scores
from validation.scoring import SCORES, constant_limits, interval_score, scores_beside_constant


def test_a_constant_holds_90_percent_of_what_it_is_fitted_to() -> None:
    # by hand: of 0, 0.01, ..., 1 the 5% and 95% quantiles are 0.05 and 0.95
    assert constant_limits(np.linspace(0.0, 1.0, 101)) == pytest.approx((0.05, 0.95))


def test_a_group_is_scored_by_the_constant_of_the_others() -> None:
    # by hand: a is 1 above the constant of b, which is 0 wide, and b is 1 below that of a: 20 x 1
    log_N, one_N = np.array([1.0, 1.0, 0.0]), np.ones(3)
    found = scores_beside_constant(log_N, (-2.0 * one_N, 2.0 * one_N), ["a", "a", "b"])
    # a with the factor 1 of b: 1/e - 1; b with that of a: e - 1
    assert found == {
        "interval_score": 4.0,
        "constant_width_score": pytest.approx(20.0),
        "rescaled_error": pytest.approx(1.0 - math.exp(-1.0)),
    }
    alone = scores_beside_constant(log_N, (-2.0 * one_N, 2.0 * one_N), "aaa")
    assert alone == {**dict.fromkeys(SCORES), "interval_score": 4.0}


def test_rows_without_an_interval_are_not_scored() -> None:
    none_N, log_N = np.full(2, np.inf), np.zeros(2)
    assert scores_beside_constant(log_N, (-none_N, none_N), "ab") == dict.fromkeys(SCORES)
    run = {"error": "", "tpot_s": 1.0, "tpot_measured_s": 1.0, "network": "n", "tpot_s_high": None}
    assert tpot_scores([run]) == dict.fromkeys(SCORES)


@given(st.floats(-1.0, 1.0), st.floats(0.0, 1.0), st.floats(0.0, 3.0))
def test_widening_never_helps_where_nothing_lies_outside(
    value: float, room: float, wider: float
) -> None:
    score = interval_score(value, value - room, value + room)
    assert score == pytest.approx(2.0 * room)
    assert interval_score(value, value - room - wider, value + room + wider) >= score
