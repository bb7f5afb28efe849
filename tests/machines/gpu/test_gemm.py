"""Shape legend: U unique shapes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from perfatlas.machines.gpu.devices import SiliconRow
from perfatlas.machines.gpu.kernels.gemm import GemmParameters, GemmShape, gemm_time_s
from perfatlas.operators import BOUND_COMPUTE, BOUND_LATENCY, BOUND_MEMORY, FloatArray

# An H200 as rounded in 2024 datasheets: 989 TFLOP/s dense bf16, 4.8 TB/s, 132 SMs, 1.83 GHz, 50 MB.
H200 = SiliconRow(
    peak=989e12, bandwidth=4.8e12, sm_count=132.0, clock=1.83e9, l2=50.0 * 2**20, exponentials=16.0
)
BF16_VLLM = {
    "efficiency_compute": 0.879,
    "efficiency_bandwidth": 0.787,
    "overhead_launch_s": 2.053e-6,
    "overhead_wave_cycles": 1.119e-6 * 1.83e9,
    "feed_bytes_per_flop": 154.26e9 / (989e12 / 132),
    "overhead_split_cycles": 2.599e-6 * 1.83e9,
    "overlap_power": 3.521,
    "l2_fraction": 0.687,
    "overhead_quantize_s": 0.0,
    "wave_smoothing": 0.0,
    "quantize_passes": 0.0,
    "tile_policy": 0.0,
    "overhead_depth_cycles": 0.0,
}
SIZES = st.integers(1, 40_000)


def time_s(
    shapes: list[tuple[float, ...]], silicon: SiliconRow = H200, **changes: float
) -> FloatArray:
    shape_UD = np.ones((len(shapes), len(GemmShape._fields)))
    shape_UD[:, 3:6] = 2.0
    shape_UD[:, 6:8] = 0.0
    shape_UD[:, 10:] = 0.0
    for row, shape in enumerate(shapes):
        shape_UD[row, : len(shape)] = shape
    values = {**BF16_VLLM, **changes}
    parameters = np.array([values[name] for name in GemmParameters._fields])
    rows = len(shapes)
    times: FloatArray
    times, codes = gemm_time_s(
        shape_UD, np.tile(silicon, (rows, 1)), np.tile(parameters, (rows, 1))
    )
    assert set(codes.tolist()) <= {BOUND_COMPUTE, BOUND_MEMORY, BOUND_LATENCY}
    return times


@pytest.mark.parametrize(
    ("shape", "expected_us"),
    [
        ((1, 8192, 8192), 37.64),
        ((64, 8192, 8192), 38.57),
        ((129, 4096, 4096), 14.82),
        ((4096, 8192, 8192), 663.2),
        ((16, 1024, 1024), 3.61),
    ],
)
def test_published_check_values(shape: tuple[int, int, int], expected_us: float) -> None:
    assert time_s([shape])[0] * 1e6 == pytest.approx(expected_us, rel=5e-4)


def test_one_block_by_hand() -> None:
    # 16 x 64 with K = 128 in tiles of 64 x 16: four blocks on four of 132 SMs, no split (K < 256)
    # compute 2*64*16*128 / (0.879 * 989e12/132)                       = 0.0398 us
    # feed    (16*2 + 16*2) * 128 / 154.26e9                           = 0.0531 us
    # wave    0.0531 + 1.119                                           = 1.1721 us
    # memory  (64*128 + 16*128 + 16*64)*2 / (0.787 * 4.8e12)           = 0.0060 us, hidden
    assert time_s([(16, 64, 128)])[0] * 1e6 == pytest.approx(2.053 + 1.1721, rel=1e-4)


def test_a_block_takes_the_clocks_of_its_loop() -> None:
    # One block of 16 x 64 with K = 4096 and 2 clocks per element:
    # 2 * 4096 clocks; the feed of 2.124 us is hidden, and twice the K takes twice the loop.
    shapes: list[tuple[float, ...]] = [(16, 64, k, 1, 1, 2) for k in (4096, 8192)]
    one, two = time_s(shapes, tile_policy=1.0, overhead_depth_cycles=2.0)
    loop_s = 2.0 * 4096 / H200.clock
    assert one * 1e6 == pytest.approx(2.053 + loop_s * 1e6 + 1.119, rel=1e-2)
    assert two - one == pytest.approx(loop_s, rel=1e-2)


def test_quantization_adds_its_launch_and_its_traffic() -> None:
    # 1024 x 4096 elements read at 2 bytes and written at 1, twice over 4.8 TB/s:
    # 2 * 12.58 MB / 4.8e12 = 5.243 us
    plain, quantized = time_s(
        [(1024, 4096, 4096, 1, 1, 2, 0), (1024, 4096, 4096, 1, 1, 2, 1)],
        overhead_quantize_s=5e-6,
        quantize_passes=2.0,
    )
    assert (quantized - plain) * 1e6 == pytest.approx(5 + 5.243, rel=1e-3)


def test_a_dispatched_tile_is_fixed() -> None:
    # Policy 1 gives 16 rows a tile of 16 x 64 and never splits: 16 x 64 x 4096 is one block.
    # feed (16*1 + 64*1) * 4096 / 154.26e9 = 2.124 us; wave 2.124 + 1.119; memory below 0.1 us
    one = time_s([(16, 64, 4096, 1, 1, 2)], tile_policy=1.0)[0]
    assert one * 1e6 == pytest.approx(2.053 + 2.124 + 1.119, rel=1e-3)
    # The row after the limit takes the next tile, 64 x 64, and time never falls at the edge.
    before, after = time_s([(16, 8192, 4096, 1, 1, 2), (17, 8192, 4096, 1, 1, 2)], tile_policy=1.0)
    assert after > before


@settings(deadline=None)
@given(m=SIZES, n=SIZES, k=SIZES, policy=st.integers(1, 2))
def test_a_free_choice_of_tiles_is_never_slower(m: int, n: int, k: int, policy: int) -> None:
    shape = (m, n, k, 1, 1, 2)
    fixed = time_s([shape], tile_policy=float(policy))[0]
    assert time_s([shape])[0] <= fixed * (1 + 1e-12)


def test_a_loop_in_cache_is_faster_than_a_cold_one() -> None:
    small, many = (16, 2048, 2048, 2, 2, 2, 0, 1), (16, 2048, 2048, 2, 2, 2, 0, 6)
    cold = (16, 2048, 2048, 2, 2, 2, 0, 0)
    hot_s, six_copies_s, cold_s = time_s([small, many, cold])
    assert hot_s < six_copies_s <= cold_s


@settings(deadline=None)
@given(
    m=SIZES,
    n=SIZES,
    k=SIZES,
    compute=st.floats(0.3, 1.0),
    bandwidth=st.floats(0.3, 1.0),
    smoothing=st.floats(0.0, 1.0),
)
def test_cold_never_beats_the_speed_of_light(
    m: int, n: int, k: int, compute: float, bandwidth: float, smoothing: float
) -> None:
    predicted = time_s(
        [(m, n, k)],
        efficiency_compute=compute,
        efficiency_bandwidth=bandwidth,
        wave_smoothing=smoothing,
    )[0]
    floor = max(2.0 * m * n * k / 989e12, 2.0 * (m * k + n * k + m * n) / 4.8e12)
    assert predicted >= floor * (1 - 1e-12)


@settings(deadline=None)
@given(m=SIZES, n=SIZES, k=SIZES)
def test_doubling_every_rate_halves_all_but_the_launch(m: int, n: int, k: int) -> None:
    rates = {name: 2.0 * getattr(H200, name) for name in ("peak", "bandwidth", "clock")}
    faster = H200._replace(**rates)
    launch = BF16_VLLM["overhead_launch_s"]
    slow, fast = time_s([(m, n, k)])[0], time_s([(m, n, k)], silicon=faster)[0]
    assert 2.0 * (fast - launch) == pytest.approx(slow - launch, rel=1e-9)


@settings(deadline=None)
@given(m=SIZES, n=SIZES, k=SIZES)
def test_partial_waves_never_cost_more_than_whole_ones(m: int, n: int, k: int) -> None:
    whole = time_s([(m, n, k)], wave_smoothing=0.0)[0]
    exact = time_s([(m, n, k)], wave_smoothing=1.0)[0]
    assert exact <= whole * (1 + 1e-12)


def grouped_s(m: int, n: int, k: int, groups: int, tile_policy: float = 0.0) -> float:
    shape = (groups * m, n, k, 2, 2, 2, 0, 0, 1, groups)
    return float(time_s([shape], tile_policy=tile_policy)[0])


def test_a_tile_of_a_grouped_product_is_fed_by_one_group_only() -> None:
    # 128 products of 8192 x 512 x 128 in tiles of 128 x 256: 128 * 64 * 2 = 16,384 blocks, 125
    # waves (124.12) of 2*128*256*128 / (0.879 * 989e12/132) = 1.274 us, feed (128*2 + 256*2) * 128
    # / 154.26e9 = 0.637 us, and 1.119 us per wave: 125 * 2.393 = 299.1 us; memory
    # (16.8 + 268.4 + 1073.7) MB / (0.787 * 4.8e12) = 359.7 us
    # (299.1**3.521 + 359.7**3.521) ** (1/3.521) = 408.0 us is an upper limit of the free choice.
    assert 2.053 + 359.7 < grouped_s(8192, 512, 128, 128) * 1e6 < 2.053 + 408.1


def test_rows_are_padded_to_tiles_in_each_group() -> None:
    # One row of each of 132 groups takes a block per group and tile of columns, not one for all.
    assert grouped_s(1, 64, 4096, 132) > grouped_s(132, 64, 4096, 1)
    one, many = grouped_s(1, 64, 4096, 1), grouped_s(1, 64, 4096, 1320)
    assert many > 5 * (one - BF16_VLLM["overhead_launch_s"])
    # A dispatched kernel selects its tile by the rows of a group: 16 rows, tiles of 16 x 64.
    # feed (16*2 + 64*2) * 4096 / 154.26e9 = 4.248 us; wave 1.119; memory (132 * 64 * 4096
    # + 132 * 16 * 4096 + 132 * 16 * 64) * 2 / (0.787 * 4.8e12) = 22.97 us
    dispatched = grouped_s(16, 64, 4096, 132, tile_policy=1.0) * 1e6
    power = BF16_VLLM["overlap_power"]
    assert dispatched == pytest.approx(
        2.053 + (5.367**power + 22.97**power) ** (1 / power), rel=1e-3
    )


@settings(deadline=None)
@given(m=st.integers(1, 4000), n=SIZES, k=SIZES, groups=st.integers(1, 300))
def test_groups_never_beat_one_product_of_all_rows(m: int, n: int, k: int, groups: int) -> None:
    grouped, single = grouped_s(m, n, k, groups), grouped_s(m * groups, n, k, 1)
    assert grouped >= single * (1 - 1e-12)
    floor = max(2.0 * groups * m * n * k / 989e12, 2.0 * groups * (m * k + n * k + m * n) / 4.8e12)
    assert grouped >= floor * (1 - 1e-12)


def test_a_fixed_tile_is_used_for_any_shape() -> None:
    # 4 groups of 4096 x 8192 x 5120 in tiles of 64 x 128: 4 * 64 * 64 = 16,384 blocks, 125 waves
    # on 132 SMs, each of max(2*64*128*5120 / (0.879 * 989e12/132), feed (64 + 128) * 2 * 5120
    # / 154.26e9 = 12.745 us) = 12.745 us + 1.119 us: 1733.0 us, and memory
    # (4*8192*5120 + 16384*5120 + 16384*8192) * 2 / (0.787 * 4.8e12) = 204.3 us
    shape = (4 * 4096, 8192, 5120, 2, 2, 2, 0, 0, 1, 4, 64, 128, 0)
    fixed_us = float(time_s([shape])[0]) * 1e6
    power = BF16_VLLM["overlap_power"]
    expected = 2.053 + (1733.0**power + 204.3**power) ** (1 / power)
    assert fixed_us == pytest.approx(expected, rel=1e-3)
    assert fixed_us > grouped_s(4096, 8192, 5120, 4) * 1e6


def test_groups_cut_at_random_points_take_half_a_tile_more() -> None:
    # A mean of 8 tiles of 128 rows: 1 / (1 - exp(-1/8)) = 8.51 tiles instead of 8: 136.2 blocks
    # per SM instead of 128, 137 waves; launch and memory are below 0.1%
    sizes = (132 * 1024, 4096, 16384, 2, 2, 2, 0, 0, 1, 132, 128, 256)
    equal, uneven = time_s([(*sizes, 0), (*sizes, 1)])
    assert uneven / equal == pytest.approx(137.0 / 128.0, rel=2e-3)
    # far below a tile, one tile per group either way
    few = (132, 4096, 16384, 2, 2, 2, 0, 0, 1, 132, 128, 256)
    equal, uneven = time_s([(*few, 0), (*few, 1)])
    assert uneven == pytest.approx(equal, rel=1e-12)
