"""Matrix products: time by tiles, waves, operand feed and memory traffic."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfatlas import operators
from perfatlas.compiled import part
from perfatlas.machines.gpu import declarations
from perfatlas.operators import ACTIVATION_BYTES, BOUND_COMPUTE, BOUND_LATENCY, BOUND_MEMORY

if TYPE_CHECKING:
    from perfatlas.machines.gpu.devices import SiliconRow


class GemmShape(NamedTuple):
    """Shape columns of a matrix product."""

    m: float  # rows of all groups together
    n: float
    k: float
    weight_bytes_per_element: float
    input_bytes_per_element: float
    output_bytes_per_element: float
    quantize: float  # 1: the measured time includes quantizing the activation
    copies: float  # weight copies that a benchmark cycles through; 0: all data is cold
    shared_activation: float  # 1: the copies share one activation
    groups: float  # products with weights of their own that share the rows; below 1: one
    tile_rows: float  # of the kernel's only output tile; 0: chosen for the shape
    tile_columns: float
    uneven_groups: float  # 1: the rows are cut into groups at random points; 0: equally


class GemmParameters(NamedTuple):
    """Fitted parameters of a matrix product."""

    efficiency_compute: float  # fraction of the dense peak inside a thread block
    efficiency_bandwidth: float  # fraction of the memory bandwidth
    overhead_launch_s: float
    overhead_wave_cycles: float
    feed_bytes_per_flop: float  # operand loads of one SM relative to its peak
    overhead_split_cycles: float
    overlap_power: float  # 1: compute and memory add; large: the longer hides the shorter
    l2_fraction: float  # effective fraction of the L2 in a benchmark loop
    overhead_quantize_s: float
    wave_smoothing: float  # 0: whole waves; 1: a partial wave costs its fraction
    quantize_passes: float  # multiples of the activation's bytes at full memory bandwidth
    tile_policy: float  # 0: the library selects the best tile; else a row of TILE_POLICIES (chosen)
    # least clocks of a block per element of the inner dimension: a step of its loop waits for loads
    # and for the previous product
    overhead_depth_cycles: float


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


@declarations.kernel_time(GemmShape, GemmParameters)
def gemm_time_s(
    shape: GemmShape, silicon: SiliconRow, parameters: GemmParameters
) -> tuple[float, int]:
    """Return the time of a matrix product [s] and its bound code.

    Launch, plus the minimum over tiles and splits of compute waves overlapped with device-memory
    traffic, plus the reduction of partial sums and the quantization of the activation.

    Source:
        Own tile and wave model fitted on measured tables.

    Limits:
        One tile list for all libraries; no structured sparsity; constant clocks, so that
        power-capped long kernels are predicted too fast. All measured rows are single products:
        a grouped one is priced with their parameters as one kernel whose tiles hold rows of one
        group each. With efficiencies up to 1 and cold data
        the time is never below max(FLOP/peak, bytes/bandwidth).
    """
    m, n, k = shape.m, shape.n, shape.k
    weights = max(shape.groups, 1.0) * n * k * shape.weight_bytes_per_element
    activations = m * k * shape.input_bytes_per_element
    outputs = m * n * shape.output_bytes_per_element
    cold = 1.0
    if shape.copies > 0.0:
        inputs = activations * (1.0 if shape.shared_activation > 0.0 else shape.copies)
        footprint = shape.copies * weights + inputs + outputs
        ratio = footprint / (parameters.l2_fraction * silicon.l2)
        cold = 1.0 - 1.0 / (1.0 + ratio**HOT_SHARPNESS)
    rate = parameters.efficiency_bandwidth * silicon.bandwidth
    memory_s = cold * (weights + activations + outputs) / rate

    body_s, blocks_s, fixed_s = _best_split_s(shape, silicon, parameters, memory_s)

    quantize_s = 0.0
    if shape.quantize > 0.0:
        traffic = m * k * (ACTIVATION_BYTES + shape.input_bytes_per_element)
        passes_s = parameters.quantize_passes * traffic / silicon.bandwidth
        quantize_s = parameters.overhead_quantize_s + passes_s
        fixed_s += parameters.overhead_quantize_s
    fixed_s += parameters.overhead_launch_s
    time_s = parameters.overhead_launch_s + body_s + quantize_s
    if fixed_s > 0.5 * time_s:
        return time_s, BOUND_LATENCY
    return time_s, BOUND_MEMORY if memory_s + quantize_s > blocks_s else BOUND_COMPUTE


@part
def _best_split_s(
    shape: GemmShape, silicon: SiliconRow, parameters: GemmParameters, memory_s: float
) -> tuple[float, float, float]:
    """Return the minimum time over tiles and splits, its block time and its fixed part [s]."""
    power = parameters.overlap_power
    split_s = parameters.overhead_split_cycles / silicon.clock
    rate = parameters.efficiency_bandwidth * silicon.bandwidth
    partial_s = PARTIAL_SUM_BYTES * shape.m * shape.n / rate
    best_s, best_blocks_s, best_fixed_s = math.inf, math.inf, 0.0
    free = parameters.tile_policy == 0.0 and not shape.tile_rows > 0.0
    for index in range(SPLITS.size if free else 1):
        split = SPLITS[index]
        if split > 1.0 and shape.k < split * MIN_K_PER_SPLIT:
            break
        extra_s = split_s + split * partial_s if split > 1.0 else 0.0
        # Further splits help only if the blocks get shorter; the other terms only grow.
        if memory_s + extra_s >= best_s:
            break
        blocks_s, wave_s = _blocks_s(shape, silicon, parameters, split)
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
def _blocks_s(
    shape: GemmShape, silicon: SiliconRow, parameters: GemmParameters, split: float
) -> tuple[float, float]:
    """Return the time of the thread blocks of the kernel's tile, and its per-wave part [s]."""
    if shape.tile_rows > 0.0:
        return _tile_s(shape, silicon, parameters, split, shape.tile_rows, shape.tile_columns)
    if parameters.tile_policy > 0.0:
        group_rows = shape.m / max(shape.groups, 1.0)
        for most_rows, rows, columns in TILE_POLICIES[int(parameters.tile_policy) - 1]:
            if group_rows <= most_rows:  # of the last row of a policy: infinite
                return _tile_s(shape, silicon, parameters, split, rows, columns)
    best_s, best_wave_s = math.inf, 0.0
    for rows, columns in TILES:
        total_s, wave_s = _tile_s(shape, silicon, parameters, split, rows, columns)
        if total_s < best_s:
            best_s, best_wave_s = total_s, wave_s
    return best_s, best_wave_s


