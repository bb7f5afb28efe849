from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfatlas.kernels.attention import (
    DECODE_ATTENTION_PARAMETERS,
    DECODE_ATTENTION_SHAPE,
    PREFILL_ATTENTION_PARAMETERS,
    PREFILL_ATTENTION_SHAPE,
    decode_attention_time_s,
    grown_split_count,
    prefill_attention_time_s,
)
from perfatlas.kernels.silicon import (
    BANDWIDTH,
    CLOCK,
    EXPONENTIALS,
    L2,
    NUM_SILICON,
    PEAK,
    SM_COUNT,
)
from perfatlas.operators import BOUND_COMPUTE, BOUND_LATENCY, BOUND_MEMORY, Attention, FloatArray

NO_LIMIT = 1e9
SHAPE = {
    "batch": 1.0,
    "q_len": 4096.0,
    "kv_len": 4096.0,
    "num_heads": 64.0,
    "num_kv_heads": 8.0,
    "head_dim": 128.0,
    "value_head_dim": 128.0,
    "window": 0.0,
    "kv_bytes_per_element": 2.0,
    "attention_bytes_per_element": 2.0,
    "hot": 0.0,
}
# The fit to TensorRT-LLM bf16 prefill on H200 that the check values were computed with.
PREFILL = {
    "efficiency_compute": 0.608,
    "efficiency_bandwidth": 0.337,
    "overhead_launch_s": 13.436e-6,
    "overhead_tile_cycles": 3.621e-6 * 1.83e9,
    "exponential_cost": 0.310,
    "overlap_power": 2.003,
    "append_passes": 0.367,
    "l2_fraction": 0.037,
    "wide_head_cost": 0.0,
    "append_block_cycles": 0.0,
    "window_cost": 0.0,
    "tile_queries": 64.0,
    "key_block": 64.0,
    "append_queries": 1.0,
    "packed_query_max": 0.0,
    "padded_width": 0.0,
    "fixed_tile": 0.0,
    "append_threads": 0.0,
    "splits_keys": 0.0,
    "balance_power": 1e6,
}
# The same of vLLM with FlashAttention-3, bf16 decode on H200.
DECODE = {
    "efficiency_compute": 0.358,
    "efficiency_bandwidth": 1.008,
    "overhead_launch_s": 8.029e-6,
    "overhead_unit_cycles": 3.264e-6 * 1.83e9,
    "overhead_split_s": 1.038e-6,
    "feed_bytes_per_cycle": 20.651,
    "overlap_power": 3.058,
    "l2_fraction": 0.103,
    "unpacked_unit_cycles": 2000.0,
    "unpacked_feed_bytes_per_cycle": 30.0,
    "unit_width_power": 0.0,
    "units_per_sm": 1.0,
    "split_tokens": 256.0,
    "unpacked_group_max": 0.0,
    "packed_group_max": NO_LIMIT,
    "unpacked_window": 0.0,
    "unpacked_split": 0.0,
    "packed_split": 1.0,
    "unpacked_shared": 0.0,
    "grown_splits": 0.0,
    "least_blocks_per_sm": 0.0,
    "regroup_copies": 0.0,
}


def silicon() -> FloatArray:
    row = np.zeros(NUM_SILICON)
    row[PEAK], row[BANDWIDTH], row[SM_COUNT] = 989e12, 4.8e12, 132.0
    row[CLOCK], row[L2], row[EXPONENTIALS] = 1.83e9, 50e6, 16.0
    return row


def price(
    phase: str, changes: dict[str, float], parameters: dict[str, float] | None = None
) -> tuple[float, int]:
    prefill = phase == "prefill"
    names = PREFILL_ATTENTION_SHAPE if prefill else DECODE_ATTENTION_SHAPE
    known = PREFILL if prefill else DECODE
    columns = PREFILL_ATTENTION_PARAMETERS if prefill else DECODE_ATTENTION_PARAMETERS
    shape = SHAPE | ({} if prefill else {"q_len": 1.0}) | changes
    values = known | (parameters or {})
    physics = prefill_attention_time_s if prefill else decode_attention_time_s
    time_s_U, code_U = physics(
        np.array([[shape[name] for name in names]]),
        silicon()[None, :],
        np.array([[values[name] for name in columns]]),
    )
    return float(time_s_U[0]), int(code_U[0])


