"""Softmax attention (MHA, GQA, MQA) by query tiles in prefill and key splits in decode."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfatlas import operators
from perfatlas.compiled import part
from perfatlas.machines.gpu import declarations
from perfatlas.machines.gpu.kernel_parts import (
    KEY_BLOCK,
    OUTPUT_BYTES,
    hot_share,
    largest_part,
    last_end,
    split_count,
    tile_size,
    visible_blocks,
)

if TYPE_CHECKING:
    from perfatlas.machines.gpu.devices import SiliconRow
    from perfatlas.operators import FloatArray


class PrefillAttentionShape(NamedTuple):
    """Shape columns of prefill."""

    batch: float
    q_len: float
    kv_len: float  # keys per sequence, including the cached prefix and the queries
    num_heads: float
    num_kv_heads: float
    head_dim: float
    value_head_dim: float
    window: float  # 0: none
    kv_bytes_per_element: float  # of the KV cache
    attention_bytes_per_element: float  # of queries, new keys and new values, as read
    hot: float  # 1: a benchmark loop rereads the same tensors; 0: they come from memory
    causal: float  # 0: every query sees every key
    append: float  # 0: the kernel alone, without the append to the cache around it


class DecodeAttentionShape(NamedTuple):
    """Shape columns of decode, as those of prefill."""

    batch: float
    q_len: float
    kv_len: float
    num_heads: float
    num_kv_heads: float
    head_dim: float
    value_head_dim: float
    window: float
    kv_bytes_per_element: float
    attention_bytes_per_element: float
    hot: float


class PrefillAttentionParameters(NamedTuple):
    """Fitted parameters of prefill."""

    efficiency_compute: float  # fraction of the dense peak inside a tile
    efficiency_bandwidth: float
    overhead_launch_s: float
    overhead_tile_cycles: float  # per query tile
    exponential_cost: float  # exponentials per query-key pair not overlapped with the products
    overlap_power: float  # 1: no overlap; large: perfect overlap
    append_passes: float  # passes of the cache append and the staging copies around it
    l2_fraction: float  # fraction of the L2 that retains tensors between iterations of a hot loop
    # slowdown per query-key pair, for each 128 of head width beyond the first
    wide_head_cost: float
    append_block_cycles: float  # per token in the append kernel
    window_cost: float  # slowdown per query-key pair under a sliding window
    tile_queries: float  # maximum query rows per tile (chosen)
    key_block: float  # keys a tile processes at a time (chosen)
    append_queries: float  # 1: queries are copied along with the append (chosen)
    packed_query_max: float  # calls with at most this many queries pack the heads of a group (rule)
    padded_width: float  # 1: head width is padded to the next power of two (chosen)
    fixed_tile: float  # 1: short calls are padded to full tiles (chosen)
    append_threads: float  # maximum threads per token in the append kernel; 0: no limit (rule)
    splits_keys: float  # 1: the keys of long tiles are split over idle SMs (rule)
    longest_last: float  # 1: longest tiles are scheduled last; 0: first (rule)


class DecodeAttentionParameters(NamedTuple):
    """Fitted parameters of decode."""

    efficiency_compute: float
    efficiency_bandwidth: float
    overhead_launch_s: float
    overhead_unit_cycles: float  # per thread block: one sequence, KV head and key split
    overhead_split_s: float  # reduction over the splits
    feed_bytes_per_cycle: float  # keys and values loaded by one SM
    overlap_power: float
    l2_fraction: float
    unpacked_unit_cycles: float  # per thread block where query heads are not packed
    unpacked_feed_bytes_per_cycle: float
    unit_width_power: float  # growth of a block's fixed cost with (head width / 128)
    units_per_sm: float  # target number of thread blocks of the split rule (chosen)
    split_tokens: float  # minimum keys per split (chosen)
    unpacked_group_max: float  # groups up to this size run unpacked (rule of the kernel)
    packed_group_max: float  # larger groups run unpacked (rule)
    unpacked_window: float  # 1: windowed calls run unpacked (rule)
    unpacked_split: float  # 1: unpacked blocks split the keys too (rule)
    packed_split: float  # 1: packed blocks split the keys (rule)
    unpacked_shared: float  # 1: an unpacked block still processes a whole group (rule)
    # 1: splits grow with the square root of the keys and ignore a window (rule)
    grown_splits: float
    least_blocks_per_sm: float  # packed calls with fewer blocks of 128 keys run unpacked (rule)
    regroup_copies: float  # copies, in merges, where groups are not contiguous (rule)


WIDE_HEAD: Final = 128.0
THREADS: Final = 2048.0  # resident on an SM
COLDEST_MISS: Final = 0.15  # minimum fraction of a hot loop's traffic that misses the cache
QUERY_ROWS: Final = 8.0  # rows of the smallest tensor-core tile: packed heads are padded to it
UNPACKED_KEY_BLOCK: Final = 32.0
GROWN_KEYS: Final = 128.0


@declarations.kernel_time(PrefillAttentionShape, PrefillAttentionParameters)
def prefill_attention_time_s(
    shape: PrefillAttentionShape, silicon: SiliconRow, parameters: PrefillAttentionParameters
) -> tuple[float, int]:
    """Return the time of a prefill [s] and its bound code.

    Queries are split into tiles; a tile processes the key blocks that its mask and window leave
    visible. The time is that of an SM's even share of tiles, or of the longest tile where that
    takes longer, overlapped with memory traffic, plus the append of new keys and values in an
    engine's call.

    Source:
        Own tile model, validated against the measured tables.

    Limits: All sequences have one length; cached prefixes are modelled, not measured.
    """
    q_len, kv_len, window = shape.q_len, shape.kv_len, shape.window
    sms, clock = silicon.sm_count, silicon.clock
    launch_s, power = parameters.overhead_launch_s, parameters.overlap_power

    packed = packs(q_len, window, parameters.packed_query_max)
    group = shape.num_heads / shape.num_kv_heads if packed else 1.0
    tile, block = parameters.tile_queries, parameters.key_block
    if not parameters.fixed_tile > 0:
        tile = tile_size(q_len * group, tile)
    tiles = math.ceil(q_len * group / tile)
    if shape.causal == 0:
        longest = float(math.ceil(kv_len / block))
        blocks = tiles * longest
    else:
        prefix = math.ceil((kv_len - q_len) / block)
        limit = math.ceil((window + tile / group - 1.0) / block) + 1.0 if window > 0 else np.inf
        blocks = visible_blocks(tiles, q_len, tile / group, block, (prefix, limit))
        longest = min(prefix + math.ceil(q_len / block), limit)
    block_s = _block_s(shape, silicon, parameters, tile * block)
    fixed_s = parameters.overhead_tile_cycles / clock
    share = shape.batch * shape.num_heads / group / sms
    pairs_s, tiles_s = share * blocks * block_s, share * tiles * fixed_s
    if parameters.splits_keys > 0:
        longest /= min(max(math.floor(1.0 / (share * tiles)), 1.0), max(longest / 4.0, 1.0))
    sm_s = last_end(pairs_s + tiles_s, longest * block_s + fixed_s, parameters.longest_last)

    memory_s, append_s = _prefill_traffic_s(shape, silicon, parameters)
    together_s = (sm_s**power + memory_s**power) ** (1.0 / power)
    compute_s = max(pairs_s, longest * block_s)
    code = largest_part(compute_s, memory_s + append_s, launch_s + tiles_s)
    return launch_s + together_s + append_s, code


@part
def packs(q_len: float, window: float, packed_max: float) -> bool:
    """Return whether a prefill kernel packs the query heads of a group into one tile.

    A kernel that packs only single queries (FlashAttention-2) does not pack under a window.
    """
    return q_len <= packed_max and (window <= 0 or packed_max > 1.0)


@part
def _block_s(
    shape: PrefillAttentionShape,
    silicon: SiliconRow,
    parameters: PrefillAttentionParameters,
    pairs: float,
) -> float:
    """Return the time of the query-key pairs of one tile and one block of keys on an SM [s]."""
    width = (shape.head_dim + shape.value_head_dim) / 2.0
    if parameters.padded_width > 0:
        width = tile_size(width, np.inf)
    slower = 1.0 + parameters.wide_head_cost * max(width / WIDE_HEAD - 1.0, 0.0)
    if 0 < shape.window < shape.kv_len:
        slower *= 1.0 + parameters.window_cost
    products_s = 4.0 * width * silicon.sm_count / (parameters.efficiency_compute * silicon.peak)
    exponentials_s = parameters.exponential_cost / (silicon.exponentials * silicon.clock)
    return (products_s + exponentials_s) * (pairs * slower)


@part
def _prefill_traffic_s(
    shape: PrefillAttentionShape, silicon: SiliconRow, parameters: PrefillAttentionParameters
) -> tuple[float, float]:
    """Return the times of the kernel's memory traffic and of the cache append [s]."""
    heads, kv_heads, kv_bytes = shape.num_heads, shape.num_kv_heads, shape.kv_bytes_per_element
    width = (shape.head_dim + shape.value_head_dim) / 2.0
    cached = shape.kv_len - shape.q_len
    if shape.window > 0:
        cached = min(cached, shape.window)
    fresh = shape.batch * shape.q_len * width
    input_bytes = shape.attention_bytes_per_element
    io_bytes = (
        fresh * ((input_bytes + OUTPUT_BYTES) * heads + 2.0 * input_bytes * kv_heads)
        + 2.0 * (shape.batch * cached * width) * kv_heads * kv_bytes
    )
    appended = parameters.append_queries * 2.0 * heads + 2.0 * kv_heads * (2.0 + kv_bytes)
    append_bytes = fresh * appended
    miss = 1.0
    if shape.hot > 0:
        hit = hot_share(io_bytes + append_bytes, parameters.l2_fraction * silicon.l2)
        miss = max(COLDEST_MISS, 1.0 - hit)
    rate = parameters.efficiency_bandwidth * silicon.bandwidth
    block_threads = min(kv_heads * width, parameters.append_threads)
    block_s = parameters.append_block_cycles / (silicon.clock * silicon.sm_count)
    blocks_s = shape.batch * shape.q_len * block_threads / THREADS * block_s
    append_s = parameters.append_passes * miss * append_bytes / rate + blocks_s
    return miss * io_bytes / rate, shape.append * append_s


