"""Shape legend: U unique shapes, B load bins."""

from __future__ import annotations

from typing import Final

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from perfatlas.machines.gpu.devices import SiliconRow
from perfatlas.machines.gpu.kernels import moe
from perfatlas.operators import BOUND_PADDING, UNIFORM, FloatArray

SILICON = SiliconRow(
    peak=1000e12, bandwidth=4e12, sm_count=100.0, clock=2e9, l2=50.0 * 2**20, exponentials=16.0
)
VALUES = {
    "efficiency_compute": 0.5,
    "efficiency_bandwidth": 0.8,
    "overhead_launch_s": 20e-6,
    "overhead_tile_cycles": 2000.0,
    "overlap_power": 1.0,
    "dispatch_passes": 2.0,
    "overhead_expert_s": 0.1e-6,
    "foreign_rows": 0.5,
    "l2_fraction": 0.5,
    "tile_policy": 128.0,
}


def shape(**changes: float) -> FloatArray:
    values = {
        "tokens": 8.0,
        "hidden": 4096.0,
        "intermediate": 1024.0,
        "experts": 64.0,
        "top_k": 4.0,
        "ep": 1.0,
        "moe_tp": 1.0,
        "weight_bytes_per_element": 2.0,
        "input_bytes_per_element": 2.0,
        "matrices": 3.0,
        "skew": 0.0,
        "hot": 0.0,
        "exchange_ranks": 1.0,
        "ranks_per_token": 1.0,
        "loop_cycles": 0.0,
        "concentration": 1.0,
        "active_share": 1.0,
    }
    return np.array([{**values, **changes}[name] for name in moe.MoeShape._fields])


def time_s(row: FloatArray, **changes: float) -> float:
    parameters = np.array([{**VALUES, **changes}[name] for name in moe.MoeParameters._fields])
    times, _ = moe.moe_time_s(row[None, :], np.array([SILICON]), parameters[None, :])
    return float(times[0])


def test_balanced_decode_by_hand() -> None:
    # 8 tokens x top 4 = 32 rows on 32 of 64 experts, one row each, in tiles of 16 rows.
    # first product: 32 * ceil(2*1024/128) = 512 blocks, 6 waves; second 32 * 32 = 1024, 11 waves
    # block per unit of depth: 2*128*16 / (0.5 * 10e12) = 0.8192 ns; one wave costs 1 us besides
    # blocks: 0.8192e-9 * (6*4096 + 11*1024) + 17e-6                       = 46.360 us
    # weights 3*32*4096*1024*2 = 805.3 MB, activations 32*(8192 + 3072)*2 = 0.721 MB
    # memory: 806.03e6 / 3.2e12                                            = 251.884 us
    # routing: 2 passes * 2 bytes * 4096 * (32 + 8) / 3.2e12               = 0.205 us
    # fixed: 20 + 32 * 0.1                                                 = 23.2 us
    assert time_s(shape()) * 1e6 == pytest.approx(46.360 + 251.884 + 0.205 + 23.2, abs=2e-3)


def test_triton_defaults_by_hand() -> None:
    # 8 tokens on 64 experts: tiles of 16 x 32 on 32 active experts.
    # first product: 32 * 2048/32 = 2048 blocks, 21 waves; second 32 * 128 = 4096, 41 waves
    # blocks: 2*32*16 / (0.5 * 10e12) * (21*4096 + 41*1024) + 62e-6        = 88.214 us
    few = time_s(shape(), tile_policy=moe.TRITON_DEFAULTS)
    assert few * 1e6 == pytest.approx(88.214 + 251.884 + 0.205 + 23.2, abs=2e-3)
    # 1024 tokens: 64 rows on each of 64 experts, tiles of 64 x 64
    # first product: 64 * 32 = 2048 blocks, 21 waves; second 64 * 64 = 4096, 41 waves
    # blocks: 2*64*64 / (0.5 * 10e12) * (21*4096 + 41*1024) + 62e-6        = 271.715 us
    # weights 1610.6 MB, activations 4096*(8192 + 3072)*2 = 92.275 MB: 532.152 us
    # routing: 2 * 2 * 4096 * (4096 + 1024) / 3.2e12 = 26.214 us; fixed 20 + 6.4
    many = time_s(shape(tokens=1024.0), tile_policy=moe.TRITON_DEFAULTS)
    assert many * 1e6 == pytest.approx(271.715 + 532.152 + 26.214 + 26.4, abs=2e-3)