@pytest.mark.parametrize(
    ("batch", "length", "heads", "kv_heads", "expected_us"),
    [(1, 4096, 64, 8, 663.6), (8, 1024, 32, 8, 310.1), (1, 16384, 8, 1, 1086.3)],
)
def test_prefill_reproduces_its_check_values(
    batch: int, length: int, heads: int, kv_heads: int, expected_us: float
) -> None:
    time_s, _ = price(
        "prefill",
        {
            "batch": batch,
            "q_len": length,
            "kv_len": length,
            "num_heads": heads,
            "num_kv_heads": kv_heads,
            "hot": 1.0,
        },
    )
    assert time_s * 1e6 == pytest.approx(expected_us, abs=0.06)


@pytest.mark.parametrize(
    ("batch", "length", "heads", "kv_heads", "expected_us"),
    [(64, 2048, 8, 1, 28.76), (1, 8192, 32, 8, 20.20)],
)
def test_decode_reproduces_its_check_values(
    batch: int, length: int, heads: int, kv_heads: int, expected_us: float
) -> None:
    time_s, _ = price(
        "decode",
        {
            "batch": batch,
            "kv_len": length,
            "num_heads": heads,
            "num_kv_heads": kv_heads,
            "hot": 1.0,
        },
    )
    assert time_s * 1e6 == pytest.approx(expected_us, abs=0.006)


def test_prefill_of_one_tile_by_hand() -> None:
    # One sequence, one head, 64 queries: one tile of 64 x 64 pairs on one SM.
    # Pair: 4 x 128 FLOP / (0.608 x 989e12 / 132) + 0.310 / (16 x 1.83e9) = 122.98 ps;
    # x 4096 = 503.7 ns; + 3.621 us = 4.1247 us.
    # In and out 4 x 64 x 128 x 2 = 65,536 B at 0.337 x 4.8 TB/s = 40.5 ns.
    # Append 64 x 128 x (2 + 2 x 4) = 81,920 B, 0.367 passes: 18.6 ns.
    # (4.1247^2.003 + 0.0405^2.003)^(1/2.003) = 4.1249 us; + 13.436 + 0.0186 = 17.580 us.
    time_s, code = price(
        "prefill", {"q_len": 64.0, "kv_len": 64.0, "num_heads": 1.0, "num_kv_heads": 1.0}
    )
    assert time_s * 1e6 == pytest.approx(17.580, abs=2e-3)
    assert code == BOUND_LATENCY


def test_append_blocks_of_a_token_by_hand() -> None:
    # 64 tokens, 8 key-value heads of 128: blocks of min(512, 1024) threads, 4 of them on an SM.
    # 64 / 4 blocks x 3,660 cycles / (132 SMs x 1.83 GHz) = 242.4 ns.
    shape = {"q_len": 64.0, "kv_len": 64.0}
    plain, _ = price("prefill", shape)
    blocks, _ = price("prefill", shape, {"append_block_cycles": 3660.0, "append_threads": 512.0})
    assert (blocks - plain) * 1e9 == pytest.approx(242.4, abs=0.1)


LONE = {"num_heads": 1.0, "num_kv_heads": 1.0}
BARE = {"overhead_launch_s": 0.0, "overhead_tile_cycles": 0.0, "append_passes": 0.0}


def test_a_long_tile_that_starts_last_adds_its_time() -> None:
    # 132 heads of one tile each: an SM has exactly one, so an even share is the longest tile.
    shape = {"q_len": 64.0, "kv_len": 64.0, "num_heads": 132.0, "num_kv_heads": 1.0}
    cold = BARE | {"efficiency_bandwidth": 1e6}
    first, _ = price("prefill", shape, cold | {"balance_power": 1e9})
    last, _ = price("prefill", shape, cold | {"balance_power": 1.0})
    assert last / first == pytest.approx(2.0, rel=1e-6)


