from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from perfatlas.machines.gpu.kernels.key_selection import key_selection_time_s
from perfatlas.operators import BOUND_LATENCY, BOUND_MEMORY, KeySelection, Phase
from tests.machines.gpu.attention_support import one_row, silicon

PARAMETERS = {
    "efficiency_bandwidth": 0.8,
    "overhead_launch_s": 2e-6,
    "overhead_row_cycles": 1830.0,
    "overhead_short_row_cycles": 915.0,
    "feed_bytes_per_cycle": 20.0,
    "rows_at_once": 2.0,
    "overlap_power": 2.0,
    "l2_fraction": 0.5,
}


def price(
    sizes: tuple[float, float, float],
    parameters: dict[str, float] | None = None,
    *,
    hot: float = 0.0,
) -> tuple[float, int]:
    """Time and bound of keeping 2,048 keys for (sequences, queries, keys)."""
    shape = {
        "queries": sizes[0] * sizes[1],
        "q_len": sizes[1],
        "kv_len": sizes[2],
        "selected": 2048.0,
        "score_bytes": 4.0,
        "index_bytes": 4.0,
        "hot": hot,
    }
    return one_row(key_selection_time_s, shape, PARAMETERS | (parameters or {}))


def test_decode_by_hand() -> None:
    # 264 queries, two on each of 132 SMs: 1830 cycles + 40,000 B / 20 B per cycle = 3,830 cycles,
    # 2.0929 us. Scores 264 x 10,000 x 4 B and positions 264 x 2048 x 4 B = 12.7227 MB at 3.84 TB/s:
    # 3.3132 us. 2 + sqrt(2.0929^2 + 3.3132^2) = 5.9188 us.
    time_s, code = price((264.0, 1.0, 10000.0))
    assert time_s * 1e6 == pytest.approx(5.9188, abs=1e-3)
    assert code == BOUND_LATENCY


def test_a_prompt_no_longer_than_the_selection_chooses_nothing() -> None:
    # 2,048 queries, none of which sees more than 2,048 keys: 2048 / 264 x 915 cycles = 3.8788 us;
    # positions 2048 x 2048 x 4 B = 16.7772 MB at 3.84 TB/s: 4.3691 us.
    # 2 + sqrt(3.8788^2 + 4.3691^2) = 7.8424 us.
    time_s, _ = price((1.0, 2048.0, 2048.0))
    assert time_s * 1e6 == pytest.approx(7.8424, abs=1e-3)
    assert price((1.0, 2048.0, 4096.0))[0] > 2 * time_s


def test_bound_codes_name_the_largest_part() -> None:
    assert price((1.0, 1.0, 4096.0))[1] == BOUND_LATENCY
    slow = {"efficiency_bandwidth": 0.1}
    assert price((1.0, 8192.0, 65536.0), slow)[1] == BOUND_MEMORY


def test_scores_in_cache_are_read_faster() -> None:
    assert price((64.0, 1.0, 16384.0), hot=1.0)[0] < price((64.0, 1.0, 16384.0))[0]


@given(
    batch=st.integers(1, 1024),
    q_len=st.integers(1, 8192),
    prefix=st.integers(0, 10**6),
    more=st.integers(1, 4096),
)
def test_time_grows_with_sequences_and_keys(batch: int, q_len: int, prefix: int, more: int) -> None:
    sizes = (float(batch), float(q_len), float(q_len + prefix))
    time_s, _ = price(sizes)
    assert price((batch + float(more), *sizes[1:]))[0] >= time_s * (1 - 1e-12)
    assert price((*sizes[:2], sizes[2] + more))[0] >= time_s * (1 - 1e-12)


@given(batch=st.integers(1, 10**4), q_len=st.integers(1, 10**5), prefix=st.integers(0, 10**7))
def test_cold_time_is_never_below_the_bytes_it_must_move(
    batch: int, q_len: int, prefix: int
) -> None:
    sizes = (float(batch), float(q_len), float(q_len + prefix))
    work = KeySelection(
        name="selection",
        phase=Phase.PREFILL,
        count=np.ones(1),
        batch=np.array([sizes[0]]),
        q_len=np.array([sizes[1]]),
        kv_len=np.array([sizes[2]]),
        selected=np.array([2048.0]),
        score_bytes=4.0,
        index_bytes=4.0,
    ).work()
    assert work.flop.tolist() == [0.0]
    least_s = float(work.activation_bytes[0]) / silicon().bandwidth
    time_s, _ = price(sizes, {"efficiency_bandwidth": 1.0, "overlap_power": 8.0})
    assert np.isfinite(time_s)
    assert time_s >= least_s * (1 - 1e-12)
