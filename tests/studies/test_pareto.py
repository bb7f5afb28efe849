"""Pareto sets against the definition: points that no other one reaches in every objective."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, strategies as st

from perfatlas.studies import pareto_points

VALUES = st.sampled_from([0.0, 1.0, 2.0, 3.0, 5.0, float("nan")])


def _by_definition(points: Sequence[tuple[float, ...]]) -> set[int]:
    """Return the first of each of the points that no other one reaches and exceeds somewhere."""
    known = [n for n, point in enumerate(points) if not np.isnan(point).any()]
    return {
        n
        for n in known
        if not any(
            all(a >= b for a, b in zip(points[other], points[n], strict=True))
            and (points[other] != points[n] or other < n)
            for other in known
            if other != n
        )
    }


@pytest.mark.parametrize("count", [2, 3])
def test_the_set_is_that_of_the_definition(count: int) -> None:
    @given(st.lists(st.tuples(*[VALUES] * count), max_size=40))
    def check(points: list[tuple[float, ...]]) -> None:
        columns = np.array(points, np.float64).reshape(len(points), count).T
        assert set(pareto_points(*columns).tolist()) == _by_definition(points)

    check()


def test_many_points_give_the_set_of_the_definition() -> None:
    columns = np.random.default_rng(7).normal(size=(3, 1200)).round(1)
    points = [tuple(point) for point in columns.T.tolist()]
    found = pareto_points(*columns)
    assert set(found.tolist()) == _by_definition(points)
    assert np.all(np.diff(columns[0][found]) <= 0.0)


def test_three_objectives_by_hand() -> None:
    # the fourth is worse than the first in all, the fifth equals the first
    first = np.array([3.0, 1.0, 2.0, 2.0, 3.0])
    second = np.array([1.0, 3.0, 2.0, 0.5, 1.0])
    third = np.array([2.0, 2.0, 3.0, 1.0, 2.0])
    assert pareto_points(first, second, third).tolist() == [0, 2, 1]