def test_idle_sms_share_the_keys_of_long_tiles() -> None:
    # One head of 1024 queries: 16 tiles of 64 on 132 SMs, so 8 SMs share the 16 blocks of the
    # longest, but at least 4 blocks stay together: a quarter of its time.
    shape = LONE | {"q_len": 1024.0, "kv_len": 1024.0}
    cold = BARE | {"efficiency_bandwidth": 1e6}
    alone, _ = price("prefill", shape, cold)
    shared, _ = price("prefill", shape, cold | {"splits_keys": 1.0})
    assert shared / alone == pytest.approx(0.25, rel=1e-6)


def test_fixed_tiles_and_padded_widths_cost_what_they_fill() -> None:
    # 1 query: a tile of 16 rows, or of all 64. Heads of 192 run as 256: 4/3 of the products.
    one = LONE | {"q_len": 1.0, "kv_len": 1.0}
    cold = BARE | {"efficiency_bandwidth": 1e6}
    short, _ = price("prefill", one, cold)
    assert price("prefill", one, cold | {"fixed_tile": 1.0})[0] == pytest.approx(4 * short)
    wide = {"head_dim": 192.0, "value_head_dim": 192.0}
    products = cold | {"exponential_cost": 0.0, "overlap_power": 8.0}
    exact, _ = price("prefill", wide, products)
    padded, _ = price("prefill", wide, products | {"padded_width": 1.0})
    assert padded / exact == pytest.approx(4.0 / 3.0, rel=1e-6)


def test_a_window_that_hides_keys_slows_its_pairs() -> None:
    cold = BARE | {"efficiency_bandwidth": 1e6}
    windowed = {"window": 1024.0}
    plain, _ = price("prefill", windowed, cold)
    masked, _ = price("prefill", windowed, cold | {"window_cost": 0.25})
    assert masked / plain == pytest.approx(1.25, rel=1e-6)
    assert price("prefill", {}, cold)[0] == price("prefill", {}, cold | {"window_cost": 0.25})[0]


@pytest.mark.parametrize(
    ("units", "kv_len", "splits"),
    # 8 blocks per SM: 1,056 slots. 8 blocks of keys: root(8 x 8) = 8, all fit. 128 blocks:
    # root(1024) = 32; 64 x 32 = 2,048 blocks are too many by 0.516: floor(16.5). Below 128: one.
    [(128.0, 1024.0, 8.0), (8.0, 16384.0, 32.0), (64.0, 16384.0, 16.0), (8.0, 127.0, 1.0)],
)
def test_grown_splits_by_hand(units: float, kv_len: float, splits: float) -> None:
    assert grown_split_count(units, 8.0 * 132.0, kv_len) == splits


def test_grown_splits_ignore_a_window() -> None:
    # 16 sequences x 8 heads: every key of a long cache makes blocks, of which few have work.
    rule = {"grown_splits": 1.0, "units_per_sm": 8.0, "overhead_split_s": 0.0}
    windowed = {"batch": 16.0, "window": 128.0}
    short, _ = price("decode", windowed | {"kv_len": 128.0}, rule)
    long, _ = price("decode", windowed | {"kv_len": 4096.0}, rule)
    assert long > 2 * short


def test_calls_with_few_blocks_run_unpacked() -> None:
    # 132 SMs x 0.25 = 33 blocks of 128 keys: 32 are too few, 40 enough.
    rule = {"least_blocks_per_sm": 0.25, "unpacked_unit_cycles": 1e6}
    for batch, unpacked in ((4.0, True), (5.0, False)):
        shape = {"batch": batch, "kv_len": 128.0}
        assert (price("decode", shape, rule) != price("decode", shape)) == unpacked