@declarations.kernel_time(DecodeAttentionShape, DecodeAttentionParameters)
def decode_attention_time_s(
    shape: DecodeAttentionShape, silicon: SiliconRow, parameters: DecodeAttentionParameters
) -> tuple[float, int]:
    """Return the time of a decode step [s] and its bound code.

    A thread block processes one sequence, one KV head and one split of the keys; the query heads
    of a group are packed into its tile. Kernels also have an unpacked path (a block per query
    head, on CUDA cores or without splits) for groups or windows that the packed path does not
    support. The rule that selects the path is part of the parameters.

    Source:
        Own model of splits and waves, validated against the measured tables.

    Limits: All sequences have one length. Not monotone where the kernel changes its number of
    splits, like measured kernels.
    """
    window, kv_len, kv_heads = shape.window, shape.kv_len, shape.num_kv_heads
    sms, clock, power = silicon.sm_count, silicon.clock, parameters.overlap_power
    keys = min(kv_len, window + shape.q_len - 1.0) if window > 0 else kv_len
    width = (shape.head_dim + shape.value_head_dim) / 2.0
    rows = shape.num_heads / kv_heads * shape.q_len
    units = shape.batch * kv_heads
    slots = parameters.units_per_sm * sms

    few = units * max(math.floor(kv_len / GROWN_KEYS), 1.0) < parameters.least_blocks_per_sm * sms
    splits, copies = 1.0, 0.0
    if few or _unpacked(rows, window, parameters):
        unit_cycles = parameters.unpacked_unit_cycles
        feed = parameters.unpacked_feed_bytes_per_cycle
        key_block, per_key_flop = UNPACKED_KEY_BLOCK, 0.0
        if parameters.unpacked_shared == 0:
            units = shape.batch * shape.num_heads * shape.q_len
        if parameters.unpacked_split > 0:
            splits = split_count(units, slots, keys, parameters.split_tokens)
    else:
        unit_cycles, feed = parameters.overhead_unit_cycles, parameters.feed_bytes_per_cycle
        padded_rows = 1.0 if rows == 1 else QUERY_ROWS * math.ceil(rows / QUERY_ROWS)
        key_block, per_key_flop = KEY_BLOCK, 4.0 * width * padded_rows
        if parameters.grown_splits > 0:
            splits = grown_split_count(units, slots, kv_len)
        elif parameters.packed_split > 0:
            splits = split_count(units, slots, keys, parameters.split_tokens)
        if shape.batch > 1 and kv_heads > 1:
            copies = parameters.regroup_copies
    waves = math.ceil(units * splits / sms)
    unit_cycles *= (width / WIDE_HEAD) ** parameters.unit_width_power
    unit_keys = key_block * math.ceil(keys / splits / key_block)
    fed_s = waves * 2.0 * unit_keys * width * shape.kv_bytes_per_element / (feed * clock)
    compute = parameters.efficiency_compute * silicon.peak
    arithmetic_s = waves * unit_keys * per_key_flop * sms / compute
    waves_s = waves * unit_cycles / clock
    sm_s = max(fed_s, arithmetic_s) + waves_s

    memory_s = _decode_traffic_s(shape, silicon, parameters, keys)
    together_s = (sm_s**power + memory_s**power) ** (1.0 / power)
    merges = (1.0 if splits > 1 else 0.0) + copies
    fixed_s = parameters.overhead_launch_s + parameters.overhead_split_s * merges
    code = largest_part(arithmetic_s, max(fed_s, memory_s), fixed_s + waves_s)
    return fixed_s + together_s, code


