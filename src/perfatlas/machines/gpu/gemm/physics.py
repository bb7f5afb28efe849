"""Time of one matrix product by tiles, waves, operand feed and memory traffic.

Shape legend: U unique shapes, D shape dimensions, S silicon fields, P parameters.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.compiled import compiled, part
from perfatlas.machines.gpu.devices import BANDWIDTH, CLOCK, L2, PEAK, SM_COUNT
from perfatlas.operators import ACTIVATION_BYTES, BOUND_COMPUTE, BOUND_LATENCY, BOUND_MEMORY

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfatlas.operators import FloatArray

GEMM_SHAPE: Final = (
    "m",  # rows of all groups together
    "n",
    "k",
    "weight_bytes_per_element",
    "input_bytes_per_element",
    "output_bytes_per_element",
    "quantize",  # 1: the measured time includes quantizing the activation
    "copies",  # weight copies that a benchmark cycles through; 0: all data is cold
    "shared_activation",  # 1: the copies share one activation
    "groups",  # products with weights of their own that share the rows; below 1: one
    "tile_rows",  # of the kernel's only output tile; 0: chosen for the shape
    "tile_columns",
    "uneven_groups",  # 1: the rows are cut into groups at random points; 0: equally
)

GEMM_PARAMETERS: Final = (
    "efficiency_compute",  # fraction of the dense peak inside a thread block
    "efficiency_bandwidth",  # fraction of the memory bandwidth
    "overhead_launch_s",
    "overhead_wave_cycles",
    "feed_bytes_per_flop",  # operand loads of one SM relative to its peak
    "overhead_split_cycles",
    "overlap_power",  # 1: compute and memory add; large: the longer hides the shorter
    "l2_fraction",  # effective fraction of the L2 in a benchmark loop
    "overhead_quantize_s",
    "wave_smoothing",  # 0: whole waves; 1: a partial wave costs its fraction
    "quantize_passes",  # multiples of the activation's bytes at full memory bandwidth
    "tile_policy",  # 0: the library selects the best tile; else a row of TILE_POLICIES (chosen)
)

# Output tiles that a library selects from (rows, columns), and its split-k factors.
TILES: Final = np.array(
    [
        *((16, 64), (64, 16), (16, 128), (128, 16), (32, 64), (64, 32), (32, 128), (128, 32)),
        *((64, 64), (64, 128), (128, 64), (64, 256), (256, 64), (128, 128)),
        *((128, 256), (256, 128)),
    ],
    dtype=np.float64,
)
# Kernels dispatched on the number of rows only, without split-k: per policy, (maximum m, tile
# rows, tile columns). Policies 1 and 2 follow the fp8 dispatch of CUTLASS kernels for one SM (vLLM
# csrc/quantization/w8a8/cutlass), 3 and 4 the dispatch for pairs of SMs (256-row tiles).
TILE_POLICIES: Final = np.array(
    [
        [(16, 16, 64), (64, 64, 64), (128, 64, 128), (np.inf, 128, 128)],
        [(64, 64, 64), (128, 64, 128), (256, 128, 128), (np.inf, 128, 128)],
        [(16, 16, 64), (64, 64, 64), (128, 64, 128), (np.inf, 256, 128)],
        [(16, 64, 64), (64, 64, 64), (256, 128, 128), (np.inf, 256, 128)],
    ],
    dtype=np.float64,
)
SPLITS: Final = np.array([1, 2, 3, 4, 6, 8, 12, 16, 24, 32], dtype=np.float64)
MIN_K_PER_SPLIT: Final = 128.0
MAX_SPLIT_BLOCKS_PER_SM: Final = 4.0
PARTIAL_SUM_BYTES: Final = 8.0 / 3.0  # per output element and split: fp32 out and in, part cached
HOT_SHARPNESS: Final = 4.0  # sharpness of the transition when a loop exceeds the cache


def gemm_time_s(
    shape_UD: FloatArray, silicon_US: FloatArray, parameters_UP: FloatArray
) -> tuple[FloatArray, NDArray[np.int8]]:
    """Return the time of each matrix product and its bound code.

    Args:
        shape_UD: Columns of GEMM_SHAPE (U, D).
        silicon_US: Columns of `machines.gpu.devices.silicon` (U, S).
        parameters_UP: Columns of GEMM_PARAMETERS (U, P).

    Returns:
        time_s (U,) and bound codes (U,).

    Source:
        Own tile and wave model fitted on measured tables: launch time, plus the minimum over
        tiles and splits of compute waves overlapped with device-memory traffic, plus the
        reduction of partial sums and the quantization of the activation.

    Limits:
        One tile list for all libraries; no structured sparsity; constant clocks, so that
        power-capped long kernels are predicted too fast. All measured rows are single products:
        a grouped one is priced with their parameters as one kernel whose tiles hold rows of one
        group each. With efficiencies up to 1 and cold data
        the time is never below max(FLOP/peak, bytes/bandwidth).
    """
    count = shape_UD.shape[0]
    time_s, bound = np.empty(count), np.empty(count, np.int8)
    _gemm(shape_UD, silicon_US, parameters_UP, time_s, bound)
    return time_s, bound


@compiled
def _gemm(
    shape_UD: FloatArray,
    silicon_US: FloatArray,
    parameters_UP: FloatArray,
    time_s: FloatArray,
    bound: NDArray[np.int8],
) -> None:
    for unit in range(shape_UD.shape[0]):
        shape, silicon, parameters = shape_UD[unit], silicon_US[unit], parameters_UP[unit]
        memory_s = _memory_s(shape, silicon, parameters)
        body_s, blocks_s, fixed_s = _best_body(shape, silicon, parameters, memory_s)
        quantize_s = 0.0
        if shape[6] > 0.0:
            quantize_s, fixed_quantize_s = _quantize_s(shape, silicon, parameters)
            fixed_s += fixed_quantize_s
        time_s[unit] = parameters[2] + body_s + quantize_s
        fixed_s += parameters[2]
        if fixed_s > 0.5 * time_s[unit]:
            bound[unit] = BOUND_LATENCY
        elif memory_s + quantize_s > blocks_s:
            bound[unit] = BOUND_MEMORY
        else:
            bound[unit] = BOUND_COMPUTE


@part
def _cold_share(shape: FloatArray, silicon: FloatArray, parameters: FloatArray) -> float:
    """Return the fraction of the traffic that misses the cache in a benchmark loop."""
    m, n, k = shape[0], shape[1], shape[2]
    copies = shape[7]
    if copies <= 0.0:
        return 1.0
    activations = m * k * shape[4] * (1.0 if shape[8] > 0.0 else copies)
    footprint = copies * max(shape[9], 1.0) * n * k * shape[3] + activations + m * n * shape[5]
    ratio = footprint / (parameters[7] * silicon[L2])
    return float(1.0 - 1.0 / (1.0 + ratio**HOT_SHARPNESS))


@part
def _memory_s(shape: FloatArray, silicon: FloatArray, parameters: FloatArray) -> float:
    """Return the time of the device-memory traffic [s]."""
    m, n, k = shape[0], shape[1], shape[2]
    traffic = max(shape[9], 1.0) * n * k * shape[3] + m * k * shape[4] + m * n * shape[5]
    cold = _cold_share(shape, silicon, parameters)
    return float(cold * traffic / (parameters[1] * silicon[BANDWIDTH]))


@part
def _quantize_s(
    shape: FloatArray, silicon: FloatArray, parameters: FloatArray
) -> tuple[float, float]:
    """Return the time of quantizing the activation, and its fixed part [s]."""
    traffic = shape[0] * shape[2] * (ACTIVATION_BYTES + shape[4])
    return parameters[8] + parameters[10] * traffic / silicon[BANDWIDTH], parameters[8]


@part
def _best_body(
    shape: FloatArray, silicon: FloatArray, parameters: FloatArray, memory_s: float
) -> tuple[float, float, float]:
    """Return the minimum time over tiles and splits, its block time and its fixed part [s]."""
    m, n = shape[0], shape[1]
    group_rows = m / max(shape[9], 1.0)
    power = parameters[6]
    split_s = parameters[5] / silicon[CLOCK]
    partial_s = PARTIAL_SUM_BYTES * m * n / (parameters[1] * silicon[BANDWIDTH])
    best_s, best_blocks_s, best_fixed_s = math.inf, math.inf, 0.0
    fixed = shape[10] > 0.0
    splits = SPLITS.size if parameters[11] == 0.0 and not fixed else 1
    for index in range(splits):
        split = SPLITS[index]
        if split > 1.0 and shape[2] < split * MIN_K_PER_SPLIT:
            break
        extra_s = split_s + split * partial_s if split > 1.0 else 0.0
        # Further splits help only if the blocks get shorter; the other terms only grow.
        if memory_s + extra_s >= best_s:
            break
        if fixed:
            blocks_s, wave_s = _tile_s(shape, silicon, parameters, split, shape[10], shape[11])
        elif parameters[11] == 0.0:
            blocks_s, wave_s = _free_blocks_s(shape, silicon, parameters, split)
        else:
            rows, columns = _dispatched_tile(group_rows, int(parameters[11]) - 1)
            blocks_s, wave_s = _tile_s(shape, silicon, parameters, split, rows, columns)
        if blocks_s >= best_blocks_s or max(blocks_s, memory_s) + extra_s >= best_s:
            continue
        longer, shorter = max(blocks_s, memory_s), min(blocks_s, memory_s)
        body_s = longer * (1.0 + (shorter / longer) ** power) ** (1.0 / power) + extra_s
        best_blocks_s = blocks_s
        if body_s < best_s:
            best_s = body_s
            best_fixed_s = wave_s + (split_s if split > 1.0 else 0.0)
    return best_s, best_blocks_s, best_fixed_s


@part
def _dispatched_tile(m: float, policy: int) -> tuple[float, float]:
    """Return the tile (rows, columns) that a policy selects for a product of m rows."""
    row = 0
    while m > TILE_POLICIES[policy, row, 0]:
        row += 1
    return TILE_POLICIES[policy, row, 1], TILE_POLICIES[policy, row, 2]


@part
def _free_blocks_s(
    shape: FloatArray, silicon: FloatArray, parameters: FloatArray, split: float
) -> tuple[float, float]:
    """Return the minimum time of the thread blocks over all tiles, and its per-wave part [s]."""
    best_s, best_wave_s = math.inf, 0.0
    for index in range(TILES.shape[0]):
        rows, columns = TILES[index, 0], TILES[index, 1]
        total_s, wave_s = _tile_s(shape, silicon, parameters, split, rows, columns)
        if total_s < best_s:
            best_s, best_wave_s = total_s, wave_s
    return best_s, best_wave_s


@part
def _tile_s(
    shape: FloatArray,
    silicon: FloatArray,
    parameters: FloatArray,
    split: float,
    rows: float,
    columns: float,
) -> tuple[float, float]:
    """Return the time of the thread blocks of one tile, and its per-wave part [s]."""
    m, n, groups = shape[0], shape[1], max(shape[9], 1.0)
    sms = silicon[SM_COUNT]
    group_rows = m / groups
    blocks = groups * _row_tiles(group_rows, rows, shape[12]) * np.ceil(n / columns) * split
    if split > 1.0 and blocks > MAX_SPLIT_BLOCKS_PER_SM * sms:
        return math.inf, 0.0
    depth_s = shape[2] / split * sms / silicon[PEAK]  # one FLOP per element of k on one SM
    smoothing = parameters[9]
    exact = blocks / sms
    waves = (1.0 - smoothing) * np.ceil(exact) + smoothing * max(exact, 1.0)
    wave_s = parameters[3] / silicon[CLOCK]
    compute_s = 2.0 * rows * columns * depth_s / parameters[0]
    fed_bytes = min(rows, group_rows) * shape[4] + min(columns, n) * shape[3]
    feed_s = fed_bytes * depth_s / parameters[4]
    return waves * (max(compute_s, feed_s) + wave_s), waves * wave_s


@part
def _row_tiles(group_rows: float, rows: float, uneven: float) -> float:
    """Return the mean tiles of rows per group.

    Rows cut at random points give groups with exponential sizes, and a group of x rows takes
    ceil(x / rows) tiles: on average 1 / (1 - exp(-rows / mean)), half a tile more than the
    rows fill where groups are large, and one where they are small.
    """
    if uneven > 0.0:
        return float(1.0 / -math.expm1(-rows / group_rows))
    return float(np.ceil(group_rows / rows))
