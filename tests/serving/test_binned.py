from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from perfatlas.serving.outcome import Series, binned_series
from perfatlas.serving.requests import TICKS_PER_SECOND


def series_of(rows: list[tuple[float, int, int, int, int]]) -> Series:
    seconds, *columns = zip(*rows, strict=True)
    time_W = np.array([round(at * TICKS_PER_SECOND) for at in seconds], np.int64)
    return Series(time_W, *(np.array(column, np.int64) for column in columns))


def test_bins_by_hand() -> None:
    # running is 2 for a second, 6 for another, then 0: means over bins of 1.5 s
    found = binned_series(
        series_of([(0, 2, 1, 5, 2), (1, 6, 0, 10, 2), (2, 0, 0, 0, 1), (3, 0, 0, 0, 1)]), 10, 2
    )
    assert found["bin_width_s"] == 1.5
    assert found["time_s"] == [0.0, 1.5]
    assert found["running_requests"] == pytest.approx([(2 + 6 / 2) / 1.5, 6 / 2 / 1.5])
    assert found["running_requests_max"] == [6.0, 6.0]
    assert found["waiting_requests_max"] == [1.0, 0.0]
    assert found["kv_used_share_max"] == [1.0, 1.0]
    assert found["serving_replicas"] == pytest.approx([2.0, (2 * 0.5 + 1) / 1.5])


@pytest.mark.parametrize("rows", [0, 1])
def test_a_series_without_a_span_has_no_bins(rows: int) -> None:
    column = np.zeros(rows, np.int64)
    found = binned_series(Series(*5 * (column,)), 10, 200)
    assert found["bin_width_s"] is None
    assert [name for name, values in found.items() if values not in (None, [])] == []


@given(
    st.lists(
        st.tuples(st.integers(1, 10**13), st.integers(0, 99), st.integers(0, 99)),
        min_size=2,
        max_size=60,
    ),
    st.integers(1, 40),
)
def test_bins_keep_the_mean_and_hold_it_below_the_largest(
    rows: list[tuple[int, int, int]], most: int
) -> None:
    gap_W, running_W, used_W = np.array(rows, np.int64).T
    series = Series(np.cumsum(gap_W), running_W, running_W, used_W, running_W)
    found = binned_series(series, 100, most)
    mean_B, largest_B = (
        np.array(found[name]) for name in ("running_requests", "running_requests_max")
    )
    assert 1 <= mean_B.size <= most
    whole = float((running_W[:-1] * gap_W[1:]).sum() / gap_W[1:].sum())
    assert mean_B.mean() == pytest.approx(whole, rel=1e-6, abs=1e-6)
    assert (mean_B <= largest_B + 1e-6).all()
    assert largest_B.max() == running_W[:-1].max()