@part
def _unpacked(rows: float, window: float, parameters: DecodeAttentionParameters) -> bool:
    """Return whether a kernel's rule selects its unpacked path."""
    small, large = rows <= parameters.unpacked_group_max, rows > parameters.packed_group_max
    return small or large or (window > 0 and parameters.unpacked_window > 0)


@part
def grown_split_count(units: float, slots: float, kv_len: float) -> float:
    """Return the splits of a kernel whose splits grow with the square root of the length.

    One per `GROWN_KEYS` keys, at most the square root of eight times as many, limited by the
    slots. Source: TensorRT-LLM's computeMultiBlockCount; tested against the steps of its tables.
    """
    blocks = math.floor(kv_len / GROWN_KEYS)
    splits = max(min(blocks, math.floor(math.sqrt(8.0 * blocks) + 0.5)), 1.0)
    return max(math.floor(splits * min(slots / (units * splits), 1.0)), 1.0)


@part
def _decode_traffic_s(
    shape: DecodeAttentionShape,
    silicon: SiliconRow,
    parameters: DecodeAttentionParameters,
    keys: float,
) -> float:
    """Return the time of the memory traffic [s]; `keys` counts those of one sequence."""
    width = (shape.head_dim + shape.value_head_dim) / 2.0
    cached = 2.0 * shape.batch * shape.num_kv_heads * keys * width
    cache_bytes = cached * shape.kv_bytes_per_element
    cold = 1.0
    if shape.hot > 0:
        cold = 1.0 - hot_share(cache_bytes, parameters.l2_fraction * silicon.l2)
    element_bytes = shape.attention_bytes_per_element + OUTPUT_BYTES
    io_bytes = shape.batch * shape.q_len * shape.num_heads * width * element_bytes
    rate = parameters.efficiency_bandwidth * silicon.bandwidth
    return (cold * cache_bytes + io_bytes) / rate


