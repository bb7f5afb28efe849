from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from perfatlas.machines.gpu.kernels.latent_attention import mla_decode_time_s, mla_prefill_time_s
from perfatlas.operators import BOUND_COMPUTE, BOUND_LATENCY, BOUND_MEMORY, LatentAttention, Phase
from tests.machines.gpu.attention_support import one_row, silicon

SHAPE = {
    "batch": 1.0,
    "q_len": 4096.0,
    "kv_len": 4096.0,
    "num_heads": 128.0,
    "kv_lora_rank": 512.0,
    "rope_dim": 64.0,
    "nope_dim": 128.0,
    "value_head_dim": 128.0,
    "selected": 0.0,
    "kv_bytes_per_element": 2.0,
    "attention_bytes_per_element": 2.0,
    "hot": 0.0,
}
PREFILL = {
    "efficiency_compute": 0.6,
    "efficiency_bandwidth": 0.7,
    "overhead_launch_s": 12e-6,
    "overhead_tile_cycles": 6000.0,
    "exponential_cost": 0.4,
    "overlap_power": 2.0,
    "l2_fraction": 0.05,
    "tile_queries": 128.0,
    "key_block": 128.0,
    "longest_last": 0.0,
    "fixed_tile": 0.0,
}
DECODE = {
    "efficiency_compute": 0.5,
    "efficiency_bandwidth": 0.9,
    "overhead_launch_s": 6e-6,
    "overhead_unit_cycles": 9000.0,
    "overhead_split_s": 2e-6,
    "feed_bytes_per_cycle": 64.0,
    "overlap_power": 2.0,
    "l2_fraction": 0.05,
    "units_per_sm": 1.0,
    "split_tokens": 256.0,
    "tile_heads": 64.0,
    "reread_share": 0.0,
    "narrow_tile": 0.0,
    "shared_keys": 0.0,
    "fp8_products": 0.0,
}


def price(
    phase: str, changes: dict[str, float], parameters: dict[str, float] | None = None
) -> tuple[float, int]:
    if phase == "prefill":
        return one_row(mla_prefill_time_s, SHAPE | changes, PREFILL | (parameters or {}))
    return one_row(mla_decode_time_s, SHAPE | {"q_len": 1.0} | changes, DECODE | (parameters or {}))


def test_decode_by_hand() -> None:
    # 66 sequences x 128 heads in tiles of 64: 132 blocks on 132 SMs, one wave, no split.
    # Arithmetic: 1024 keys x 2 x 64 x 1088 FLOP / (0.5 x 989e12 / 132 = 3.7462e12) = 38.067 us.
    # Feed: 1024 x 576 x 2 B / (64 x 1.83e9) = 10.073 us, hidden. Block: 9000 / 1.83e9 = 4.918 us.
    # SM: 42.985 us. Cache: 66 x 1024 x 576 x 2 = 77.857 MB; queries and outputs
    # 66 x 128 x (576 + 512) x 2 = 18.383 MB; at 0.9 x 4.8 TB/s: 22.278 us.
    # 6 + sqrt(42.985^2 + 22.278^2) = 6 + 48.416 = 54.416 us.
    time_s, code = price("decode", {"batch": 66.0, "kv_len": 1024.0})
    assert time_s * 1e6 == pytest.approx(54.416, abs=5e-3)
    assert code == BOUND_COMPUTE


def test_prefill_by_hand() -> None:
    # 132 tiles of 128 queries, one per SM: 33 sequences of 128 tokens, 4 heads.
    # Pair: 2 x 320 FLOP / (0.6 x 989e12 / 132 = 4.4955e12) + 0.4 / (16 x 1.83e9) = 156.03 ps;
    # x 128 x 128 = 2.5563 us; + 6000 cycles 3.2787 us = 5.8350 us.
    # q 192, k 192, v 128, o 128 = 640 x 2 B x 33 x 4 x 128 = 21.627 MB at 3.36 TB/s: 6.4366 us.
    # 12 + sqrt(5.8350^2 + 6.4366^2) = 12 + 8.6877 = 20.688 us.
    time_s, code = price(
        "prefill", {"batch": 33.0, "q_len": 128.0, "kv_len": 128.0, "num_heads": 4.0}
    )
    assert time_s * 1e6 == pytest.approx(20.688, abs=5e-3)
    assert code == BOUND_LATENCY


def test_bound_codes_name_the_largest_part() -> None:
    assert price("prefill", {"q_len": 16384.0, "kv_len": 16384.0})[1] == BOUND_COMPUTE
    few_heads = {"batch": 256.0, "kv_len": 16384.0, "num_heads": 8.0}
    assert price("decode", few_heads, {"tile_heads": 8.0})[1] == BOUND_MEMORY
    assert price("decode", {"kv_len": 64.0})[1] == BOUND_LATENCY


def test_selected_keys_cap_the_cost_of_decode() -> None:
    long = {"batch": 64.0, "kv_len": 65536.0}
    sparse, _ = price("decode", long | {"selected": 2048.0})
    short, _ = price("decode", long | {"kv_len": 2048.0})
    assert sparse == pytest.approx(short, rel=1e-12)