def test_fixed_tiles_by_hand() -> None:
    # one row on each of 32 experts, in tiles of 128 rows: waves as with tiles of 16
    # blocks: 2*128*128 / (0.5 * 10e12) * (6*4096 + 11*1024) + 17e-6       = 251.881 us
    found = time_s(shape(), tile_policy=moe.FIXED_TILES)
    assert found * 1e6 == pytest.approx(251.881 + 251.884 + 0.205 + 23.2, abs=2e-3)


def test_weights_of_a_hot_loop_that_fit_the_cache_are_not_read_again() -> None:
    # 1 token on 4 experts of 128 x 128: 0.39 MB of weights in a cache of 50 MB, half of it kept
    row = {"tokens": 1.0, "hidden": 128.0, "intermediate": 128.0}
    saved = 3 * 4 * 128 * 128 * 2 / 3.2e12
    assert time_s(shape(**row)) - time_s(shape(**row, hot=1.0)) == pytest.approx(saved, rel=1e-4)
    assert time_s(shape(hot=1.0)) == pytest.approx(time_s(shape()), rel=1e-5)


def test_rows_of_other_ranks_by_hand() -> None:
    # 4096 tokens x top 4 on 8 ranks: 2048 rows here and 14336 elsewhere, each 4096 + 3*1024 wide
    # 2 passes * 2 bytes * 0.5 * 14336 * 7168 / 3.2e12                     = 64.225 us
    row = shape(tokens=4096.0, ep=8.0)
    added = time_s(row, foreign_rows=0.5) - time_s(row, foreign_rows=0.0)
    assert added * 1e6 == pytest.approx(64.225, abs=2e-3)


# After an all-to-all: 4096 tokens of 16 ranks, each sent to 3 of them on average. A rank of 64/16
# experts receives 768 tokens with 4/3 of its experts each: 1024 rows, as before.
GATHERED: Final = {"tokens": 4096.0, "ep": 16.0}
RECEIVED: Final = {"tokens": 768.0, "experts": 4.0, "top_k": 4.0 / 3.0}


def test_the_loop_of_default_tiles_by_hand() -> None:
    # 64 experts x 64 rows: tiles of 64 x 64, 64 * ceil(2*1024/64) = 2,048 and 64 * 64 = 4,096
    sms, clock = SILICON[2], SILICON[3]
    waves = np.ceil(2048 / sms) * 4096 + np.ceil(4096 / sms) * 1024
    alone = {"overlap_power": 1.0, "overhead_tile_cycles": 0.0}
    slow, slower = (
        time_s(shape(tokens=1024.0, loop_cycles=cycles), **alone) for cycles in (1e3, 2e3)
    )
    assert slower - slow == pytest.approx(1e3 / clock * waves)


EXCHANGE: Final = {"exchange_ranks": 16.0, "ranks_per_token": 3.0}


def test_received_tokens_by_hand() -> None:
    # 2 passes * 2 bytes * 4096 * (4096 - 768) tokens less, and no 15360 rows of 4096 + 3 * 1024
    # elements of other ranks, half of a pass: at 3.2 TB/s
    saved = 2 * 2 * (4096 * 3328 + 0.5 * 15360 * 7168) / 3.2e12
    less = time_s(shape(**GATHERED)) - time_s(shape(**RECEIVED, **EXCHANGE))
    assert less == pytest.approx(saved, rel=1e-9)


