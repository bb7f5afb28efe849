"""Time of the index scores of sparse attention, which score every key for every query.

Shape legend: U unique shapes, D shape dimensions, S silicon fields, P parameters.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.compiled import compiled, part
from perfatlas.machines.gpu.attention import hot_share, largest_part
from perfatlas.machines.gpu.devices import BANDWIDTH, CLOCK, L2, PEAK, SM_COUNT

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfatlas.operators import FloatArray

_SHAPE: Final = (
    "queries",  # total over sequences
    "q_len",  # per sequence
    "kv_len",  # keys per sequence, including the cached prefix and the queries
    "num_heads",
    "head_dim",
    "key_bytes",  # per cached key, including its scale
    "score_bytes",  # per score
    "key_sequences",  # sequences with their own keys; fewer where a benchmark shares keys
    "hot",  # 1: a benchmark loop rereads the same tensors; 0: they come from memory
)
KEY_SCORES_PREFILL_SHAPE: Final = _SHAPE
KEY_SCORES_DECODE_SHAPE: Final = _SHAPE

_PARAMETERS: Final = (
    "efficiency_compute",  # fraction of the dense peak inside a block of keys
    "efficiency_bandwidth",
    "overhead_launch_s",
    "overhead_tile_cycles",  # per query tile
    "overlap_power",  # 1: no overlap; large: perfect overlap
    "l2_fraction",  # fraction of the L2 that retains tensors between iterations of a hot loop
)
KEY_SCORES_PREFILL_PARAMETERS: Final = _PARAMETERS
KEY_SCORES_DECODE_PARAMETERS: Final = _PARAMETERS

# Rows of the product's tile are queries times heads. Source: deepseek-ai/DeepGEMM,
# csrc/apis/attention.hpp: block_q = 128 / num_heads, block_kv = split_kv = 256.
TILE_ROWS: Final = 128.0
KEY_BLOCK: Final = 256.0
QUERY_BYTES: Final = 1.0  # queries are fp8, like the keys


def key_scores_prefill_time_s(
    shape_UD: FloatArray, silicon_US: FloatArray, parameters_UP: FloatArray
) -> tuple[FloatArray, NDArray[np.int8]]:
    """Return the times of the prefill kernel (U,) [s] and their bound codes (U,).

    A persistent thread block processes a tile of queries with all heads over their visible keys,
    256 at a time, without key splits. The scores of a pair are summed over heads and written.

    Args:
        shape_UD: Columns of `KEY_SCORES_PREFILL_SHAPE`.
        silicon_US: Columns of `machines.gpu.devices.silicon`; PEAK is that of the product.
        parameters_UP: Columns of `KEY_SCORES_PREFILL_PARAMETERS`.

    Source:
        Own model of DeepGEMM's tiles, validated against the measured tables.

    Limits: All sequences have one length, and all scores fit into memory at once.
    """
    rows = shape_UD.shape[0]
    time_s_U, code_U = np.empty(rows), np.empty(rows, np.int8)
    _prefill(shape_UD, silicon_US, parameters_UP, time_s_U, code_U)
    return time_s_U, code_U


def key_scores_decode_time_s(
    shape_UD: FloatArray, silicon_US: FloatArray, parameters_UP: FloatArray
) -> tuple[FloatArray, NDArray[np.int8]]:
    """Return the times of the decode kernel (U,) [s] and their bound codes (U,).

    Each query is scored in blocks of 256 keys, and the blocks of all queries are distributed
    evenly over the SMs.

    Args:
        shape_UD: Columns of `KEY_SCORES_DECODE_SHAPE`.
        silicon_US: Columns of `machines.gpu.devices.silicon`; PEAK is that of the product.
        parameters_UP: Columns of `KEY_SCORES_DECODE_PARAMETERS`.

    Source:
        Own model of the schedule of DeepGEMM's paged kernel, validated against the measured
        tables.

    Limits: Several queries of a sequence are scored one by one. The measured loops find their
    keys in cache, so the fitted memory rate is that of writing scores.
    """
    rows = shape_UD.shape[0]
    time_s_U, code_U = np.empty(rows), np.empty(rows, np.int8)
    _decode(shape_UD, silicon_US, parameters_UP, time_s_U, code_U)
    return time_s_U, code_U


@part
def _blocks_to(keys: float) -> float:
    """Return the total key blocks of queries that see 1, 2, ..., `keys` keys."""
    full = math.floor(keys / KEY_BLOCK)
    rest: float = KEY_BLOCK * full * (full + 1.0) / 2.0 + (keys - KEY_BLOCK * full) * (full + 1.0)
    return rest


@part
def _mean_blocks(q_len: float, kv_len: float) -> float:
    """Return the mean number of key blocks that a query of a sequence sees."""
    if q_len <= 1.0:
        return math.ceil(kv_len / KEY_BLOCK)
    mean: float = (_blocks_to(kv_len) - _blocks_to(kv_len - q_len)) / q_len
    return mean


@part
def _memory_s(shape_D: FloatArray, silicon_S: FloatArray, parameters_P: FloatArray) -> float:
    """Return the time of reading keys and queries and writing scores [s]."""
    queries, q_len, kv_len, heads, width = shape_D[:5]
    pairs = queries * (kv_len - (q_len - 1.0) / 2.0)
    moved = shape_D[7] * kv_len * shape_D[5] + queries * heads * width * QUERY_BYTES
    moved += pairs * shape_D[6]
    miss = 1.0
    if shape_D[8] > 0:
        miss = 1.0 - hot_share(moved, parameters_P[5] * silicon_S[L2])
    memory_s: float = miss * moved / (parameters_P[1] * silicon_S[BANDWIDTH])
    return memory_s


@compiled
def _prefill(
    shape_UD: FloatArray,
    silicon_US: FloatArray,
    parameters_UP: FloatArray,
    time_s_U: FloatArray,
    code_U: NDArray[np.int8],
) -> None:
    for u in range(shape_UD.shape[0]):
        queries, q_len, kv_len, heads, width = shape_UD[u, :5]
        compute, _, launch_s, tile_cycles, power = parameters_UP[u, :5]
        sms, clock = silicon_US[u, SM_COUNT], silicon_US[u, CLOCK]

        tile = max(math.floor(TILE_ROWS / heads), 1.0)
        tiles = math.ceil(queries / tile)
        block_flop = 2.0 * tile * heads * width * KEY_BLOCK
        block_s = block_flop * sms / (compute * silicon_US[u, PEAK])
        waves = math.ceil(tiles / sms)
        blocks = max(waves * _mean_blocks(q_len, kv_len), math.ceil(kv_len / KEY_BLOCK))
        products_s = blocks * block_s
        tiles_s = waves * tile_cycles / clock
        memory_s = _memory_s(shape_UD[u], silicon_US[u], parameters_UP[u])
        together_s = ((products_s + tiles_s) ** power + memory_s**power) ** (1.0 / power)
        time_s_U[u] = launch_s + together_s
        code_U[u] = largest_part(products_s, memory_s, launch_s + tiles_s)


@compiled
def _decode(
    shape_UD: FloatArray,
    silicon_US: FloatArray,
    parameters_UP: FloatArray,
    time_s_U: FloatArray,
    code_U: NDArray[np.int8],
) -> None:
    for u in range(shape_UD.shape[0]):
        queries, q_len, kv_len, heads, width = shape_UD[u, :5]
        compute, _, launch_s, tile_cycles, power = parameters_UP[u, :5]
        sms, clock = silicon_US[u, SM_COUNT], silicon_US[u, CLOCK]

        blocks = math.ceil(queries * _mean_blocks(q_len, kv_len) / sms)
        block_flop = 2.0 * heads * width * KEY_BLOCK
        products_s = blocks * block_flop * sms / (compute * silicon_US[u, PEAK])
        # An SM that shares the blocks of a query still pays the fixed cost of one query.
        tiles_s = math.ceil(queries / sms) * tile_cycles / clock
        memory_s = _memory_s(shape_UD[u], silicon_US[u], parameters_UP[u])
        together_s = ((products_s + tiles_s) ** power + memory_s**power) ** (1.0 / power)
        time_s_U[u] = launch_s + together_s
        code_U[u] = largest_part(products_s, memory_s, launch_s + tiles_s)
