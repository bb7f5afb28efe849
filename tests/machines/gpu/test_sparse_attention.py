from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from perfatlas.machines.gpu.kernels.sparse_attention import sparse_mla_prefill_time_s
from perfatlas.operators import BOUND_COMPUTE, BOUND_LATENCY, BOUND_MEMORY, LatentAttention, Phase
from tests.machines.gpu.attention_support import one_row, silicon

PARAMETERS = {
    "efficiency_compute": 0.6,
    "efficiency_bandwidth": 0.8,
    "overhead_launch_s": 5e-6,
    "overhead_tile_cycles": 2000.0,
    "feed_bytes_per_cycle": 25.0,
    "overlap_power": 2.0,
    "l2_fraction": 0.3,
    "padded_heads": 64.0,
}


def price(
    sizes: tuple[float, float, float],
    changes: dict[str, float] | None = None,
    parameters: dict[str, float] | None = None,
) -> tuple[float, int]:
    """Time and bound of (sequences, queries, keys) with 64 heads over 2,048 selected keys."""
    shape = {
        "queries": sizes[0] * sizes[1],
        "q_len": sizes[1],
        "kv_len": sizes[2],
        "num_heads": 64.0,
        "kv_lora_rank": 512.0,
        "rope_dim": 64.0,
        "selected": 2048.0,
        "kv_bytes_per_element": 2.0,
        "attention_bytes_per_element": 2.0,
        "hot": 0.0,
    } | (changes or {})
    return one_row(sparse_mla_prefill_time_s, shape, PARAMETERS | (parameters or {}))


def test_one_query_per_sm_by_hand() -> None:
    # 132 queries x 64 heads: one tile per SM. Products: 2 x 64 x 2048 x 1088 FLOP / (0.6 x 989e12
    # / 132) = 63.4447 us + 2,000 cycles 1.0929 us. Gathered: 132 x 2048 x 1152 B at 132 x 25 B per
    # cycle: 51.5693 us. Memory: all 4,096 rows of 1,152 B, and 132 x 64 x 2,176 B of queries and
    # outputs = 23.1014 MB at 3.84 TB/s: 6.0160 us.
    # 5 + sqrt(64.5376^2 + 51.5693^2 + 6.0160^2) = 87.829 us.
    time_s, code = price((1.0, 132.0, 4096.0))
    assert time_s * 1e6 == pytest.approx(87.829, abs=5e-3)
    assert code == BOUND_COMPUTE


def test_bound_codes_name_the_largest_part() -> None:
    assert price((1.0, 8192.0, 8192.0))[1] == BOUND_COMPUTE
    starved = {"feed_bytes_per_cycle": 5.0}
    assert price((1.0, 8192.0, 8192.0), parameters=starved)[1] == BOUND_MEMORY
    late = {"overhead_launch_s": 1e-3}
    assert price((1.0, 1.0, 2048.0), parameters=late)[1] == BOUND_LATENCY


def test_heads_are_padded() -> None:
    sizes = (1.0, 8192.0, 8192.0)
    few, _ = price(sizes, {"num_heads": 16.0})
    assert price(sizes)[0] == pytest.approx(few, rel=0.02)
    padded, _ = price(sizes, parameters={"padded_heads": 128.0})
    full, _ = price(sizes, {"num_heads": 128.0}, {"padded_heads": 128.0})
    assert padded == pytest.approx(full, rel=0.02)
    assert padded > 1.5 * few


def test_a_prompt_shorter_than_the_selection_multiplies_as_much_and_gathers_less() -> None:
    only_products = {"feed_bytes_per_cycle": 1e9, "efficiency_bandwidth": 1e9}
    short, _ = price((16.0, 512.0, 512.0), parameters=only_products)
    assert price((16.0, 512.0, 8192.0), parameters=only_products)[0] == pytest.approx(short)
    assert price((16.0, 512.0, 512.0))[0] < price((16.0, 512.0, 8192.0))[0]


@given(
    batch=st.integers(1, 64),
    q_len=st.integers(1, 8192),
    prefix=st.integers(0, 10**6),
    more=st.integers(1, 1024),
)
def test_time_grows_with_sequences_keys_and_heads(
    batch: int, q_len: int, prefix: int, more: int
) -> None:
    sizes = (float(batch), float(q_len), float(q_len + prefix))
    time_s, _ = price(sizes)
    assert price((batch + float(more), *sizes[1:]))[0] >= time_s * (1 - 1e-12)
    assert price((*sizes[:2], sizes[2] + more))[0] >= time_s * (1 - 1e-12)
    assert price(sizes, {"num_heads": 64.0 + more})[0] >= time_s * (1 - 1e-12)


@given(
    batch=st.integers(1, 10**3),
    q_len=st.integers(1, 10**5),
    prefix=st.integers(0, 10**7),
    heads=st.sampled_from([1.0, 16.0, 64.0, 100.0, 128.0]),
)
def test_cold_time_is_never_below_the_bound(
    batch: int, q_len: int, prefix: int, heads: float
) -> None:
    sizes = (float(batch), float(q_len), float(q_len + prefix))
    column = {
        name: np.array([value])
        for name, value in {
            "batch": sizes[0],
            "q_len": sizes[1],
            "kv_len": sizes[2],
            "num_heads": heads,
            "kv_lora_rank": 512.0,
            "rope_dim": 64.0,
            "nope_dim": 512.0,
            "value_head_dim": 512.0,
            "selected": 2048.0,
        }.items()
    }
    work = LatentAttention(
        name="attention",
        phase=Phase.PREFILL,
        count=np.ones(1),
        **column,  # type: ignore[arg-type] # every value is a column
    ).work()
    bound_s = max(
        float(work.flop[0]) / silicon().peak, float(work.cold_bytes[0]) / silicon().bandwidth
    )
    best = {"efficiency_compute": 1.0, "efficiency_bandwidth": 1.0, "overlap_power": 8.0}
    time_s, _ = price(sizes, {"num_heads": heads}, best)
    assert np.isfinite(time_s)
    assert time_s >= bound_s * (1 - 1e-12)