def test_balanced_received_tokens_are_a_layer_of_their_own() -> None:
    alone = time_s(shape(**RECEIVED))
    assert time_s(shape(**RECEIVED, **EXCHANGE)) == pytest.approx(alone, rel=1e-12)


@pytest.mark.parametrize("skew", [UNIFORM, 1.2])
def test_received_rows_are_those_of_the_busiest_rank(skew: float) -> None:
    every_B, sent_B = np.zeros(moe.BINS), np.zeros(moe.BINS)
    bins = moe._fill_loads(moe.MoeShape(*shape(**GATHERED, skew=skew)), every_B)
    assert moe._fill_loads(moe.MoeShape(*shape(**RECEIVED, **EXCHANGE, skew=skew)), sent_B) == bins
    assert sent_B == pytest.approx(every_B, rel=1e-9)


@given(
    tokens=st.integers(1, 10_000),
    more=st.floats(1.0, 8.0),
    reached=st.floats(1.0, 4.0),
    skew=st.sampled_from([0.0, UNIFORM, 1.2]),
)
def test_received_tokens_cost_more_if_more_and_never_more_than_all(
    tokens: int, more: float, reached: float, skew: float
) -> None:
    def received_s(group: float) -> float:
        row = {"tokens": group * reached / 16, "experts": 4.0, "top_k": 4.0 / reached}
        sent = {"exchange_ranks": 16.0, "ranks_per_token": reached}
        return time_s(shape(**row, **sent, skew=skew))

    assert received_s(tokens) <= time_s(shape(tokens=tokens, ep=16.0, skew=skew)) * (1 + 1e-9)
    if skew <= 0.0:  # a drawn power law has other extremes with another number of tokens
        assert received_s(tokens * more) >= received_s(tokens) * (1 - 1e-9)


def most_active(tokens: float, experts: float, top_k: float, ep: float, **sent: float) -> float:
    row = shape(tokens=tokens, experts=experts, top_k=top_k, ep=ep, **sent)
    return float(moe._most_active(moe.MoeShape(*row)))


def test_the_most_experts_of_a_rank_by_hand() -> None:
    # 8 tokens choose 8 of 128: idle (15/16)^8 = 0.5967, of 16 on a rank 6.453 +- 1.962 have rows,
    # and the most of 8 ranks 0.87 ln(8)^0.7 = 1.4513 deviations more
    assert most_active(8.0, 128.0, 8.0, 8.0) == pytest.approx(6.453 + 1.4513 * 1.962, rel=1e-3)
    assert most_active(8.0, 128.0, 8.0, 1.0) == pytest.approx(128 * (1 - (15 / 16) ** 8))


@pytest.mark.parametrize(
    "sizes",
    [
        (8, 128, 8, 8),  # Qwen3-235B
        (32, 128, 8, 8),
        (8, 16, 1, 8),  # Llama 4 Scout
        (16, 16, 1, 4),
        (32, 128, 1, 8),  # Llama 4 Maverick
        (8, 256, 8, 32),  # DeepSeek-V3
        (64, 256, 8, 64),
    ],
)
def test_the_most_experts_of_a_rank_are_the_mean_of_draws(sizes: tuple[int, ...]) -> None:
    tokens, experts, top_k, ep = sizes
    random = np.random.default_rng(0)
    chosen = np.argsort(random.random((300, tokens, experts)), axis=2)[:, :, :top_k]
    active = np.zeros((300, experts), np.bool_)
    np.put_along_axis(active, chosen.reshape(300, -1), values=True, axis=1)
    drawn = active.reshape(300, ep, -1).sum(axis=2).max(axis=1).mean()
    assert most_active(*sizes) == pytest.approx(drawn, rel=0.05)


