from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from perfatlas.machines.gpu.devices import SiliconRow
from perfatlas.machines.gpu.kernels.streaming import streaming_time_s
from perfatlas.operators import BOUND_LATENCY, BOUND_MEMORY

SILICON = SiliconRow(
    peak=1000e12, bandwidth=4e12, sm_count=100.0, clock=2e9, l2=50.0 * 2**20, exponentials=16.0
)
# launch 2 us, 0.8 of the bandwidth, cache 4 x faster, half the cache, 40 bytes a cycle and SM
PARAMETERS = np.array([2e-6, 0.8, 4.0, 0.5, 40.0])


def price(total: float, cold: float, tokens: float) -> tuple[float, int]:
    shape_UD = np.array([[total, cold, tokens]])
    times, codes = streaming_time_s(shape_UD, np.array([SILICON]), PARAMETERS[None, :])
    return float(times[0]), int(codes[0])


def test_a_large_pass_runs_at_memory_speed() -> None:
    # 3.2 GB / (0.8 * 4 TB/s) = 1 ms, nothing of it in cache
    time_s, code = price(3.2e9, 3.2e9, 1e6)
    assert time_s == pytest.approx(1e-3 + 2e-6)
    assert code == BOUND_MEMORY


def test_a_small_activation_comes_from_the_cache() -> None:
    # 1 MB, in cache: 1e6 / (4 * 3.2e12) = 0.078 us; 1000 rows over 100 SMs at 40 B/cycle:
    # 10 * 1000 / (40 * 2e9) = 0.125 us is longer
    time_s, code = price(1e6, 0.0, 1000.0)
    assert time_s == pytest.approx(2e-6 + 0.125e-6, rel=1e-3)
    assert code == BOUND_LATENCY


def test_one_long_row_is_worked_by_one_sm() -> None:
    # 1 MB in one row: 1e6 / (40 * 2e9) = 12.5 us
    assert price(1e6, 0.0, 1.0)[0] == pytest.approx(14.5e-6)


@settings(deadline=None)
@given(total=st.floats(1e3, 1e10), share=st.floats(0.0, 1.0), tokens=st.integers(1, 10**6))
def test_cold_bytes_never_cost_less(total: float, share: float, tokens: int) -> None:
    assert price(total, share * total, tokens)[0] <= price(total, total, tokens)[0] * (1 + 1e-12)
