from __future__ import annotations

import numpy as np
from hypothesis import given, strategies as st

from perfatlas.fitting.few_shot_search import folds, small_sample_quantiles


@given(groups=st.lists(st.integers(min_value=0, max_value=30), min_size=1, max_size=60))
def test_a_group_is_held_out_whole(groups: list[int]) -> None:
    group_N = np.array(groups)
    fold_N = folds(group_N)
    for group in set(groups):
        assert np.unique(fold_N[group_N == group]).size == 1


def test_a_small_sample_is_as_wide_as_it_must_be() -> None:
    # by hand: of 39 rows the (39 + 1) 0.05 = 2nd and the 38th in order
    found = small_sample_quantiles(np.arange(39.0))
    assert found["q05"] == 1.0
    assert found["q95"] == 37.0
    assert found["q50"] == 19.0
    few = small_sample_quantiles(np.arange(10.0))
    assert (few["q05"], few["q95"]) == (0.0, 9.0)
