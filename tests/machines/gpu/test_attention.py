from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from perfatlas.machines.gpu.devices import at_clock
from perfatlas.machines.gpu.kernels.attention import prefill_attention_time_s
from perfatlas.operators import BOUND_COMPUTE, BOUND_LATENCY, BOUND_MEMORY, Attention, Phase
from tests.machines.gpu.attention_support import NO_LIMIT, PREFILL, SHAPE, price, silicon


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


def test_the_kernel_alone_leaves_the_append_out() -> None:
    shape = {"batch": 8.0, "q_len": 1024.0, "kv_len": 1024.0}
    call, kernel = (price("prefill", {**shape, "append": append})[0] for append in (1.0, 0.0))
    # per token: 2 x 64 x 2 bytes of queries if they are copied, and 2 x 8 x 4 of keys and values
    copied = PREFILL["append_queries"] * 2.0 * 64.0
    size = 8 * 1024 * 128 * (copied + 2 * 8 * (2.0 + 2.0))
    passes_s = PREFILL["append_passes"] * size / (PREFILL["efficiency_bandwidth"] * 4.8e12)
    threads = 8 * 1024 * min(8 * 128.0, PREFILL["append_threads"]) / 2048.0
    blocks_s = threads * PREFILL["append_block_cycles"] / (1.83e9 * 132.0)
    assert call - kernel == pytest.approx(passes_s + blocks_s)


def test_without_a_mask_every_tile_sees_every_key() -> None:
    # One tile and one block of keys are the same under a mask; of many, nearly twice as many.
    values = {"overhead_launch_s": 0.0, "overhead_tile_cycles": 0.0, "append_passes": 0.0}
    for length, least, most in ((16.0, 1.0, 1.0), (16384.0, 1.9, 2.0)):
        shape = {"q_len": length, "kv_len": length}
        causal_s, full_s = (
            price("prefill", {**shape, "causal": causal}, values)[0] for causal in (1.0, 0.0)
        )
        assert least <= full_s / causal_s <= most


def test_bound_codes_name_the_largest_part() -> None:
    long = {"q_len": 16384.0, "kv_len": 16384.0}
    assert price("prefill", long)[1] == BOUND_COMPUTE
    assert price("decode", {"batch": 64.0, "kv_len": 65536.0})[1] == BOUND_MEMORY
    assert price("decode", {"kv_len": 64.0})[1] == BOUND_LATENCY


def test_a_prefix_costs_its_query_key_pairs() -> None:
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


def test_the_unpacked_path_runs_every_query_head() -> None:
    # Groups above the limit run one block per query head: 64 heads cost what 64 groups of one do.
    rule = {"packed_group_max": 32.0, "unpacked_group_max": 1.0, "l2_fraction": 1e9}
    hot = {"batch": 64.0, "kv_len": 512.0, "num_heads": 64.0, "hot": 1.0}
    grouped, _ = price("decode", hot | {"num_kv_heads": 1.0}, rule)
    single, _ = price("decode", hot | {"num_kv_heads": 64.0}, rule)
    assert grouped == pytest.approx(single, rel=1e-12)


def test_a_kernel_that_does_not_split_is_slower_for_one_sequence() -> None:
    one = {"kv_len": 65536.0}
    assert price("decode", one, {"packed_split": 0.0})[0] > 5 * price("decode", one)[0]


def test_windowed_calls_run_unpacked_by_the_rule() -> None:
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
def test_a_window_of_all_keys_has_no_effect(
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
def test_four_times_the_keys_are_not_faster(kv_len: int, batch: int) -> None:
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
        phase=Phase(phase),
        count=np.ones(1),
        **{  # type: ignore[arg-type] # every value is a column
            name: np.array([value])
            for name, value in full.items()
            if name
            not in (
                *("kv_bytes_per_element", "attention_bytes_per_element", "hot"),
                *("causal", "append"),
            )
        },
    ).work()
    bound_s = max(
        float(work.flop[0]) / silicon().peak, float(work.cold_bytes[0]) / silicon().bandwidth
    )
    best = {"efficiency_compute": 1.0, "efficiency_bandwidth": 1.0, "overlap_power": 8.0}
    assert price(phase, shape, best)[0] >= bound_s


def test_clock_scales_sm_time() -> None:
    fast = np.tile(silicon(), (2, 1))
    values = PREFILL | {"overhead_launch_s": 0.0, "append_passes": 0.0, "overlap_power": 8.0}
    time_s = prefill_attention_time_s
    shape_UD = np.array([[SHAPE[name] for name in time_s.shape_names]] * 2)
    parameters_UP = np.array([[values[name] for name in time_s.parameter_names]] * 2)
    time_s_U, _ = time_s(shape_UD, at_clock(fast, np.array([1.0, 0.5])), parameters_UP)
    assert time_s_U[1] / time_s_U[0] == pytest.approx(2.0, rel=1e-3)