def test_groups_of_several_sequences_are_copied_together() -> None:
    rule = {"regroup_copies": 1.0}
    several = {"batch": 2.0, "kv_len": 64.0}
    added = price("decode", several, rule)[0] - price("decode", several)[0]
    assert added == pytest.approx(DECODE["overhead_split_s"], rel=1e-9)
    for alone in ({"batch": 1.0, "kv_len": 64.0}, several | {"num_kv_heads": 1.0}):
        assert price("decode", alone, rule) == price("decode", alone)


def test_bound_codes_name_the_largest_part() -> None:
    long = {"q_len": 16384.0, "kv_len": 16384.0}
    assert price("prefill", long)[1] == BOUND_COMPUTE
    assert price("decode", {"batch": 64.0, "kv_len": 65536.0})[1] == BOUND_MEMORY
    assert price("decode", {"kv_len": 64.0})[1] == BOUND_LATENCY


def test_prefix_costs_what_its_pairs_cost() -> None:
    # 4096 queries behind 4096 cached keys see 4096 x 4096 pairs more than without the prefix.
    plain, _ = price("prefill", {})
    behind, _ = price("prefill", {"kv_len": 8192.0})
    whole, _ = price("prefill", {"q_len": 8192.0, "kv_len": 8192.0})
    assert plain < behind < whole
    assert whole - plain == pytest.approx(behind, rel=0.05)


def test_packed_heads_fill_the_tile_of_short_calls() -> None:
    short = {"batch": 256.0, "q_len": 16.0, "kv_len": 16.0}
    unpacked, _ = price("prefill", short)
    packed, _ = price("prefill", short, {"packed_query_max": NO_LIMIT})
    assert packed < unpacked


def test_single_queries_pack_only_without_a_window() -> None:
    rule = {"packed_query_max": 1.0}
    one = {"batch": 4096.0, "q_len": 1.0, "kv_len": 1.0}
    assert price("prefill", one, rule)[0] < price("prefill", one)[0]
    windowed = one | {"window": 128.0}
    assert price("prefill", windowed, rule) == price("prefill", windowed)


def test_unpacked_path_serves_every_query_head() -> None:
    # Groups above the limit run one block per query head: 64 heads cost what 64 groups of one do.
    rule = {"packed_group_max": 32.0, "unpacked_group_max": 1.0, "l2_fraction": 1e9}
    hot = {"batch": 64.0, "kv_len": 512.0, "num_heads": 64.0, "hot": 1.0}
    grouped, _ = price("decode", hot | {"num_kv_heads": 1.0}, rule)
    single, _ = price("decode", hot | {"num_kv_heads": 64.0}, rule)
    assert grouped == pytest.approx(single, rel=1e-12)


def test_a_kernel_that_does_not_split_is_slower_for_one_sequence() -> None:
    one = {"kv_len": 65536.0}
    assert price("decode", one, {"packed_split": 0.0})[0] > 5 * price("decode", one)[0]


def test_windowed_calls_run_unpacked_where_the_rule_says_so() -> None:
    shape = {"batch": 64.0, "kv_len": 128.0, "window": 128.0}
    packed, _ = price("decode", shape)
    unpacked, _ = price("decode", shape, {"unpacked_window": 1.0})
    assert unpacked > packed


@given(
    phase=st.sampled_from(["prefill", "decode"]),
    kv_len=st.integers(1, 16384),
    beyond=st.integers(0, 4096),
    packed=st.booleans(),
)
def test_a_window_that_holds_all_keys_is_none(
    phase: str, kv_len: int, beyond: int, *, packed: bool
) -> None:
    rule = {"packed_query_max": NO_LIMIT if packed else 0.0} if phase == "prefill" else {}
    shape = {"q_len": float(kv_len) if phase == "prefill" else 1.0, "kv_len": float(kv_len)}
    windowed = price(phase, shape | {"window": float(kv_len + beyond)}, rule)
    assert windowed == price(phase, shape, rule)


