"""Time of sparse latent attention over the selected keys of each query.

Shape legend: U unique shapes, D shape dimensions, S silicon fields, P parameters.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.compiled import compiled
from perfatlas.machines.gpu.attention import OUTPUT_BYTES, hot_share, largest_part
from perfatlas.machines.gpu.devices import BANDWIDTH, CLOCK, L2, PEAK, SM_COUNT

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfatlas.operators import FloatArray

SPARSE_MLA_PREFILL_SHAPE: Final = (
    "queries",  # total over sequences
    "q_len",  # per sequence
    "kv_len",  # keys per sequence, including the cached prefix and the queries
    "num_heads",
    "kv_lora_rank",
    "rope_dim",
    "selected",  # selected keys per query
    "kv_bytes_per_element",
    "attention_bytes_per_element",
    "hot",  # 1: a benchmark loop in which all queries select the same keys; 0: distinct, cold keys
)
SPARSE_MLA_PREFILL_PARAMETERS: Final = (
    "efficiency_compute",  # fraction of the dense peak inside a tile
    "efficiency_bandwidth",
    "overhead_launch_s",
    "overhead_tile_cycles",  # per query and tile of heads
    "feed_bytes_per_cycle",  # gathered latent rows loaded by one SM
    "overlap_power",  # 1: no overlap; large: perfect overlap
    "l2_fraction",  # fraction of the L2 that retains tensors between iterations of a hot loop
    "padded_heads",  # number of heads to which query heads are padded (chosen)
)
# Query heads per tile. Source: deepseek-ai/FlashMLA, csrc/sm90/prefill/sparse, csrc/sm100: B_H.
TILE_HEADS: Final = 64.0
KEY_BLOCK: Final = 64.0


def sparse_mla_prefill_time_s(
    shape_UD: FloatArray, silicon_US: FloatArray, parameters_UP: FloatArray
) -> tuple[FloatArray, NDArray[np.int8]]:
    """Return the times of sparse latent attention (U,) [s] and their bound codes (U,).

    A tile is one query with 64 of its heads; it gathers the selected latent rows and uses them as
    keys and values. A query with fewer visible keys gathers fewer rows, but multiplies a padded
    list of full length.

    Args:
        shape_UD: Columns of `SPARSE_MLA_PREFILL_SHAPE`.
        silicon_US: Columns of `machines.gpu.devices.silicon`; PEAK is that of the product.
        parameters_UP: Columns of `SPARSE_MLA_PREFILL_PARAMETERS`.

    Source:
        Own tile model, validated against the measured tables.

    Limits: Measured with 64 heads and 2,048 contiguous keys per query. TensorRT-LLM uses other
    kernels, and SGLang uses dense attention for prompts no longer than the selection; their
    measured blocks differ by up to a factor of two.
    """
    rows = shape_UD.shape[0]
    time_s_U, code_U = np.empty(rows), np.empty(rows, np.int8)
    _prefill(shape_UD, silicon_US, parameters_UP, time_s_U, code_U)
    return time_s_U, code_U


@compiled
def _prefill(
    shape_UD: FloatArray,
    silicon_US: FloatArray,
    parameters_UP: FloatArray,
    time_s_U: FloatArray,
    code_U: NDArray[np.int8],
) -> None:
    for u in range(shape_UD.shape[0]):
        queries, q_len, kv_len, heads, rank, rope, selected = shape_UD[u, :7]
        kv_bytes, input_bytes, hot = shape_UD[u, 7:10]
        compute, bandwidth, launch_s, tile_cycles, feed = parameters_UP[u, :5]
        power, l2_fraction, padded = parameters_UP[u, 5:8]
        sms, clock = silicon_US[u, SM_COUNT], silicon_US[u, CLOCK]

        keys = KEY_BLOCK * math.ceil(selected / KEY_BLOCK)
        tiles = queries * math.ceil(heads / padded) * padded / TILE_HEADS
        waves = math.ceil(tiles / sms)
        tile_flop = 2.0 * TILE_HEADS * keys * (2.0 * rank + rope)
        products_s = waves * tile_flop * sms / (compute * silicon_US[u, PEAK])
        tiles_s = waves * tile_cycles / clock
        row_bytes = (rank + rope) * kv_bytes
        gathered = queries * math.ceil(heads / padded) * min(kv_len, keys)
        fed_s = gathered * row_bytes / (feed * sms * clock)
        touched = min(kv_len, selected if hot > 0 else selected * q_len)
        moved = queries / q_len * touched * row_bytes
        moved += queries * heads * ((rank + rope) * input_bytes + rank * OUTPUT_BYTES)
        miss = 1.0
        if hot > 0:
            miss = 1.0 - hot_share(moved, l2_fraction * silicon_US[u, L2])
        memory_s = miss * moved / (bandwidth * silicon_US[u, BANDWIDTH])
        together_s = ((products_s + tiles_s) ** power + fed_s**power + memory_s**power) ** (
            1.0 / power
        )
        time_s_U[u] = launch_s + together_s
        code_U[u] = largest_part(products_s, max(fed_s, memory_s), launch_s + tiles_s)