SIZES: Final = (
    "batch",
    "q_len",
    "kv_len",
    "num_heads",
    "num_kv_heads",
    "head_dim",
    "value_head_dim",
    "window",
)
LATENT_SIZES: Final = (
    "batch",
    "q_len",
    "kv_len",
    "num_heads",
    "kv_lora_rank",
    "rope_dim",
    "nope_dim",
    "value_head_dim",
    "selected",
)


def decode_format(operator: operators.Attention | operators.LatentAttention) -> str:
    """Return the format that decode kernels were measured in; queries are always 16-bit."""
    return f"bf16{'+fp8_kv' if declarations.is_fp8(operator.kv_format) else ''}"


def prefill_formats(operator: operators.Attention | operators.LatentAttention) -> tuple[str, ...]:
    """Return the formats whose fits can price a prefill, best first.

    A prefill that multiplies in fp8 is priced by fp8 rows, otherwise by 16-bit rows with the
    same KV cache format.
    """
    key = decode_format(operator)
    exact = (f"fp8{key.removeprefix('bf16')}",) if declarations.is_fp8(operator.format) else ()
    return (*exact, key)


def protocol_columns(
    operator: operators.Attention | operators.LatentAttention,
) -> dict[str, FloatArray | float]:
    """Return the columns common to all attention kernels: element sizes and cold caches."""
    return {
        "kv_bytes_per_element": operator.kv_bytes_per_element,
        "attention_bytes_per_element": 1.0 if declarations.is_fp8(operator.format) else 2.0,
        "hot": 0.0,
    }