@given(tokens=st.integers(1, 1000), ranks=st.sampled_from([1, 4, 16]))
def test_an_all_to_all_leaves_the_experts_of_a_rank(tokens: int, ranks: int) -> None:
    held = most_active(tokens, 64.0, 4.0, ranks)
    sent = {"exchange_ranks": float(ranks), "ranks_per_token": 1.0}
    assert most_active(tokens / ranks, 64 / ranks, 4.0, 1.0, **sent) == pytest.approx(held)
    assert 0.0 < held <= 64 / ranks


def test_a_rank_without_rows_still_runs_one_expert() -> None:
    # 1 token x top 4 over 32 ranks: less than one row a rank, but the busiest has one.
    loads_B = np.zeros(moe.BINS)
    bins = moe._fill_loads(moe.MoeShape(*shape(tokens=1.0, ep=32.0)), loads_B)
    assert float(loads_B[:bins].mean() * 64 / 32) == pytest.approx(1.0)


def test_the_popularity_of_experts_is_a_power_law_up_to_four_fifths_of_the_tokens() -> None:
    # quantiles of x^-1.2 on 1 to 0.8 x 1024 rows are ((819.2^-0.2 - 1) s + 1)^-5; all are scaled to
    # a mean of 1024 x 4 / 64 = 64 rows, and whole
    loads_B = np.empty(moe.BINS)
    bins = moe._fill_loads(moe.MoeShape(*shape(tokens=1024.0, skew=1.2)), loads_B)
    share_B = 1.0 - (np.arange(bins) + 0.5) / bins
    quantile_B = ((819.2**-0.2 - 1.0) * share_B + 1.0) ** -5.0
    assert loads_B[:bins] == pytest.approx(quantile_B * 64.0 / quantile_B.mean(), abs=1.1)


@settings(deadline=None)
@given(
    tokens=st.integers(1, 16384), top_k=st.integers(1, 8), skew=st.sampled_from([0.0, 1.01, 1.2])
)
def test_every_routed_row_is_counted_once(tokens: int, top_k: int, skew: float) -> None:
    loads_B = np.zeros(moe.BINS)
    row = shape(tokens=float(tokens), top_k=float(top_k), skew=skew)
    bins = moe._fill_loads(moe.MoeShape(*row), loads_B)
    assert float(loads_B[:bins].mean()) * 64 == pytest.approx(tokens * top_k, rel=1e-9)
    assert float(loads_B[:bins].max()) <= max(tokens, 1.0) * (1 + 1e-9)


@settings(deadline=None)
@given(tokens=st.integers(1, 16384), top_k=st.integers(1, 8))
def test_the_idle_share_of_uniformly_routed_experts(tokens: int, top_k: int) -> None:
    loads_B = np.zeros(moe.BINS)
    bins = moe._fill_loads(
        moe.MoeShape(*shape(tokens=float(tokens), top_k=float(top_k), skew=UNIFORM)), loads_B
    )
    loads = loads_B[:bins]
    assert float(loads.mean()) * 64 == pytest.approx(tokens * top_k, rel=1e-3)
    assert float(np.diff(loads).max()) <= 1e-9
    active = float(np.minimum(loads, 1.0).mean()) * 64
    assert active == pytest.approx(64 * (1.0 - (1.0 - top_k / 64) ** tokens), rel=3e-3)


@settings(deadline=None)
@given(tokens=st.integers(1, 4096))
def test_uniform_routing_reads_fewer_weights_than_balanced(tokens: int) -> None:
    drawn = time_s(shape(tokens=float(tokens), skew=UNIFORM), overhead_tile_cycles=0.0)
    dealt = time_s(shape(tokens=float(tokens)), overhead_tile_cycles=0.0)
    assert tokens >= 64 or drawn <= dealt * (1 + 1e-9)


