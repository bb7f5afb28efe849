from __future__ import annotations

import numpy as np
from hypothesis import given, strategies as st

from perfatlas.sampling import five_quantiles, seeded_subset


def test_quantiles_of_a_ruler_are_its_marks() -> None:
    assert five_quantiles(np.arange(0.0, 101.0)) == {
        "q05": 5.0,
        "q25": 25.0,
        "q50": 50.0,
        "q75": 75.0,
        "q95": 95.0,
    }


@given(count=st.integers(1, 500), keep=st.integers(1, 500), seed=st.integers(0, 2**31))
def test_a_seed_always_draws_the_same_distinct_rows(count: int, keep: int, seed: int) -> None:
    rows = seeded_subset(count, keep, seed)
    assert rows.tolist() == seeded_subset(count, keep, seed).tolist()
    assert rows.size == min(count, keep)
    assert sorted(set(rows.tolist())) == rows.tolist()
    assert rows.max() < count