@part
def _tile_s(
    shape: GemmShape,
    silicon: SiliconRow,
    parameters: GemmParameters,
    split: float,
    rows: float,
    columns: float,
) -> tuple[float, float]:
    """Return the time of the thread blocks of one tile, and its per-wave part [s]."""
    groups, sms = max(shape.groups, 1.0), silicon.sm_count
    group_rows = shape.m / groups
    row_tiles = _row_tiles(group_rows, rows, shape.uneven_groups)
    blocks = groups * row_tiles * np.ceil(shape.n / columns) * split
    if split > 1.0 and blocks > MAX_SPLIT_BLOCKS_PER_SM * sms:
        return math.inf, 0.0
    depth_s = shape.k / split * sms / silicon.peak  # one FLOP per element of k on one SM
    smoothing = parameters.wave_smoothing
    exact = blocks / sms
    waves = (1.0 - smoothing) * np.ceil(exact) + smoothing * max(exact, 1.0)
    wave_s = parameters.overhead_wave_cycles / silicon.clock
    loop_s = parameters.overhead_depth_cycles * shape.k / split / silicon.clock
    compute_s = 2.0 * rows * columns * depth_s / parameters.efficiency_compute
    fed_bytes = min(rows, group_rows) * shape.input_bytes_per_element
    fed_bytes += min(columns, shape.n) * shape.weight_bytes_per_element
    feed_s = fed_bytes * depth_s / parameters.feed_bytes_per_flop
    return waves * (max(compute_s, feed_s, loop_s) + wave_s), waves * wave_s


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


def _key(operator: operators.Gemm) -> declarations.CalibrationKey:
    """Return the calibration key; static quantization is a separate streaming pass, like a norm."""
    return "gemm", declarations.fitted_formats(operator.kernel_format or operator.format)


def _stand_in(operator: operators.Gemm) -> declarations.StandIn | None:
    lent = operator.kernel_format
    note = f"products in {operator.format} have the parameters of the engine's kernels in {lent}"
    return declarations.StandIn("", note) if lent else None


def _columns(operator: operators.Gemm) -> declarations.Columns:
    sizes = ("m", "n", "k", "groups", "tile_rows", "tile_columns", "uneven_groups")
    bytes_per_element = tuple(f"{of}_bytes_per_element" for of in ("weight", "input", "output"))
    return declarations.named(operator, sizes + bytes_per_element) | {
        "quantize": operator.quantizes_input,
        "copies": 0.0,
        "shared_activation": 0.0,
    }


DECLARATIONS: Final = (
    declarations.OperatorKernels(
        kind=operators.Gemm,
        calibration_key=_key,
        shape_columns=_columns,
        stand_in=_stand_in,
        shapes={
            "gemm": declarations.KernelShape(
                axes=(
                    declarations.Axis(("m",), 2.0),
                    declarations.Axis(("n",)),
                    declarations.Axis(("k",), 0.5),
                ),
                groups=("n", "k"),
                split_by=("n", "k"),
                split_words="(n, k)",
            )
        },
    ),
)
