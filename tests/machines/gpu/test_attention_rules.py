from __future__ import annotations

import pytest

from perfatlas.machines.gpu.kernels.attention import grown_split_count
from tests.machines.gpu.attention_support import DECODE, price


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
    first, _ = price("prefill", shape, cold | {"longest_last": 0.0})
    last, _ = price("prefill", shape, cold | {"longest_last": 1.0})
    assert last / first == pytest.approx(2.0, rel=1e-6)


def test_idle_sms_share_the_keys_of_long_tiles() -> None:
    # One head of 1024 queries: 16 tiles of 64 on 132 SMs, so 8 SMs share the 16 blocks of the
    # longest, but at least 4 blocks stay together: a quarter of its time.
    shape = LONE | {"q_len": 1024.0, "kv_len": 1024.0}
    cold = BARE | {"efficiency_bandwidth": 1e6}
    alone, _ = price("prefill", shape, cold)
    shared, _ = price("prefill", shape, cold | {"splits_keys": 1.0})
    assert shared / alone == pytest.approx(0.25, rel=1e-6)


def test_fixed_tiles_and_padded_widths_cost_full_tiles() -> None:
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
