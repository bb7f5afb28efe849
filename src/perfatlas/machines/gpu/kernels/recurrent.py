"""Recurrent mixers: the chunked scan, the one-token state update, the short convolution."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfatlas import operators
from perfatlas.compiled import part
from perfatlas.machines.gpu import declarations
from perfatlas.machines.gpu.kernel_parts import largest_part

if TYPE_CHECKING:
    from perfatlas.machines.gpu.devices import SiliconRow


class ScanPrefillShape(NamedTuple):
    """Shape columns of a chunked scan."""

    batch: float
    q_len: float  # new tokens per sequence
    num_heads: float  # heads, each with its own state
    chunk: float  # tokens per chunk of the algorithm
    flop_per_token: float  # chunked form, all heads
    io_bytes_per_token: float  # inputs and the output
    inner_bytes_per_token: float  # intermediates of the head width between the kernels
    state_bytes: float  # per sequence, read plus written
    hot: float  # 1: a benchmark loop finds the states in cache; 0: they come from memory


class ScanDecodeShape(NamedTuple):
    """Shape columns of a state update."""

    batch: float
    q_len: float
    num_heads: float
    io_bytes_per_token: float
    state_bytes: float
    hot: float


class ConvolutionShape(NamedTuple):
    """Shape columns of a convolution."""

    batch: float
    q_len: float
    channels: float
    kernel: float
    hot: float


class ScanPrefillParameters(NamedTuple):
    """Fitted parameters of a chunked scan."""

    overhead_launch_s: float  # launch of all kernels of the scan
    overhead_unit_cycles: float  # per head and sequence: loading and storing its state
    chunk_cycles: float  # sequential part of each chunk of a head
    row_cycles: float  # per token of a chunk: the triangular solve, parallel over chunks
    parallel_cycles: float  # per chunk and head on one SM: the part that is parallel over chunks
    efficiency_bandwidth: float
    inner_passes: float  # memory passes of the intermediates between the kernels
    overlap_power: float  # 1: no overlap; large: perfect overlap
    l2_fraction: float  # fraction of the L2 that retains tensors between kernels
    # concurrent heads per SM; below 1, a head is spread over SMs (chosen)
    heads_per_sm: float


class UpdateParameters(NamedTuple):
    """Fitted parameters of a state update, and of a one-token convolution."""

    overhead_launch_s: float
    efficiency_bandwidth: float
    cache_bytes_per_cycle: float  # last-level cache bandwidth per SM
    l2_fraction: float
    overhead_unit_cycles: float  # per program on an SM
    overlap_power: float


class ConvolutionParameters(NamedTuple):
    """Fitted parameters of a convolution: those of an update, and its tiles."""

    overhead_launch_s: float
    efficiency_bandwidth: float
    cache_bytes_per_cycle: float
    l2_fraction: float
    overhead_unit_cycles: float
    overlap_power: float
    row_cycles: float  # per token of a program's tile, sequential
    tile_tokens: float  # tokens per program (chosen)
    tile_channels: float  # channels per program (chosen)


# FLOP per chunk and head to which the cycle counts refer: the gated delta rule with a state of
# 128 x 128.
REFERENCE_FLOP: Final = float(
    operators.DELTA_CHUNK * operators.delta_rule_flop(128.0, 128.0, operators.DELTA_CHUNK)
)
HOT_SHARPNESS: Final = 4.0  # sharpness of the transition when tensors exceed the cache
ELEMENT_BYTES: Final = 2.0  # element of the convolution's input, output and state
UPDATE_CHANNELS: Final = 256.0  # channels per program of the one-token convolution


@declarations.kernel_time(ScanPrefillShape, ScanPrefillParameters)
def scan_prefill_time_s(
    shape: ScanPrefillShape, silicon: SiliconRow, parameters: ScanPrefillParameters
) -> tuple[float, int]:
    """Return the time of a chunked scan [s] and its bound code.

    Source:
        Own model of the chunked algorithm (arXiv 2412.06464, section 3.3): work within a chunk
        is parallel over chunks; the state passes from chunk to chunk, so a head of a sequence
        processes its chunks sequentially, in waves of heads over the SMs. A partial chunk costs
        as much as a full one. Validated against the measured tables.

    Limits: All sequences have one length; heads and states of other sizes than 128 x 128 are
    scaled by their arithmetic.
    """
    launch_s, sms, clock = parameters.overhead_launch_s, silicon.sm_count, silicon.clock
    sequence_heads = shape.batch * shape.num_heads
    chunks = math.ceil(shape.q_len / shape.chunk)
    work = shape.flop_per_token * shape.chunk / shape.num_heads / REFERENCE_FLOP
    waves = math.ceil(sequence_heads / (sms * parameters.heads_per_sm))
    sequence_s = waves * chunks * parameters.chunk_cycles * work / clock
    unit_s = waves * parameters.overhead_unit_cycles / clock
    row_s = parameters.row_cycles * min(shape.q_len, shape.chunk) / clock
    all_chunks = sequence_heads * chunks / sms
    parallel_s = max(row_s, all_chunks * parameters.parallel_cycles * work / clock)
    busy_s = sequence_s + unit_s + parallel_s
    inner_bytes = parameters.inner_passes * shape.inner_bytes_per_token
    memory_s = _traffic_s(
        shape.batch * shape.q_len * (shape.io_bytes_per_token + inner_bytes),
        shape.batch * shape.state_bytes,
        shape.hot,
        silicon,
        parameters.efficiency_bandwidth,
        np.inf,
        parameters.l2_fraction,
    )
    together_s = _together_s(busy_s, memory_s, parameters.overlap_power)
    return launch_s + together_s, largest_part(busy_s - unit_s, memory_s, launch_s + unit_s)


@declarations.kernel_time(ScanDecodeShape, UpdateParameters)
def scan_decode_time_s(
    shape: ScanDecodeShape, silicon: SiliconRow, parameters: UpdateParameters
) -> tuple[float, int]:
    """Return the time of a recurrent decode update [s] and its bound code.

    Source:
        Own model: the state of every sequence is read and written once; each head of a sequence
        is a program. Validated against the measured tables.

    Limits: Measured with states of 128 x 128 per head; several tokens are processed one by one.
    """
    tokens = shape.batch * shape.q_len
    programs = max(tokens * shape.num_heads / silicon.sm_count, 1.0)
    program_s = programs * parameters.overhead_unit_cycles / silicon.clock
    io_bytes, state_bytes = tokens * shape.io_bytes_per_token, shape.batch * shape.state_bytes
    return _update_s(io_bytes, state_bytes, shape.hot, silicon, parameters, program_s)


@declarations.kernel_time(ConvolutionShape, ConvolutionParameters)
def conv_prefill_time_s(
    shape: ConvolutionShape, silicon: SiliconRow, parameters: ConvolutionParameters
) -> tuple[float, int]:
    """Return the time of a causal depthwise convolution [s] and its bound code.

    Source:
        Own model: a program slides over a tile of tokens and channels, token by token; all tiles
        together make one memory pass. Validated against the measured tables.

    Limits: Measured with kernels of 4 taps; all sequences have one length.
    """
    rows_of_tiles = math.ceil(shape.q_len / parameters.tile_tokens)
    tiles = shape.batch * rows_of_tiles * math.ceil(shape.channels / parameters.tile_channels)
    program_s = tiles / silicon.sm_count * parameters.overhead_unit_cycles / silicon.clock
    row_s = min(shape.q_len, parameters.tile_tokens) * parameters.row_cycles / silicon.clock
    fixed_s = _together_s(program_s, row_s, parameters.overlap_power)
    io_bytes = 2.0 * ELEMENT_BYTES * shape.batch * shape.q_len * shape.channels
    state_bytes = ELEMENT_BYTES * shape.batch * shape.channels * (shape.kernel - 1.0)
    return _update_s(io_bytes, state_bytes, shape.hot, silicon, parameters, fixed_s)


@declarations.kernel_time(ConvolutionShape, UpdateParameters)
def conv_decode_time_s(
    shape: ConvolutionShape, silicon: SiliconRow, parameters: UpdateParameters
) -> tuple[float, int]:
    """Return the time of the decode update of a causal convolution [s] and its bound code.

    Source:
        Own model: the last inputs of every channel are read and written; each tile of channels
        of a sequence is a program. Validated against the measured tables.

    Limits: Measured with kernels of 4 taps; several tokens are processed one by one.
    """
    tiles = shape.batch * shape.q_len * math.ceil(shape.channels / UPDATE_CHANNELS)
    programs = max(tiles / silicon.sm_count, 1.0)
    program_s = programs * parameters.overhead_unit_cycles / silicon.clock
    io_bytes = 2.0 * ELEMENT_BYTES * shape.batch * shape.q_len * shape.channels
    state_bytes = 2.0 * ELEMENT_BYTES * shape.batch * shape.channels * (shape.kernel - 1.0)
    return _update_s(io_bytes, state_bytes, shape.hot, silicon, parameters, program_s)


@part
def _update_s(
    io_bytes: float,
    state_bytes: float,
    hot: float,
    silicon: SiliconRow,
    parameters: UpdateParameters | ConvolutionParameters,
    program_s: float,
) -> tuple[float, int]:
    """Return the time of programs that overlap with their traffic [s], and its bound code."""
    launch_s = parameters.overhead_launch_s
    memory_s = _traffic_s(
        io_bytes,
        state_bytes,
        hot,
        silicon,
        parameters.efficiency_bandwidth,
        parameters.cache_bytes_per_cycle,
        parameters.l2_fraction,
    )
    together_s = _together_s(program_s, memory_s, parameters.overlap_power)
    return launch_s + together_s, largest_part(0.0, memory_s, launch_s + program_s)


@part
def _traffic_s(
    io_bytes: float,
    state_bytes: float,
    hot: float,
    silicon: SiliconRow,
    efficiency: float,
    cache_bytes_per_cycle: float,
    l2_fraction: float,
) -> float:
    """Return the time of inputs, outputs and states [s].

    Data that was just computed comes from the cache where it fits; so do states in a hot loop.
    """
    reused_bytes = io_bytes + hot * state_bytes
    cached = 1.0 / (1.0 + (reused_bytes / (l2_fraction * silicon.l2)) ** HOT_SHARPNESS)
    memory_s = ((1.0 - hot) * state_bytes + reused_bytes) / (efficiency * silicon.bandwidth)
    spared_s = cached * reused_bytes / (efficiency * silicon.bandwidth)
    cache_s = cached * reused_bytes / (cache_bytes_per_cycle * silicon.sm_count * silicon.clock)
    return float(memory_s - spared_s + min(cache_s, spared_s))


@part
def _together_s(first_s: float, second_s: float, power: float) -> float:
    """Return the time of two parts that overlap [s]."""
    longer, shorter = max(first_s, second_s), min(first_s, second_s)
    if longer <= 0.0:
        return 0.0
    return float(longer * (1.0 + (shorter / longer) ** power) ** (1.0 / power))


MEASURED_MIXER: Final = "gated_delta_net"
# Mixers whose scans are priced with measured kernels of the gated delta net, which have the same
# chunked products and state traffic. All engines run Mamba-2 in Triton kernels, as TensorRT-LLM
# does for the gated delta net. For 8,192 tokens with 128 heads this predicts 0.58 ms on an H100;
# 0.65 ms was measured (vllm-project/vllm pull request 27299).
STAND_INS: Final = {
    "mamba2": declarations.StandIn(
        "trtllm",
        "the Mamba-2 scan has no measurements; it is priced with the Triton kernels of the gated"
        " delta net, scaled by arithmetic and bytes",
    ),
    "lightning": declarations.StandIn(
        "trtllm",
        "lightning attention has no measurements; it is priced with the Triton kernels of the gated"
        " delta net, scaled by arithmetic and bytes",
    ),
}


def _scan_key(operator: operators.Scan) -> declarations.CalibrationKey | None:
    phase = declarations.kernel_phase(operator.phase)
    modeled = operator.mixer == MEASURED_MIXER or operator.mixer in STAND_INS
    return (f"scan_{phase}", ("bf16",)) if phase and modeled else None


def _scan_columns(operator: operators.Scan) -> declarations.Columns:
    return declarations.named(
        operator, ("batch", "num_heads", "flop_per_token", "io_bytes_per_token")
    ) | {
        "q_len": operator.tokens / operator.batch,
        "chunk": operator.chunk,
        "inner_bytes_per_token": operator.num_heads * operator.head_width * 2.0,
        "state_bytes": 2.0 * operator.state_bytes,
        "hot": 0.0,
    }


def _stand_in(operator: operators.Scan) -> declarations.StandIn | None:
    return STAND_INS.get(operator.mixer)


def _convolution_key(operator: operators.Convolution) -> declarations.CalibrationKey | None:
    phase = declarations.kernel_phase(operator.phase)
    return None if phase is None else (f"conv_{phase}", ("bf16",))


def _convolution_columns(operator: operators.Convolution) -> declarations.Columns:
    return {
        "batch": operator.batch,
        "q_len": operator.tokens / operator.batch,
        "channels": operator.channels,
        "kernel": operator.kernel * 1.0,
        "hot": 0.0,
    }


def _scan_shape(state: declarations.Axis) -> declarations.KernelShape:
    return declarations.KernelShape(
        axes=(
            *(
                declarations.Axis(("batch",)),
                declarations.Axis(("q_len",)),
                declarations.Axis(("num_heads",)),
            ),
            declarations.Axis(("batch", "num_heads")),
            declarations.Axis(("io_bytes_per_token",), over=("num_heads",)),
            state,
        ),
        groups=("num_heads",),
        split_by=("num_heads", "io_bytes_per_token"),
        split_words="(value heads, key heads)",
    )


_CONVOLUTION: Final = declarations.KernelShape(
    axes=(
        *(
            declarations.Axis(("batch",)),
            declarations.Axis(("q_len",)),
            declarations.Axis(("channels",)),
            declarations.Axis(("kernel",), 4.0),
        ),
    ),
    groups=("channels",),
    split_by=("channels",),
    split_words="channels",
)
DECLARATIONS: Final = (
    declarations.OperatorKernels(
        kind=operators.Scan,
        calibration_key=_scan_key,
        shape_columns=_scan_columns,
        shapes={
            "scan_prefill": _scan_shape(
                declarations.Axis(("flop_per_token",), 4.0, over=("num_heads",))
            ),
            "scan_decode": _scan_shape(
                declarations.Axis(("state_bytes",), 4.0, over=("num_heads",))
            ),
        },
        stand_in=_stand_in,
    ),
    declarations.OperatorKernels(
        kind=operators.Convolution,
        calibration_key=_convolution_key,
        shape_columns=_convolution_columns,
        shapes={"conv_prefill": _CONVOLUTION, "conv_decode": _CONVOLUTION},
    ),
)