@settings(deadline=None)
@given(tokens=st.integers(1024, 16384), ep=st.sampled_from([2.0, 4.0, 8.0, 16.0]))
def test_skew_makes_the_busiest_rank_slower_when_experts_are_busy(tokens: int, ep: float) -> None:
    balanced = time_s(shape(tokens=float(tokens), ep=ep))
    skewed = time_s(shape(tokens=float(tokens), ep=ep, skew=1.2))
    assert skewed > balanced


@settings(deadline=None)
@given(
    tokens=st.integers(1, 16384),
    ep=st.sampled_from([1.0, 2.0, 8.0, 64.0]),
    moe_tp=st.sampled_from([1.0, 2.0, 8.0]),
)
def test_cold_never_beats_the_speed_of_light(tokens: int, ep: float, moe_tp: float) -> None:
    row = shape(tokens=float(tokens), ep=ep, moe_tp=moe_tp)
    rows = max(tokens * 4 / ep, 1.0)
    width = 1024 / moe_tp
    active = min(64 / ep, rows)
    floor = max(
        6.0 * tokens * 4 / ep * 4096 * width / 1000e12, 3 * active * 4096 * width * 2 / 4e12
    )
    assert time_s(row, efficiency_compute=1.0, efficiency_bandwidth=1.0) >= floor


def test_odd_loads_do_not_hang() -> None:
    # More choices than experts, and more of everything than a machine integer holds.
    assert time_s(shape(tokens=64.0, top_k=100.0, skew=1.2)) > 0.0
    huge = shape(tokens=1e12, hidden=1e12, intermediate=1e12, experts=1e12, top_k=8.0, skew=1.2)
    assert np.isfinite(time_s(huge))


@pytest.mark.parametrize(
    ("tokens", "experts", "top_k", "ep"),
    [(4, 256, 8, 8), (16, 256, 8, 8), (64, 256, 8, 8), (8, 128, 4, 4), (256, 256, 8, 16)],
)
def test_the_busiest_rank_with_uniform_routing(
    tokens: int, experts: int, top_k: int, ep: int
) -> None:
    rng = np.random.default_rng(7)
    rows, active = [], []
    for _ in range(200):
        drawn = [rng.permutation(experts)[:top_k] for _ in range(tokens)]
        counts = np.bincount(np.concatenate(drawn), minlength=experts).reshape(ep, -1)
        busiest = counts[counts.sum(axis=1).argmax()]
        rows.append(busiest.sum())
        active.append((busiest > 0).sum())
    loads_B = np.zeros(moe.BINS)
    sizes = {"tokens": tokens, "experts": experts, "top_k": top_k, "ep": ep, "skew": UNIFORM}
    bins = moe._fill_loads(
        moe.MoeShape(*shape(**{name: float(size) for name, size in sizes.items()})), loads_B
    )
    local = experts / ep / bins
    assert float(loads_B[:bins].sum()) * local == pytest.approx(np.mean(rows), rel=0.06)
    shown = float(np.minimum(loads_B[:bins], 1.0).sum()) * local
    assert shown == pytest.approx(np.mean(active), rel=0.06)


def test_tiles_that_fill_the_device_are_computed() -> None:
    # 2,048 tokens x 4 on 64 experts, 128 rows each: 64 * 16 + 64 * 32 tiles on 100 SMs, where
    # an efficiency of 0.05 makes tiles slower than memory; 2 tokens on one expert: 1 + 1 tiles
    parameters = np.array(
        [{**VALUES, "efficiency_compute": 0.05}[n] for n in moe.MoeParameters._fields]
    )
    parameters[moe.MoeParameters._fields.index("overhead_launch_s")] = 0.0
    many = shape(tokens=2048.0)
    few = shape(tokens=2.0, experts=1.0, top_k=1.0, intermediate=64.0, hidden=128.0)
    rows = np.stack((many, few))
    _, codes = moe.moe_time_s(rows, np.tile(SILICON, (2, 1)), np.tile(parameters, (2, 1)))
    assert codes[0] == BOUND_PADDING
    assert codes[1] != BOUND_PADDING
