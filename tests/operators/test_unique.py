from __future__ import annotations

import numpy as np
from hypothesis import given, strategies as st
from hypothesis.extra.numpy import arrays

from perfatlas.operators import FloatArray, unique_rows
from perfatlas.operators.unique import MANY_ROWS


@given(
    arrays(
        np.float64,
        st.tuples(st.integers(1, 40), st.integers(1, 4)),
        elements=st.sampled_from([0.0, -0.0, 1.0, 2.0, 1e300]),
    )
)
def test_unique_rows_reproduce_the_table(rows: FloatArray) -> None:
    first, where = unique_rows(list(rows.T))
    assert np.array_equal(rows[first][where], rows)
    assert first.size == np.unique(rows + 0.0, axis=0).shape[0]


def test_many_rows_give_the_distinct_rows_in_the_order_of_their_first() -> None:
    random = np.random.default_rng(1)
    rows = random.choice([0.0, -0.0, 1.0, 2.0, 1e300], (MANY_ROWS + 1, 4))
    first, where = unique_rows(list(rows.T))
    expected = np.sort(np.unique(rows + 0.0, axis=0, return_index=True)[1])
    assert np.array_equal(rows[first][where], rows)
    assert np.array_equal(first, expected)
