from __future__ import annotations

import numpy as np
from hypothesis import given, strategies as st

from perfatlas.serving.prices.grids import needed_sizes, sizes_up_to, spaced_sizes


def test_sizes_by_hand() -> None:
    # octaves of two: steps of 8 up to 16, of 8 up to 32, of 16 up to 64
    sizes = sizes_up_to(64, least_step=8, parts=2, around=(-1, 0))
    assert sizes.tolist() == [1, 7, 8, 15, 16, 23, 24, 31, 32, 47, 48, 63, 64]


@given(st.integers(1, 10**6), st.sampled_from([1, 8, 64]), st.sampled_from([2, 8, 64]))
def test_sizes_rise_from_1_to_the_largest_and_are_dense(most: int, step: int, parts: int) -> None:
    sizes = sizes_up_to(most, least_step=step, parts=parts)
    assert sizes[0] == 1
    assert sizes[-1] == most
    gaps = np.diff(sizes)
    assert np.all(gaps > 0)
    # an octave has `parts` sizes, and short ones as many as fit
    assert np.all(gaps <= np.maximum(step, 2.0 * sizes[:-1] / parts))


@given(st.integers(1, 10**6), st.integers(2, 40))
def test_spaced_sizes_hold_both_ends(most: int, count: int) -> None:
    sizes = spaced_sizes(most, count)
    assert sizes[0] == 1
    assert sizes[-1] == most
    assert sizes.size <= count


@given(st.lists(st.floats(0.1, 10.0), min_size=2, max_size=60), st.sampled_from([0.0, 0.01, 0.3]))
def test_lines_between_needed_sizes_miss_nothing(times: list[float], tolerance: float) -> None:
    sizes = np.arange(len(times)) ** 2 + 1
    time_XY = np.stack([np.array(times), np.array(times[::-1])], axis=1)
    needed = needed_sizes(sizes, time_XY, tolerance)
    assert {sizes[0], sizes[-1]} <= set(needed.tolist())
    at = np.searchsorted(sizes, needed)
    for time_X in time_XY.T:
        line_X = np.interp(sizes, needed, time_X[at])
        assert np.all(np.abs(line_X / time_X - 1.0) <= tolerance + 1e-12)