def selects_keys(operator: operators.LatentAttention) -> bool:
    """Return whether attention runs over selected keys."""
    return bool(np.any(operator.selected > 0))


def _key(operator: operators.Attention) -> declarations.CalibrationKey | None:
    phase = declarations.kernel_phase(operator.phase)
    if phase is None:
        return None
    if phase == "decode":
        return "decode_attention", (decode_format(operator),)
    return "prefill_attention", prefill_formats(operator)


def _columns(operator: operators.Attention) -> declarations.Columns:
    columns = declarations.named(operator, SIZES) | protocol_columns(operator)
    if declarations.kernel_phase(operator.phase) == "decode":
        return columns
    return columns | {"causal": float(operator.causal), "append": float(operator.cache_append)}


SPLIT: Final = ("num_heads", "num_kv_heads")
DECLARATIONS: Final = (
    declarations.OperatorKernels(
        kind=operators.Attention,
        calibration_key=_key,
        shape_columns=_columns,
        shapes={
            "prefill_attention": declarations.KernelShape(
                axes=(
                    *(
                        declarations.Axis(("batch",)),
                        declarations.Axis(("q_len",)),
                        declarations.Axis(("kv_len",)),
                    ),
                    *(
                        declarations.Axis(("num_heads",), 0.5),
                        declarations.Axis(("num_kv_heads",), 0.5),
                    ),
                    *(
                        declarations.Axis(("head_dim",), 4.0),
                        declarations.Axis(("value_head_dim",), 4.0, over=("head_dim",)),
                    ),
                    *(
                        declarations.Axis(("window",), 4.0),
                        declarations.Axis(("batch", "q_len", "num_heads"), 2.0),
                    ),
                ),
                groups=("num_heads", "num_kv_heads", "head_dim", "window"),
                split_by=SPLIT,
                split_words="(heads, KV heads)",
            ),
            "decode_attention": declarations.KernelShape(
                axes=(
                    *(
                        declarations.Axis(("batch",)),
                        declarations.Axis(("q_len",), 2.0),
                        declarations.Axis(("kv_len",)),
                    ),
                    *(
                        declarations.Axis(("num_heads",), 0.5),
                        declarations.Axis(("num_kv_heads",), 0.5),
                    ),
                    *(
                        declarations.Axis(("head_dim",), 2.0),
                        declarations.Axis(("value_head_dim",), 4.0, over=("head_dim",)),
                    ),
                    *(
                        declarations.Axis(("window",), 2.0),
                        declarations.Axis(("batch", "num_kv_heads")),
                    ),
                    declarations.Axis(("batch", "num_kv_heads", "kv_len")),
                    declarations.Axis(("num_heads",), over=("num_kv_heads",)),
                ),
                groups=("num_heads", "num_kv_heads", "head_dim", "window"),
                split_by=SPLIT,
                split_words="(heads, KV heads)",
            ),
        },
    ),
)