def test_a_kernel_that_does_not_split_is_slower_for_one_sequence() -> None:
    one = {"kv_len": 65536.0}
    assert price("decode", one, {"split_tokens": 1e9})[0] > 5 * price("decode", one)[0]


@given(
    phase=st.sampled_from(["prefill", "decode"]),
    kv_len=st.integers(1, 16384),
    beyond=st.integers(0, 4096),
)
def test_selecting_all_keys_is_dense(phase: str, kv_len: int, beyond: int) -> None:
    shape = {"q_len": float(kv_len) if phase == "prefill" else 1.0, "kv_len": float(kv_len)}
    assert price(phase, shape | {"selected": float(kv_len + beyond)}) == price(phase, shape)


@given(batch=st.integers(1, 64), q_len=st.integers(1, 8192), prefix=st.integers(0, 8192))
def test_prefill_grows_with_batch_and_prefix(batch: int, q_len: int, prefix: int) -> None:
    base = {"batch": float(batch), "q_len": float(q_len), "kv_len": float(q_len + prefix)}
    time_s, _ = price("prefill", base)
    assert price("prefill", base | {"batch": batch + 1.0})[0] >= time_s
    assert price("prefill", base | {"kv_len": q_len + prefix + 64.0})[0] >= time_s


@given(batch=st.integers(67, 1024), kv_len=st.integers(1, 65536), more=st.integers(1, 4096))
def test_decode_without_splits_grows_with_batch_and_keys(
    batch: int, kv_len: int, more: int
) -> None:
    # 67 sequences x 2 tiles of heads are more blocks than SMs: the keys are not split.
    base = {"batch": float(batch), "kv_len": float(kv_len)}
    time_s, _ = price("decode", base)
    assert price("decode", base | {"batch": float(batch + more)})[0] >= time_s
    assert price("decode", base | {"kv_len": float(kv_len + more)})[0] >= time_s


@given(
    phase=st.sampled_from(["prefill", "decode"]),
    batch=st.integers(1, 256),
    length=st.integers(1, 16384),
    heads=st.sampled_from([1.0, 16.0, 128.0]),
)
def test_cold_time_is_never_below_the_bound(
    phase: str, batch: int, length: int, heads: float
) -> None:
    shape = SHAPE | {
        "batch": float(batch),
        "q_len": float(length) if phase == "prefill" else 1.0,
        "kv_len": float(length),
        "num_heads": heads,
    }
    work = LatentAttention(
        name="attention",
        phase=Phase(phase),
        count=np.ones(1),
        **{  # type: ignore[arg-type] # every value is a column
            name: np.array([value])
            for name, value in shape.items()
            if name not in ("kv_bytes_per_element", "attention_bytes_per_element", "hot")
        },
    ).work()
    bound_s = max(
        float(work.flop[0]) / silicon().peak, float(work.cold_bytes[0]) / silicon().bandwidth
    )
    best = {"efficiency_compute": 1.0, "efficiency_bandwidth": 1.0, "overlap_power": 8.0}
    assert price(phase, shape, best)[0] >= bound_s


TWO_TILES = {
    "narrow_tile": 16.0,
    "shared_keys": 1.0,
    "reread_share": 0.5,
    "feed_bytes_per_cycle": 1e6,
}


def test_further_narrow_tiles_read_the_cache_again() -> None:
    # 32 heads are two tiles of 16: the second reads half of the cache again. 16 are one.
    fast = TWO_TILES | {"efficiency_compute": 1e3, "overhead_unit_cycles": 0.0}
    shape = {"batch": 256.0, "kv_len": 65536.0}
    one, _ = price("decode", shape | {"num_heads": 16.0}, fast)
    two, _ = price("decode", shape | {"num_heads": 32.0}, fast)
    assert two / one == pytest.approx(1.5, rel=1e-2)


def test_wide_tiles_of_a_sequence_share_its_keys() -> None:
    # 128 heads are two tiles of 64 on 2 x 66 SMs: each feeds half of the cache rows.
    fed = {"feed_bytes_per_cycle": 1.0, "efficiency_compute": 1e3, "overlap_power": 8.0}
    shape = {"batch": 66.0, "kv_len": 65536.0}
    alone, _ = price("decode", shape, fed)
    shared, _ = price("decode", shape, fed | {"shared_keys": 1.0})
    assert alone / shared == pytest.approx(2.0, rel=1e-2)
    narrow = TWO_TILES | fed
    assert price("decode", shape | {"num_heads": 128.0}, narrow)[0] == pytest.approx(shared)


def test_products_of_an_8_bit_cache_run_at_twice_the_peak() -> None:
    bound = {"feed_bytes_per_cycle": 1e6, "efficiency_compute": 0.1, "overlap_power": 8.0}
    shape = {"batch": 66.0, "kv_len": 65536.0, "kv_bytes_per_element": 1.0}
    half, _ = price("decode", shape, bound)
    full, _ = price("decode", shape, bound | {"fp8_products": 1.0})
    assert half / full == pytest.approx(2.0, rel=2e-2)