@given(
    batch=st.integers(1, 256),
    q_len=st.integers(1, 8192),
    prefix=st.integers(0, 8192),
    kv_heads=st.sampled_from([1, 2, 8, 64]),
    window=st.sampled_from([0, 128, 4096]),
)
def test_prefill_grows_with_batch_prefix_and_window(
    batch: int, q_len: int, prefix: int, kv_heads: int, window: int
) -> None:
    base = {
        "batch": float(batch),
        "q_len": float(q_len),
        "kv_len": float(q_len + prefix),
        "num_kv_heads": float(kv_heads),
        "window": float(window),
    }
    time_s, _ = price("prefill", base)
    assert price("prefill", base | {"batch": batch + 1.0})[0] >= time_s
    assert price("prefill", base | {"kv_len": q_len + prefix + 64.0})[0] >= time_s
    if window:
        assert price("prefill", base | {"window": 0.0})[0] >= time_s


@given(
    batch=st.integers(17, 512),
    kv_len=st.integers(1, 65536),
    more=st.integers(1, 4096),
    window=st.sampled_from([0, 128, 4096]),
)
def test_decode_without_splits_grows_with_batch_and_keys(
    batch: int, kv_len: int, more: int, window: int
) -> None:
    # 17 sequences x 8 heads are more blocks than SMs: the keys are not split.
    base = {"batch": float(batch), "kv_len": float(kv_len), "window": float(window)}
    time_s, _ = price("decode", base)
    assert price("decode", base | {"batch": float(batch + more)})[0] >= time_s
    assert price("decode", base | {"kv_len": float(kv_len + more)})[0] >= time_s


@given(kv_len=st.integers(64, 32768), batch=st.integers(1, 64))
def test_four_times_the_keys_take_no_less(kv_len: int, batch: int) -> None:
    base = {"batch": float(batch), "kv_len": float(kv_len)}
    assert price("decode", base | {"kv_len": 4.0 * kv_len})[0] >= price("decode", base)[0]


@given(
    phase=st.sampled_from(["prefill", "decode"]),
    batch=st.integers(1, 512),
    length=st.integers(1, 16384),
    kv_heads=st.sampled_from([1, 2, 8, 64]),
    head_dim=st.sampled_from([64.0, 128.0, 256.0]),
)
def test_cold_time_is_never_below_the_bound(
    phase: str, batch: int, length: int, kv_heads: int, head_dim: float
) -> None:
    shape = {
        "batch": float(batch),
        "q_len": float(length) if phase == "prefill" else 1.0,
        "kv_len": float(length),
        "num_kv_heads": float(kv_heads),
        "head_dim": head_dim,
        "value_head_dim": head_dim,
    }
    full = SHAPE | shape
    work = Attention(
        name="attention",
        phase="prefill" if phase == "prefill" else "decode",
        count=np.ones(1),
        **{  # type: ignore[arg-type] # every value is a column
            name: np.array([value])
            for name, value in full.items()
            if name not in ("kv_bytes_per_element", "attention_bytes_per_element", "hot")
        },
    ).work()
    bound_s = max(
        float(work.flop[0]) / silicon()[PEAK],
        float(work.cold_bytes[0]) / silicon()[BANDWIDTH],
    )
    best = {"efficiency_compute": 1.0, "efficiency_bandwidth": 1.0, "overlap_power": 8.0}
    assert price(phase, shape, best)[0] >= bound_s


def test_clock_scales_what_runs_on_the_sm() -> None:
    fast, slow = silicon(), silicon()
    slow[[PEAK, CLOCK]] *= 0.5
    shape_UD = np.array([[SHAPE[name] for name in PREFILL_ATTENTION_SHAPE]] * 2)
    values = PREFILL | {"overhead_launch_s": 0.0, "append_passes": 0.0, "overlap_power": 8.0}
    parameters_UP = np.array([[values[name] for name in PREFILL_ATTENTION_PARAMETERS]] * 2)
    time_s_U, _ = prefill_attention_time_s(shape_UD, np.stack([fast, slow]), parameters_UP)
    assert time_s_U[1] / time_s_U[0] == pytest.approx(2.0, rel=1e-3)
