"""Time of multi-head latent attention: expanded heads in prefill, the absorbed form in decode.

Shape legend: U unique shapes, D shape dimensions, S silicon fields, P parameters.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.compiled import compiled
from perfatlas.machines.gpu.attention import (
    KEY_BLOCK,
    OUTPUT_BYTES,
    hot_share,
    largest_part,
    last_end,
    split_count,
    tile_size,
    visible_blocks,
)
from perfatlas.machines.gpu.devices import BANDWIDTH, CLOCK, EXPONENTIALS, L2, PEAK, SM_COUNT

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfatlas.operators import FloatArray

_SHAPE: Final = (
    "batch",
    "q_len",
    "kv_len",  # keys per sequence, including the cached prefix and the queries
    "num_heads",
    "kv_lora_rank",
    "rope_dim",
    "nope_dim",
    "value_head_dim",
    "selected",  # maximum keys a query attends to; 0: all
    "kv_bytes_per_element",
    "attention_bytes_per_element",
    "hot",  # 1: a benchmark loop rereads the same tensors; 0: they come from memory
)
MLA_PREFILL_SHAPE: Final = _SHAPE
MLA_DECODE_SHAPE: Final = _SHAPE

MLA_PREFILL_PARAMETERS: Final = (
    "efficiency_compute",  # fraction of the dense peak inside a tile
    "efficiency_bandwidth",
    "overhead_launch_s",
    "overhead_tile_cycles",  # per query tile
    "exponential_cost",  # exponentials per query-key pair not overlapped with the products
    "overlap_power",  # 1: no overlap; large: perfect overlap
    "l2_fraction",  # fraction of the L2 that retains tensors between iterations of a hot loop
    "tile_queries",  # maximum queries per tile (chosen)
    "key_block",  # keys a tile processes at a time (chosen)
    "longest_last",  # 1: longest tiles are scheduled last; 0: first (chosen)
    "fixed_tile",  # 1: short calls are padded to full tiles (chosen)
)
MLA_DECODE_PARAMETERS: Final = (
    "efficiency_compute",
    "efficiency_bandwidth",
    "overhead_launch_s",
    "overhead_unit_cycles",  # per thread block: one sequence, tile of heads and key split
    "overhead_split_s",  # reduction over the splits
    "feed_bytes_per_cycle",  # latent rows loaded by one SM
    "overlap_power",
    "l2_fraction",
    "units_per_sm",  # target number of thread blocks of the split rule (chosen)
    "split_tokens",  # minimum keys per split (chosen)
    "tile_heads",  # rows of the product's tile, to which query heads are padded (chosen)
    "reread_share",  # fraction of the KV cache reread by each further narrow tile of a sequence
    "narrow_tile",  # tile rows below 64 heads; 0: `tile_heads` (chosen)
    "shared_keys",  # 1: the wide tiles of a sequence share reads of the KV cache (chosen)
    "fp8_products",  # 1: products with an 8-bit KV cache run at twice the 16-bit peak (chosen)
)


WIDE_ROWS: Final = 64.0  # minimum query rows for which generated kernels use their wide tile


def mla_prefill_time_s(
    shape_UD: FloatArray, silicon_US: FloatArray, parameters_UP: FloatArray
) -> tuple[FloatArray, NDArray[np.int8]]:
    """Return prefill times (U,) [s] and their bound codes (U,).

    Keys and values are expanded per head, so the kernel is multi-head attention whose query and
    key heads are wider than its value heads.

    Args:
        shape_UD: Columns of `MLA_PREFILL_SHAPE`.
        silicon_US: Columns of `machines.gpu.devices.silicon`; PEAK is that of the product.
        parameters_UP: Columns of `MLA_PREFILL_PARAMETERS`.

    Source:
        Own tile model, validated against the measured tables.

    Limits: All sequences have one length; cached prefixes are modelled, not measured. Expanding
    the latent rows is a separate matrix product and not included.
    """
    rows = shape_UD.shape[0]
    time_s_U, code_U = np.empty(rows), np.empty(rows, np.int8)
    _prefill(shape_UD, silicon_US, parameters_UP, time_s_U, code_U)
    return time_s_U, code_U


def mla_decode_time_s(
    shape_UD: FloatArray, silicon_US: FloatArray, parameters_UP: FloatArray
) -> tuple[FloatArray, NDArray[np.int8]]:
    """Return decode times (U,) [s] and their bound codes (U,).

    In the absorbed form, attention runs in the latent space: one cache row is both key and value
    of all heads of a tile.

    Args:
        shape_UD: Columns of `MLA_DECODE_SHAPE`.
        silicon_US: Columns of `machines.gpu.devices.silicon`; PEAK is that of the product.
        parameters_UP: Columns of `MLA_DECODE_PARAMETERS`.

    Source:
        Own model of splits and waves, validated against the measured tables.

    Limits: All sequences have one length; selected keys are assumed contiguous.
    """
    rows = shape_UD.shape[0]
    time_s_U, code_U = np.empty(rows), np.empty(rows, np.int8)
    _decode(shape_UD, silicon_US, parameters_UP, time_s_U, code_U)
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
        batch, q_len, kv_len, heads = shape_UD[u, :4]
        rope, nope, value_dim, selected = shape_UD[u, 5:9]
        input_bytes, hot = shape_UD[u, 10], shape_UD[u, 11]
        compute, bandwidth, launch_s, tile_cycles, exponentials = parameters_UP[u, :5]
        power, l2_fraction, tile_limit, block, last, fixed_tile = parameters_UP[u, 5:11]
        sms, clock = silicon_US[u, SM_COUNT], silicon_US[u, CLOCK]

        tile = tile_limit if fixed_tile > 0 else tile_size(q_len, tile_limit)
        tiles = math.ceil(q_len / tile)
        prefix = math.ceil((kv_len - q_len) / block)
        limit = math.ceil((selected + tile - 1.0) / block) + 1.0 if selected > 0 else np.inf
        blocks = visible_blocks(tiles, q_len, tile, block, (prefix, limit))
        longest = min(prefix + math.ceil(q_len / block), limit)
        width = nope + rope + value_dim
        block_s = (
            2.0 * width * sms / (compute * silicon_US[u, PEAK])
            + exponentials / (silicon_US[u, EXPONENTIALS] * clock)
        ) * (tile * block)
        fixed_s = tile_cycles / clock
        share = batch * heads / sms
        pairs_s, tiles_s = share * blocks * block_s, share * tiles * fixed_s
        sm_s = last_end(pairs_s + tiles_s, longest * block_s + fixed_s, last)

        # Reads queries, keys and values, writes the output; width counts each pair once.
        fresh = batch * heads * q_len * (width * input_bytes + value_dim * OUTPUT_BYTES)
        fresh += batch * heads * q_len * (nope + rope) * input_bytes
        io_bytes = fresh + batch * heads * (kv_len - q_len) * width * input_bytes
        miss = 1.0
        if hot > 0:
            miss = 1.0 - hot_share(io_bytes, l2_fraction * silicon_US[u, L2])
        memory_s = miss * io_bytes / (bandwidth * silicon_US[u, BANDWIDTH])

        together_s = (sm_s**power + memory_s**power) ** (1.0 / power)
        time_s_U[u] = launch_s + together_s
        code_U[u] = largest_part(max(pairs_s, longest * block_s), memory_s, launch_s + tiles_s)


@compiled
def _decode(
    shape_UD: FloatArray,
    silicon_US: FloatArray,
    parameters_UP: FloatArray,
    time_s_U: FloatArray,
    code_U: NDArray[np.int8],
) -> None:
    for u in range(shape_UD.shape[0]):
        batch, q_len, kv_len, heads, rank, rope = shape_UD[u, :6]
        selected, kv_bytes, input_bytes, hot = shape_UD[u, 8:12]
        compute, bandwidth, launch_s, unit_cycles, split_s = parameters_UP[u, :5]
        feed, power, l2_fraction, per_sm, split_keys, rows = parameters_UP[u, 5:11]
        reread, narrow, shared, fp8_products = parameters_UP[u, 11:15]
        compute *= 1.0 + fp8_products
        sms, clock = silicon_US[u, SM_COUNT], silicon_US[u, CLOCK]

        keys = min(kv_len, selected) if selected > 0 else kv_len
        is_narrow = narrow > 0 and heads * q_len < WIDE_ROWS
        if is_narrow:
            rows = narrow
        tiles = math.ceil(heads * q_len / rows)
        units = batch * tiles
        splits = split_count(units, per_sm * sms, keys, split_keys)
        waves = math.ceil(units * splits / sms)
        unit_keys = KEY_BLOCK * math.ceil(keys / splits / KEY_BLOCK)
        per_key_flop = 2.0 * rows * (2.0 * rank + rope)
        arithmetic_s = waves * unit_keys * per_key_flop * sms / (compute * silicon_US[u, PEAK])
        fed_s = waves * unit_keys * (rank + rope) * kv_bytes / (feed * clock)
        if shared > 0 and not is_narrow:
            fed_s /= tiles
        waves_s = waves * unit_cycles / clock
        sm_s = max(fed_s, arithmetic_s) + waves_s

        cache_bytes = batch * keys * (rank + rope) * kv_bytes
        cold = 1.0
        if hot > 0:
            cold = 1.0 - hot_share(cache_bytes, l2_fraction * silicon_US[u, L2])
        io_bytes = batch * heads * q_len * ((rank + rope) * input_bytes + rank * OUTPUT_BYTES)
        if is_narrow:
            cache_bytes *= 1.0 + reread * (tiles - 1.0)
        memory_s = (cold * cache_bytes + io_bytes) / (bandwidth * silicon_US[u, BANDWIDTH])

        together_s = (sm_s**power + memory_s**power) ** (1.0 / power)
        fixed_s = launch_s + (split_s if splits > 1 else 0.0)
        time_s_U[u] = fixed_s + together_s
        code_U[u] = largest_part(arithmetic_s, max(fed_s, memory_s), fixed_s + waves_s)
