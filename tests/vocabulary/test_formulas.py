from __future__ import annotations

import numpy as np
from hypothesis import given, strategies as st

from perfatlas.vocabulary.metrics import statistics

NAMES = ("p0", "p1", "p5", "p50", "p90", "p99", "p100")
FINITE = st.floats(allow_nan=False, allow_infinity=False, min_value=-1e150, max_value=1e150)


def test_percentiles_by_hand() -> None:
    # 4 values: the 90th percentile is at index 3 * 0.9 = 2.7, between 30 and 50: 30 + 0.7 * 20
    found = statistics(np.array([50.0, 10.0, 30.0, 20.0]), ("p50", "p90"))
    assert found == {"p50": 25.0, "p90": 44.0}


@given(st.lists(FINITE, min_size=1, max_size=60))
def test_percentiles_are_those_of_numpy_to_the_last_digit(values: list[float]) -> None:
    value_N = np.array(values)
    found = [*statistics(value_N, NAMES).values()]
    assert found == np.percentile(value_N, [int(name[1:]) for name in NAMES]).tolist()


def test_values_that_are_not_finite_are_ignored() -> None:
    value_N = np.array([np.nan, 1.0, np.inf])
    assert statistics(value_N, ("mean", "p99")) == {"mean": 1.0, "p99": 1.0}
    assert statistics(value_N[:1], ("mean", "p99")) == {"mean": None, "p99": None}
