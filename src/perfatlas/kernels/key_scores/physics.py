"""Time of the scores a sparse attention chooses its keys by: every query against every key.

Shape legend: U unique shapes, D shape dimensions, S silicon fields, P parameters.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.compiled import compiled, part
from perfatlas.kernels.attention import hot_share, largest_part
from perfatlas.kernels.devices import BANDWIDTH, CLOCK, L2, PEAK, SM_COUNT

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfatlas.operators import FloatArray

_SHAPE: Final = (
    "queries",  # of all sequences
    "q_len",  # of one sequence
    "kv_len",  # keys per sequence, the cached prefix and the queries included
    "num_heads",
    "head_dim",
    "key_bytes",  # of one cached key with its scale
    "score_bytes",  # of one score
    "key_sequences",  # sequences whose keys are their own; fewer where a benchmark shares them
    "hot",  # 1: a benchmark loop that reads the same tensors again, 0: they come from memory
)
KEY_SCORES_PREFILL_SHAPE: Final = _SHAPE
KEY_SCORES_DECODE_SHAPE: Final = _SHAPE

_PARAMETERS: Final = (
    "efficiency_compute",  # share of the dense peak inside a block of keys
    "efficiency_bandwidth",
    "overhead_launch_s",
    "overhead_tile_cycles",  # of one tile of queries
    "overlap_power",  # 1: none, large: perfect
    "l2_fraction",  # of the cache that keeps tensors between runs of a hot loop
)
KEY_SCORES_PREFILL_PARAMETERS: Final = _PARAMETERS
KEY_SCORES_DECODE_PARAMETERS: Final = _PARAMETERS

# Rows of the product's tile are queries times heads. Source: deepseek-ai/DeepGEMM,
# csrc/apis/attention.hpp: block_q = 128 / num_heads, block_kv = split_kv = 256.
TILE_ROWS: Final = 128.0
KEY_BLOCK: Final = 256.0
QUERY_BYTES: Final = 1.0  # queries are fp8, as the keys are


def key_scores_prefill_time_s(
    shape_UD: FloatArray, silicon_US: FloatArray, parameters_UP: FloatArray
) -> tuple[FloatArray, NDArray[np.int8]]:
    """Return the times of the prefill kernel (U,) [s] and their bound codes (U,).

    A persistent block takes a tile of queries with all their heads through the keys they see,
    256 at a time; keys are not split. Scores of a pair are summed over heads and written.

    Args:
        shape_UD: Columns of `KEY_SCORES_PREFILL_SHAPE`.
        silicon_US: Columns of `kernels.silicon`; PEAK is that of the product's format.
        parameters_UP: Columns of `KEY_SCORES_PREFILL_PARAMETERS`.

    Source:
        Own derivation from the tiles of DeepGEMM; exercised against the measured tables.

    Limits: one length for the whole batch, and scores that fit into memory at once.
    """
    rows = shape_UD.shape[0]
    time_s_U, code_U = np.empty(rows), np.empty(rows, np.int8)
    _prefill(shape_UD, silicon_US, parameters_UP, time_s_U, code_U)
    return time_s_U, code_U


def key_scores_decode_time_s(
    shape_UD: FloatArray, silicon_US: FloatArray, parameters_UP: FloatArray
) -> tuple[FloatArray, NDArray[np.int8]]:
    """Return the times of the decode kernel (U,) [s] and their bound codes (U,).

    A query is scored by as many blocks as its keys fill, 256 each, and the blocks of all queries
    are spread evenly over the SMs.

    Args:
        shape_UD: Columns of `KEY_SCORES_DECODE_SHAPE`.
        silicon_US: Columns of `kernels.silicon`; PEAK is that of the product's format.
        parameters_UP: Columns of `KEY_SCORES_DECODE_PARAMETERS`.

    Source:
        Own derivation from the schedule of DeepGEMM's paged kernel; exercised against the
        measured tables.

    Limits: several queries of a sequence are scored one by one; the loops that were measured
    find their keys in cache, so the rate of memory is that of the written scores.
    """
    rows = shape_UD.shape[0]
    time_s_U, code_U = np.empty(rows), np.empty(rows, np.int8)
    _decode(shape_UD, silicon_US, parameters_UP, time_s_U, code_U)
    return time_s_U, code_U


@part
def _blocks_to(keys: float) -> float:
    """Return key blocks of queries that see 1, 2, ... keys, summed up to `keys`."""
    full = math.floor(keys / KEY_BLOCK)
    rest: float = KEY_BLOCK * full * (full + 1.0) / 2.0 + (keys - KEY_BLOCK * full) * (full + 1.0)
    return rest


@part
def _mean_blocks(q_len: float, kv_len: float) -> float:
    """Return key blocks a query sees, in the mean over the queries of a sequence."""
    if q_len <= 1.0:
        return math.ceil(kv_len / KEY_BLOCK)
    mean: float = (_blocks_to(kv_len) - _blocks_to(kv_len - q_len)) / q_len
    return mean


@part
def _memory_s(shape_D: FloatArray, silicon_S: FloatArray, parameters_P: FloatArray) -> float:
    """Return the time of keys and queries read and scores written [s]."""
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
        # An SM that shares the blocks of a query with others still starts on one query.
        tiles_s = math.ceil(queries / sms) * tile_cycles / clock
        memory_s = _memory_s(shape_UD[u], silicon_US[u], parameters_UP[u])
        together_s = ((products_s + tiles_s) ** power + memory_s**power) ** (1.0 / power)
        time_s_U[u] = launch_s + together_s
        code_U[u] = largest_part(products_s, memory_s, launch_s + tiles_s)
