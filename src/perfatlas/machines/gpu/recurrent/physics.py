"""Time of recurrent mixers: the chunked scan, the one-token state update, the short convolution.

Shape legend: U unique shapes, D shape dimensions, S silicon fields, P parameters.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.compiled import compiled, part
from perfatlas.machines.gpu.attention import largest_part
from perfatlas.machines.gpu.devices import BANDWIDTH, CLOCK, L2, SM_COUNT
from perfatlas.operators import DELTA_CHUNK, delta_rule_flop

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfatlas.operators import FloatArray

SCAN_PREFILL_SHAPE: Final = (
    "batch",
    "q_len",  # new tokens per sequence
    "num_heads",  # heads, each with its own state
    "chunk",  # tokens per chunk of the algorithm
    "flop_per_token",  # chunked form, all heads
    "io_bytes_per_token",  # inputs and the output
    "inner_bytes_per_token",  # intermediates of the head width between the kernels
    "state_bytes",  # per sequence, read plus written
    "hot",  # 1: a benchmark loop finds the states in cache; 0: they come from memory
)
SCAN_DECODE_SHAPE: Final = (
    "batch",
    "q_len",
    "num_heads",
    "io_bytes_per_token",
    "state_bytes",
    "hot",
)
CONV_PREFILL_SHAPE: Final = ("batch", "q_len", "channels", "kernel", "hot")
CONV_DECODE_SHAPE: Final = CONV_PREFILL_SHAPE

SCAN_PREFILL_PARAMETERS: Final = (
    "overhead_launch_s",  # launch of all kernels of the scan
    "overhead_unit_cycles",  # per head and sequence: loading and storing its state
    "chunk_cycles",  # sequential part of each chunk of a head
    "row_cycles",  # per token of a chunk: the triangular solve, parallel over chunks
    "parallel_cycles",  # per chunk and head on one SM: the part that is parallel over chunks
    "efficiency_bandwidth",
    "inner_passes",  # memory passes of the intermediates between the kernels
    "overlap_power",  # 1: no overlap; large: perfect overlap
    "l2_fraction",  # fraction of the L2 that retains tensors between kernels
    "heads_per_sm",  # concurrent heads per SM; below 1, a head is spread over SMs (chosen)
)
SCAN_DECODE_PARAMETERS: Final = (
    "overhead_launch_s",
    "efficiency_bandwidth",
    "cache_bytes_per_cycle",  # last-level cache bandwidth per SM
    "l2_fraction",
    "overhead_unit_cycles",  # per program on an SM
    "overlap_power",
)
CONV_DECODE_PARAMETERS: Final = SCAN_DECODE_PARAMETERS
CONV_PREFILL_PARAMETERS: Final = (
    *SCAN_DECODE_PARAMETERS,
    "row_cycles",  # per token of a program's tile, sequential
    "tile_tokens",  # tokens per program (chosen)
    "tile_channels",  # channels per program (chosen)
)

# FLOP per chunk and head to which the cycle counts refer: the gated delta rule with a state of
# 128 x 128.
REFERENCE_FLOP: Final = float(DELTA_CHUNK * delta_rule_flop(128.0, 128.0, DELTA_CHUNK))
HOT_SHARPNESS: Final = 4.0  # sharpness of the transition when tensors exceed the cache
ELEMENT_BYTES: Final = 2.0  # element of the convolution's input, output and state
UPDATE_CHANNELS: Final = 256.0  # channels per program of the one-token convolution


def scan_prefill_time_s(
    shape_UD: FloatArray, silicon_US: FloatArray, parameters_UP: FloatArray
) -> tuple[FloatArray, NDArray[np.int8]]:
    """Return the times of chunked scans (U,) [s] and their bound codes (U,).

    Args:
        shape_UD: Columns of `SCAN_PREFILL_SHAPE`.
        silicon_US: Columns of `machines.gpu.devices.silicon`.
        parameters_UP: Columns of `SCAN_PREFILL_PARAMETERS`.

    Source:
        Own model of the chunked algorithm (arXiv 2412.06464, section 3.3): work within a chunk
        is parallel over chunks; the state passes from chunk to chunk, so a head of a sequence
        processes its chunks sequentially, in waves of heads over the SMs. A partial chunk costs
        as much as a full one. Validated against the measured tables.

    Limits: All sequences have one length; heads and states of other sizes than 128 x 128 are
    scaled by their arithmetic.
    """
    rows = shape_UD.shape[0]
    time_s_U, code_U = np.empty(rows), np.empty(rows, np.int8)
    _scan_prefill(shape_UD, silicon_US, parameters_UP, time_s_U, code_U)
    return time_s_U, code_U


@compiled
def _scan_prefill(
    shape_UD: FloatArray,
    silicon_US: FloatArray,
    parameters_UP: FloatArray,
    time_s_U: FloatArray,
    code_U: NDArray[np.int8],
) -> None:
    for u in range(shape_UD.shape[0]):
        batch, q_len, heads, chunk = shape_UD[u, :4]
        launch_s, unit, step, row, parallel = parameters_UP[u, :5]
        power, heads_per_sm = parameters_UP[u, 7], parameters_UP[u, 9]
        sms, clock = silicon_US[u, SM_COUNT], silicon_US[u, CLOCK]

        chunks = math.ceil(q_len / chunk)
        work = shape_UD[u, 4] * chunk / heads / REFERENCE_FLOP
        waves = math.ceil(batch * heads / (sms * heads_per_sm))
        sequence_s = waves * chunks * step * work / clock
        unit_s = waves * unit / clock
        all_chunks = batch * heads * chunks / sms
        row_s = row * min(q_len, chunk) / clock
        parallel_s = max(row_s, all_chunks * parallel * work / clock)
        busy_s = sequence_s + unit_s + parallel_s
        memory_s = _traffic_s(
            batch * q_len * (shape_UD[u, 5] + parameters_UP[u, 6] * shape_UD[u, 6]),
            batch * shape_UD[u, 7],
            shape_UD[u, 8],
            silicon_US[u],
            (parameters_UP[u, 5], np.inf, parameters_UP[u, 8]),
        )
        time_s_U[u] = launch_s + _together_s(busy_s, memory_s, power)
        code_U[u] = largest_part(busy_s - unit_s, memory_s, launch_s + unit_s)


def scan_decode_time_s(
    shape_UD: FloatArray, silicon_US: FloatArray, parameters_UP: FloatArray
) -> tuple[FloatArray, NDArray[np.int8]]:
    """Return the times of recurrent decode updates (U,) [s] and their bound codes (U,).

    Args:
        shape_UD: Columns of `SCAN_DECODE_SHAPE`.
        silicon_US: Columns of `machines.gpu.devices.silicon`.
        parameters_UP: Columns of `SCAN_DECODE_PARAMETERS`.

    Source:
        Own model: the state of every sequence is read and written once; each head of a sequence
        is a program. Validated against the measured tables.

    Limits: Measured with states of 128 x 128 per head; several tokens are processed one by one.
    """
    rows = shape_UD.shape[0]
    time_s_U, code_U = np.empty(rows), np.empty(rows, np.int8)
    _scan_decode(shape_UD, silicon_US, parameters_UP, time_s_U, code_U)
    return time_s_U, code_U


@compiled
def _scan_decode(
    shape_UD: FloatArray,
    silicon_US: FloatArray,
    parameters_UP: FloatArray,
    time_s_U: FloatArray,
    code_U: NDArray[np.int8],
) -> None:
    for u in range(shape_UD.shape[0]):
        batch, q_len, heads, io_bytes, state_bytes, hot = shape_UD[u]
        power, sms = parameters_UP[u, 5], silicon_US[u, SM_COUNT]
        programs = max(batch * q_len * heads / sms, 1.0)
        program_s = programs * parameters_UP[u, 4] / silicon_US[u, CLOCK]
        memory_s = _traffic_s(
            batch * q_len * io_bytes,
            batch * state_bytes,
            hot,
            silicon_US[u],
            (parameters_UP[u, 1], parameters_UP[u, 2], parameters_UP[u, 3]),
        )
        time_s_U[u] = parameters_UP[u, 0] + _together_s(program_s, memory_s, power)
        code_U[u] = largest_part(0.0, memory_s, parameters_UP[u, 0] + program_s)


def conv_prefill_time_s(
    shape_UD: FloatArray, silicon_US: FloatArray, parameters_UP: FloatArray
) -> tuple[FloatArray, NDArray[np.int8]]:
    """Return the times of causal depthwise convolutions (U,) [s] and their bound codes (U,).

    Args:
        shape_UD: Columns of `CONV_PREFILL_SHAPE`.
        silicon_US: Columns of `machines.gpu.devices.silicon`.
        parameters_UP: Columns of `CONV_PREFILL_PARAMETERS`.

    Source:
        Own model: a program slides over a tile of tokens and channels, token by token; all tiles
        together make one memory pass. Validated against the measured tables.

    Limits: Measured with kernels of 4 taps; all sequences have one length.
    """
    rows = shape_UD.shape[0]
    time_s_U, code_U = np.empty(rows), np.empty(rows, np.int8)
    _conv_prefill(shape_UD, silicon_US, parameters_UP, time_s_U, code_U)
    return time_s_U, code_U


@compiled
def _conv_prefill(
    shape_UD: FloatArray,
    silicon_US: FloatArray,
    parameters_UP: FloatArray,
    time_s_U: FloatArray,
    code_U: NDArray[np.int8],
) -> None:
    for u in range(shape_UD.shape[0]):
        batch, q_len, channels, kernel, hot = shape_UD[u]
        power, row, tile_tokens, tile_channels = parameters_UP[u, 5:9]
        clock = silicon_US[u, CLOCK]
        tiles = batch * math.ceil(q_len / tile_tokens) * math.ceil(channels / tile_channels)
        program_s = tiles / silicon_US[u, SM_COUNT] * parameters_UP[u, 4] / clock
        row_s = min(q_len, tile_tokens) * row / clock
        memory_s = _traffic_s(
            2.0 * ELEMENT_BYTES * batch * q_len * channels,
            ELEMENT_BYTES * batch * channels * (kernel - 1.0),
            hot,
            silicon_US[u],
            (parameters_UP[u, 1], parameters_UP[u, 2], parameters_UP[u, 3]),
        )
        fixed_s = _together_s(program_s, row_s, power)
        time_s_U[u] = parameters_UP[u, 0] + _together_s(fixed_s, memory_s, power)
        code_U[u] = largest_part(0.0, memory_s, parameters_UP[u, 0] + fixed_s)


def conv_decode_time_s(
    shape_UD: FloatArray, silicon_US: FloatArray, parameters_UP: FloatArray
) -> tuple[FloatArray, NDArray[np.int8]]:
    """Return the times of decode updates of causal convolutions (U,) [s], bound codes (U,).

    Args:
        shape_UD: Columns of `CONV_DECODE_SHAPE`.
        silicon_US: Columns of `machines.gpu.devices.silicon`.
        parameters_UP: Columns of `CONV_DECODE_PARAMETERS`.

    Source:
        Own model: the last inputs of every channel are read and written; each tile of channels
        of a sequence is a program. Validated against the measured tables.

    Limits: Measured with kernels of 4 taps; several tokens are processed one by one.
    """
    rows = shape_UD.shape[0]
    time_s_U, code_U = np.empty(rows), np.empty(rows, np.int8)
    _conv_decode(shape_UD, silicon_US, parameters_UP, time_s_U, code_U)
    return time_s_U, code_U


@compiled
def _conv_decode(
    shape_UD: FloatArray,
    silicon_US: FloatArray,
    parameters_UP: FloatArray,
    time_s_U: FloatArray,
    code_U: NDArray[np.int8],
) -> None:
    for u in range(shape_UD.shape[0]):
        batch, q_len, channels, kernel, hot = shape_UD[u]
        power, sms = parameters_UP[u, 5], silicon_US[u, SM_COUNT]
        programs = max(batch * q_len * math.ceil(channels / UPDATE_CHANNELS) / sms, 1.0)
        program_s = programs * parameters_UP[u, 4] / silicon_US[u, CLOCK]
        memory_s = _traffic_s(
            2.0 * ELEMENT_BYTES * batch * q_len * channels,
            2.0 * ELEMENT_BYTES * batch * channels * (kernel - 1.0),
            hot,
            silicon_US[u],
            (parameters_UP[u, 1], parameters_UP[u, 2], parameters_UP[u, 3]),
        )
        time_s_U[u] = parameters_UP[u, 0] + _together_s(program_s, memory_s, power)
        code_U[u] = largest_part(0.0, memory_s, parameters_UP[u, 0] + program_s)


@part
def _traffic_s(
    io_bytes: float,
    state_bytes: float,
    hot: float,
    silicon: FloatArray,
    rates: tuple[float, float, float],
) -> float:
    """Return the time of inputs, outputs and states [s].

    Data that was just computed comes from the cache where it fits; so do states in a hot loop.
    `rates` holds the bandwidth efficiency, the cache bandwidth per SM and the usable L2 fraction.
    """
    efficiency, cache_rate, fraction = rates
    kept = io_bytes + hot * state_bytes
    cached = 1.0 / (1.0 + (kept / (fraction * silicon[L2])) ** HOT_SHARPNESS)
    memory_s = ((1.0 - hot) * state_bytes + kept) / (efficiency * silicon[BANDWIDTH])
    spared_s = cached * kept / (efficiency * silicon[BANDWIDTH])
    cache_s = cached * kept / (cache_rate * silicon[SM_COUNT] * silicon[CLOCK])
    return float(memory_s - spared_s + min(cache_s, spared_s))


@part
def _together_s(first_s: float, second_s: float, power: float) -> float:
    """Return the time of two parts that overlap [s]."""
    longer, shorter = max(first_s, second_s), min(first_s, second_s)
    if longer <= 0.0:
        return 0.0
    return float(longer * (1.0 + (shorter / longer) ** power) ** (1.0 / power))
