from __future__ import annotations

import numpy as np
import pytest

from perfatlas.compiled.loops import FEW_ROWS
from perfatlas.machines.gpu.tiers.gathering import RowPrices
from perfatlas.machines.gpu.tiers.pricing import write_times
from perfatlas.operators import BOUND_COMPUTE, BOUND_LATENCY, BOUND_MEMORY
from perfatlas.pricing import PricedOperators, unpriced


@pytest.mark.parametrize("copies", [1, FEW_ROWS])  # interpreted, then compiled
def test_no_time_is_below_its_roofline(copies: int) -> None:
    # shapes: slower than the roofline of 2 s; faster; a high end below the roofline is mirrored
    found = RowPrices(
        time_s_U=np.array([3.0, 1.0, 2.0]),
        code_U=np.array([BOUND_COMPUTE, BOUND_MEMORY, BOUND_COMPUTE], np.int8),
        low_U=np.array([0.5, 0.5, 0.8]),
        high_U=np.array([1.5, 1.5, 0.9]),
    )
    shape = (copies, 3)
    prices = unpriced(
        PricedOperators,
        shape,
        bound_s_CO=np.full(shape, 2.0),
        code_CO=np.full(shape, BOUND_MEMORY, np.int8),
        **{name: np.zeros(shape) for name in ("time_s_CO", "low_s_CO", "high_s_CO")},
    )
    candidate_R, operator_R = (one.ravel() for one in np.indices(shape))
    write_times(prices, (candidate_R, operator_R), operator_R, found)
    assert prices.time_s_CO[-1].tolist() == [3.0, 2.0, 2.0]
    assert prices.low_s_CO[-1].tolist() == [2.0, 2.0, 2.0]
    assert prices.high_s_CO[-1].tolist() == [4.5, 3.0, 2.5]
    # issue-bound tiles of a memory-bound product do not fill the device
    assert prices.code_CO[-1].tolist() == [BOUND_LATENCY, BOUND_MEMORY, BOUND_LATENCY]
    assert np.ptp(prices.time_s_CO, axis=0).tolist() == [0.0, 0.0, 0.0]
