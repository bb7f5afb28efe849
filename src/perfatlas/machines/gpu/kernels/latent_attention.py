"""Multi-head latent attention: expanded heads in prefill, the absorbed form in decode.

Sparse decode is priced as dense decode over the selected keys; its kernels (FlashMLA) expand fp8
rows on load and multiply in 16 bits. Sparse prefill has its own kernels.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfatlas import operators
from perfatlas.machines.gpu import declarations, kernel_parts
from perfatlas.machines.gpu.kernels import attention

if TYPE_CHECKING:
    from perfatlas.machines.gpu.devices import SiliconRow


class MlaShape(NamedTuple):
    """Shape columns of latent attention."""

    batch: float
    q_len: float
    kv_len: float  # keys per sequence, including the cached prefix and the queries
    num_heads: float
    kv_lora_rank: float
    rope_dim: float
    nope_dim: float
    value_head_dim: float
    selected: float  # maximum keys a query attends to; 0: all
    kv_bytes_per_element: float
    attention_bytes_per_element: float
    hot: float  # 1: a benchmark loop rereads the same tensors; 0: they come from memory


class MlaPrefillParameters(NamedTuple):
    """Fitted parameters of prefill."""

    efficiency_compute: float  # fraction of the dense peak inside a tile
    efficiency_bandwidth: float
    overhead_launch_s: float
    overhead_tile_cycles: float  # per query tile
    exponential_cost: float  # exponentials per query-key pair not overlapped with the products
    overlap_power: float  # 1: no overlap; large: perfect overlap
    l2_fraction: float  # fraction of the L2 that retains tensors between iterations of a hot loop
    tile_queries: float  # maximum queries per tile (chosen)
    key_block: float  # keys a tile processes at a time (chosen)
    longest_last: float  # 1: longest tiles are scheduled last; 0: first (chosen)
    fixed_tile: float  # 1: short calls are padded to full tiles (chosen)


class MlaDecodeParameters(NamedTuple):
    """Fitted parameters of decode."""

    efficiency_compute: float
    efficiency_bandwidth: float
    overhead_launch_s: float
    overhead_unit_cycles: float  # per thread block: one sequence, tile of heads and key split
    overhead_split_s: float  # reduction over the splits
    feed_bytes_per_cycle: float  # latent rows loaded by one SM
    overlap_power: float
    l2_fraction: float
    units_per_sm: float  # target number of thread blocks of the split rule (chosen)
    split_tokens: float  # minimum keys per split (chosen)
    tile_heads: float  # rows of the product's tile, to which query heads are padded (chosen)
    reread_share: float  # fraction of the KV cache reread by each further narrow tile of a sequence
    narrow_tile: float  # tile rows below 64 heads; 0: `tile_heads` (chosen)
    shared_keys: float  # 1: the wide tiles of a sequence share reads of the KV cache (chosen)
    fp8_products: float  # 1: products with an 8-bit KV cache run at twice the 16-bit peak (chosen)


WIDE_ROWS: Final = 64.0  # minimum query rows for which generated kernels use their wide tile


@declarations.kernel_time(MlaShape, MlaPrefillParameters)
def mla_prefill_time_s(
    shape: MlaShape, silicon: SiliconRow, parameters: MlaPrefillParameters
) -> tuple[float, int]:
    """Return the time of a prefill [s] and its bound code.

    Keys and values are expanded per head, so the kernel is multi-head attention whose query and
    key heads are wider than its value heads.

    Source:
        Own tile model, validated against the measured tables.

    Limits: All sequences have one length; cached prefixes are modelled, not measured. Expanding
    the latent rows is a separate matrix product and not included.
    """
    q_len, kv_len, selected = shape.q_len, shape.kv_len, shape.selected
    sms, clock, sequence_heads = silicon.sm_count, silicon.clock, shape.batch * shape.num_heads
    launch_s, power = parameters.overhead_launch_s, parameters.overlap_power

    tile, block = parameters.tile_queries, parameters.key_block
    if not parameters.fixed_tile > 0:
        tile = kernel_parts.tile_size(q_len, tile)
    tiles = math.ceil(q_len / tile)
    prefix = math.ceil((kv_len - q_len) / block)
    limit = math.ceil((selected + tile - 1.0) / block) + 1.0 if selected > 0 else np.inf
    blocks = kernel_parts.visible_blocks(tiles, q_len, tile, block, (prefix, limit))
    longest = min(prefix + math.ceil(q_len / block), limit)
    key_dim = shape.nope_dim + shape.rope_dim
    width = key_dim + shape.value_head_dim
    block_s = (
        2.0 * width * sms / (parameters.efficiency_compute * silicon.peak)
        + parameters.exponential_cost / (silicon.exponentials * clock)
    ) * (tile * block)
    fixed_s = parameters.overhead_tile_cycles / clock
    share = sequence_heads / sms
    pairs_s, tiles_s = share * blocks * block_s, share * tiles * fixed_s
    sm_s = kernel_parts.last_end(
        pairs_s + tiles_s, longest * block_s + fixed_s, parameters.longest_last
    )

    input_bytes = shape.attention_bytes_per_element
    # Reads queries, keys and values, writes the output; width counts each pair once.
    fresh = (
        sequence_heads
        * q_len
        * (width * input_bytes + shape.value_head_dim * kernel_parts.OUTPUT_BYTES)
    )
    fresh += sequence_heads * q_len * key_dim * input_bytes
    io_bytes = fresh + sequence_heads * (kv_len - q_len) * width * input_bytes
    miss = 1.0
    if shape.hot > 0:
        miss = 1.0 - kernel_parts.hot_share(io_bytes, parameters.l2_fraction * silicon.l2)
    memory_s = miss * io_bytes / (parameters.efficiency_bandwidth * silicon.bandwidth)

    together_s = (sm_s**power + memory_s**power) ** (1.0 / power)
    code = kernel_parts.largest_part(max(pairs_s, longest * block_s), memory_s, launch_s + tiles_s)
    return launch_s + together_s, code


@declarations.kernel_time(MlaShape, MlaDecodeParameters)
def mla_decode_time_s(
    shape: MlaShape, silicon: SiliconRow, parameters: MlaDecodeParameters
) -> tuple[float, int]:
    """Return the time of a decode step [s] and its bound code.

    In the absorbed form, attention runs in the latent space: one cache row is both key and value
    of all heads of a tile.

    Source:
        Own model of splits and waves, validated against the measured tables.

    Limits: All sequences have one length; selected keys are assumed contiguous.
    """
    sms, clock, power = silicon.sm_count, silicon.clock, parameters.overlap_power
    rank, latent_dim = shape.kv_lora_rank, shape.kv_lora_rank + shape.rope_dim
    keys = min(shape.kv_len, shape.selected) if shape.selected > 0 else shape.kv_len
    query_rows = shape.num_heads * shape.q_len

    is_narrow = parameters.narrow_tile > 0 and query_rows < WIDE_ROWS
    rows = parameters.narrow_tile if is_narrow else parameters.tile_heads
    tiles = math.ceil(query_rows / rows)
    units = shape.batch * tiles
    splits = kernel_parts.split_count(
        units, parameters.units_per_sm * sms, keys, parameters.split_tokens
    )
    waves = math.ceil(units * splits / sms)
    unit_keys = kernel_parts.KEY_BLOCK * math.ceil(keys / splits / kernel_parts.KEY_BLOCK)
    per_key_flop = 2.0 * rows * (2.0 * rank + shape.rope_dim)
    compute = parameters.efficiency_compute * (1.0 + parameters.fp8_products)
    arithmetic_s = waves * unit_keys * per_key_flop * sms / (compute * silicon.peak)
    key_bytes = latent_dim * shape.kv_bytes_per_element
    fed_s = waves * unit_keys * key_bytes / (parameters.feed_bytes_per_cycle * clock)
    if parameters.shared_keys > 0 and not is_narrow:
        fed_s /= tiles
    waves_s = waves * parameters.overhead_unit_cycles / clock
    sm_s = max(fed_s, arithmetic_s) + waves_s

    cache_bytes = shape.batch * keys * key_bytes
    cold = 1.0
    if shape.hot > 0:
        cold = 1.0 - kernel_parts.hot_share(cache_bytes, parameters.l2_fraction * silicon.l2)
    if is_narrow:
        cache_bytes *= 1.0 + parameters.reread_share * (tiles - 1.0)
    row_bytes = latent_dim * shape.attention_bytes_per_element + rank * kernel_parts.OUTPUT_BYTES
    io_bytes = shape.batch * query_rows * row_bytes
    rate = parameters.efficiency_bandwidth * silicon.bandwidth
    memory_s = (cold * cache_bytes + io_bytes) / rate

    together_s = (sm_s**power + memory_s**power) ** (1.0 / power)
    fixed_s = parameters.overhead_launch_s
    if splits > 1:
        fixed_s += parameters.overhead_split_s
    code = kernel_parts.largest_part(arithmetic_s, max(fed_s, memory_s), fixed_s + waves_s)
    return fixed_s + together_s, code


def _accepts(operator: operators.LatentAttention) -> bool:
    return operator.phase == operators.Phase.DECODE or not attention.selects_keys(operator)


def _key(operator: operators.LatentAttention) -> declarations.CalibrationKey | None:
    phase = declarations.kernel_phase(operator.phase)
    if phase is None:
        return None
    if phase == "prefill":
        return "mla_prefill", attention.prefill_formats(operator)
    cached = attention.decode_format(operator)
    expanded = ("bf16",) if cached != "bf16" and attention.selects_keys(operator) else ()
    return "mla_decode", (*expanded, cached)


def _columns(operator: operators.LatentAttention) -> declarations.Columns:
    return declarations.named(operator, attention.LATENT_SIZES) | attention.protocol_columns(
        operator
    )


_GEOMETRY: Final = (
    *(
        declarations.Axis(("kv_lora_rank",), 4.0),
        declarations.Axis(("rope_dim",), 4.0),
        declarations.Axis(("nope_dim",), 4.0),
    ),
    *(declarations.Axis(("value_head_dim",), 4.0), declarations.Axis(("selected",))),
)
DECLARATIONS: Final = (
    declarations.OperatorKernels(
        kind=operators.LatentAttention,
        accepts=_accepts,
        calibration_key=_key,
        shape_columns=_columns,
        shapes={
            "mla_prefill": declarations.KernelShape(
                axes=(
                    *(
                        declarations.Axis(("batch",)),
                        declarations.Axis(("q_len",)),
                        declarations.Axis(("kv_len",)),
                    ),
                    *(
                        declarations.Axis(("num_heads",), 0.5),
                        declarations.Axis(("batch", "q_len", "num_heads")),
                    ),
                    *_GEOMETRY,
                ),
                groups=("num_heads",),
                split_by=("num_heads",),
                split_words="heads",
            ),
            "mla_decode": declarations.KernelShape(
                axes=(
                    *(
                        declarations.Axis(("batch",), 2.0),
                        declarations.Axis(("q_len",)),
                        declarations.Axis(("kv_len",), 2.0),
                    ),
                    *(declarations.Axis(("num_heads",), 0.5), *_GEOMETRY),
                ),
                groups=("num_heads",),
                split_by=("num_heads",),
                split_words="heads",
            ),
        },
    ),
)
