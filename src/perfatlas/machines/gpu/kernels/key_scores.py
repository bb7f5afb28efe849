"""Index scores of sparse attention, which score every key for every query."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple

from perfatlas import operators
from perfatlas.compiled import part
from perfatlas.machines.gpu import declarations
from perfatlas.machines.gpu.kernel_parts import hot_share, largest_part

if TYPE_CHECKING:
    from perfatlas.machines.gpu.devices import SiliconRow


class KeyScoresShape(NamedTuple):
    """Shape columns of index scores."""

    queries: float  # total over sequences
    q_len: float  # per sequence
    kv_len: float  # keys per sequence, including the cached prefix and the queries
    num_heads: float
    head_dim: float
    key_bytes: float  # per cached key, including its scale
    score_bytes: float  # per score
    key_sequences: float  # sequences with their own keys; fewer where a benchmark shares keys
    hot: float  # 1: a benchmark loop rereads the same tensors; 0: they come from memory


class KeyScoresParameters(NamedTuple):
    """Fitted parameters of index scores."""

    efficiency_compute: float  # fraction of the dense peak inside a block of keys
    efficiency_bandwidth: float
    overhead_launch_s: float
    overhead_tile_cycles: float  # per query tile
    overlap_power: float  # 1: no overlap; large: perfect overlap
    l2_fraction: float  # fraction of the L2 that retains tensors between iterations of a hot loop


# Rows of the product's tile are queries times heads. Source: deepseek-ai/DeepGEMM,
# csrc/apis/attention.hpp: block_q = 128 / num_heads, block_kv = split_kv = 256.
TILE_ROWS: Final = 128.0
KEY_BLOCK: Final = 256.0
QUERY_BYTES: Final = 1.0  # queries are fp8, like the keys


@declarations.kernel_time(KeyScoresShape, KeyScoresParameters)
def key_scores_prefill_time_s(
    shape: KeyScoresShape, silicon: SiliconRow, parameters: KeyScoresParameters
) -> tuple[float, int]:
    """Return the time of the prefill kernel [s] and its bound code.

    A persistent thread block processes a tile of queries with all heads over their visible keys,
    256 at a time, without key splits. The scores of a pair are summed over heads and written.

    Source:
        Own model of DeepGEMM's tiles, validated against the measured tables.

    Limits: All sequences have one length, and all scores fit into memory at once.
    """
    tile = max(math.floor(TILE_ROWS / shape.num_heads), 1.0)
    tiles = math.ceil(shape.queries / tile)
    block_flop = 2.0 * tile * shape.num_heads * shape.head_dim * KEY_BLOCK
    block_s = block_flop * silicon.sm_count / (parameters.efficiency_compute * silicon.peak)
    waves = math.ceil(tiles / silicon.sm_count)
    mean_blocks = _mean_blocks(shape.q_len, shape.kv_len)
    products_s = max(waves * mean_blocks, math.ceil(shape.kv_len / KEY_BLOCK)) * block_s
    return _with_memory(shape, silicon, parameters, products_s, waves)


@declarations.kernel_time(KeyScoresShape, KeyScoresParameters)
def key_scores_decode_time_s(
    shape: KeyScoresShape, silicon: SiliconRow, parameters: KeyScoresParameters
) -> tuple[float, int]:
    """Return the time of the decode kernel [s] and its bound code.

    Each query is scored in blocks of 256 keys, and the blocks of all queries are distributed
    evenly over the SMs.

    Source:
        Own model of the schedule of DeepGEMM's paged kernel, validated against the measured
        tables.

    Limits: Several queries of a sequence are scored one by one. The measured loops find their
    keys in cache, so the fitted memory rate is that of writing scores.
    """
    sms = silicon.sm_count
    blocks = math.ceil(shape.queries * _mean_blocks(shape.q_len, shape.kv_len) / sms)
    block_flop = 2.0 * shape.num_heads * shape.head_dim * KEY_BLOCK
    products_s = blocks * block_flop * sms / (parameters.efficiency_compute * silicon.peak)
    # An SM that shares the blocks of a query still pays the fixed cost of one query.
    queries = math.ceil(shape.queries / sms)
    return _with_memory(shape, silicon, parameters, products_s, queries)


@part
def _mean_blocks(q_len: float, kv_len: float) -> float:
    """Return the mean number of key blocks that a query of a sequence sees."""
    if q_len <= 1.0:
        return math.ceil(kv_len / KEY_BLOCK)
    mean: float = (_blocks_to(kv_len) - _blocks_to(kv_len - q_len)) / q_len
    return mean


@part
def _blocks_to(keys: float) -> float:
    """Return the total key blocks of queries that see 1, 2, ..., `keys` keys."""
    full = math.floor(keys / KEY_BLOCK)
    rest: float = KEY_BLOCK * full * (full + 1.0) / 2.0 + (keys - KEY_BLOCK * full) * (full + 1.0)
    return rest


@part
def _with_memory(
    shape: KeyScoresShape,
    silicon: SiliconRow,
    parameters: KeyScoresParameters,
    products_s: float,
    waves: float,
) -> tuple[float, int]:
    """Return the time of products in waves of tiles, overlapped with memory [s], and its code."""
    launch_s, power = parameters.overhead_launch_s, parameters.overlap_power
    tiles_s = waves * parameters.overhead_tile_cycles / silicon.clock
    pairs = shape.queries * (shape.kv_len - (shape.q_len - 1.0) / 2.0)
    moved = shape.key_sequences * shape.kv_len * shape.key_bytes
    moved += shape.queries * shape.num_heads * shape.head_dim * QUERY_BYTES
    moved += pairs * shape.score_bytes
    miss = 1.0
    if shape.hot > 0:
        miss = 1.0 - hot_share(moved, parameters.l2_fraction * silicon.l2)
    memory_s = miss * moved / (parameters.efficiency_bandwidth * silicon.bandwidth)
    together_s = ((products_s + tiles_s) ** power + memory_s**power) ** (1.0 / power)
    return launch_s + together_s, largest_part(products_s, memory_s, launch_s + tiles_s)


def _key(operator: operators.KeyScores) -> declarations.CalibrationKey | None:
    phase = declarations.kernel_phase(operator.phase)
    return None if phase is None else (f"key_scores_{phase}", ("fp8",))


def _columns(operator: operators.KeyScores) -> declarations.Columns:
    """Return the shape columns; every sequence has its own keys."""
    sizes = ("q_len", "kv_len", "num_heads", "head_dim", "score_bytes", "key_bytes")
    return declarations.named(operator, sizes) | {
        "queries": operator.batch * operator.q_len,
        "key_sequences": operator.batch,
        "hot": 0.0,
    }


_SHAPE: Final = declarations.KernelShape(
    axes=(
        *(
            declarations.Axis(("queries",)),
            declarations.Axis(("q_len",)),
            declarations.Axis(("kv_len",)),
        ),
        *(declarations.Axis(("num_heads",), 2.0), declarations.Axis(("head_dim",), 4.0)),
    ),
    groups=("queries",),
    split_by=("queries",),
    split_words="queries",
)
DECLARATIONS: Final = (
    declarations.OperatorKernels(
        kind=operators.KeyScores,
        calibration_key=_key,
        shape_columns=_columns,
        shapes={"key_scores_prefill": _SHAPE, "key_scores_decode": _SHAPE},
    ),
)
