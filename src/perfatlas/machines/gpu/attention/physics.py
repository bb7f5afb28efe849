"""Time of softmax attention (MHA, GQA, MQA) by query tiles in prefill and key splits in decode.

Shape legend: U unique shapes, D shape dimensions, S silicon fields, P parameters.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.compiled import compiled, part
from perfatlas.machines.gpu.devices import BANDWIDTH, CLOCK, EXPONENTIALS, L2, PEAK, SM_COUNT
from perfatlas.operators import BOUND_COMPUTE, BOUND_LATENCY, BOUND_MEMORY

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfatlas.operators import FloatArray

_SHAPE: Final = (
    "batch",
    "q_len",
    "kv_len",  # keys per sequence, including the cached prefix and the queries
    "num_heads",
    "num_kv_heads",
    "head_dim",
    "value_head_dim",
    "window",  # 0: none
    "kv_bytes_per_element",  # of the KV cache
    "attention_bytes_per_element",  # of queries, new keys and new values, as read
    "hot",  # 1: a benchmark loop rereads the same tensors; 0: they come from memory
)
PREFILL_ATTENTION_SHAPE: Final = (
    *_SHAPE,
    "causal",  # 0: every query sees every key
    "append",  # 0: the kernel alone, without the append to the cache around it
)
DECODE_ATTENTION_SHAPE: Final = _SHAPE

PREFILL_ATTENTION_PARAMETERS: Final = (
    "efficiency_compute",  # fraction of the dense peak inside a tile
    "efficiency_bandwidth",
    "overhead_launch_s",
    "overhead_tile_cycles",  # per query tile
    "exponential_cost",  # exponentials per query-key pair not overlapped with the products
    "overlap_power",  # 1: no overlap; large: perfect overlap
    "append_passes",  # passes of the cache append and the staging copies around it
    "l2_fraction",  # fraction of the L2 that retains tensors between iterations of a hot loop
    "wide_head_cost",  # slowdown per query-key pair, for each 128 of head width beyond the first
    "append_block_cycles",  # per token in the append kernel
    "window_cost",  # slowdown per query-key pair under a sliding window
    "tile_queries",  # maximum query rows per tile (chosen)
    "key_block",  # keys a tile processes at a time (chosen)
    "append_queries",  # 1: queries are copied along with the append (chosen)
    "packed_query_max",  # calls with at most this many queries pack the heads of a group (rule)
    "padded_width",  # 1: head width is padded to the next power of two (chosen)
    "fixed_tile",  # 1: short calls are padded to full tiles (chosen)
    "append_threads",  # maximum threads per token in the append kernel; 0: no limit (rule)
    "splits_keys",  # 1: the keys of long tiles are split over idle SMs (rule)
    "longest_last",  # 1: longest tiles are scheduled last; 0: first (rule)
)
DECODE_ATTENTION_PARAMETERS: Final = (
    "efficiency_compute",
    "efficiency_bandwidth",
    "overhead_launch_s",
    "overhead_unit_cycles",  # per thread block: one sequence, KV head and key split
    "overhead_split_s",  # reduction over the splits
    "feed_bytes_per_cycle",  # keys and values loaded by one SM
    "overlap_power",
    "l2_fraction",
    "unpacked_unit_cycles",  # per thread block where query heads are not packed
    "unpacked_feed_bytes_per_cycle",
    "unit_width_power",  # growth of a block's fixed cost with (head width / 128)
    "units_per_sm",  # target number of thread blocks of the split rule (chosen)
    "split_tokens",  # minimum keys per split (chosen)
    "unpacked_group_max",  # groups up to this size run unpacked (rule of the kernel)
    "packed_group_max",  # larger groups run unpacked (rule)
    "unpacked_window",  # 1: windowed calls run unpacked (rule)
    "unpacked_split",  # 1: unpacked blocks split the keys too (rule)
    "packed_split",  # 1: packed blocks split the keys (rule)
    "unpacked_shared",  # 1: an unpacked block still processes a whole group (rule)
    "grown_splits",  # 1: splits grow with the square root of the keys and ignore a window (rule)
    "least_blocks_per_sm",  # packed calls with fewer blocks of 128 keys run unpacked (rule)
    "regroup_copies",  # copies, in merges, where groups are not contiguous (rule)
)

SMALLEST_TILE: Final = 16.0  # query rows
WIDE_HEAD: Final = 128.0
THREADS: Final = 2048.0  # resident on an SM
COLDEST_MISS: Final = 0.15  # minimum fraction of a hot loop's traffic that misses the cache
OUTPUT_BYTES: Final = 2.0  # attention outputs are 16-bit
QUERY_ROWS: Final = 8.0  # rows of the smallest tensor-core tile: packed heads are padded to it
KEY_BLOCK: Final = 64.0  # keys a packed block reads at a time
UNPACKED_KEY_BLOCK: Final = 32.0
GROWN_KEYS: Final = 128.0


def prefill_attention_time_s(
    shape_UD: FloatArray, silicon_US: FloatArray, parameters_UP: FloatArray
) -> tuple[FloatArray, NDArray[np.int8]]:
    """Return prefill times (U,) [s] and their bound codes (U,).

    Queries are split into tiles; a tile processes the key blocks that its mask and window leave
    visible. The time is that of an SM's even share of tiles, or of the longest tile where that
    takes longer, overlapped with memory traffic, plus the append of new keys and values in an
    engine's call.

    Args:
        shape_UD: Columns of `PREFILL_ATTENTION_SHAPE`.
        silicon_US: Columns of `machines.gpu.devices.silicon`; PEAK is that of the product.
        parameters_UP: Columns of `PREFILL_ATTENTION_PARAMETERS`.

    Source:
        Own tile model, validated against the measured tables.

    Limits: All sequences have one length; cached prefixes are modelled, not measured.
    """
    rows = shape_UD.shape[0]
    time_s_U, code_U = np.empty(rows), np.empty(rows, np.int8)
    _prefill(shape_UD, silicon_US, parameters_UP, time_s_U, code_U)
    return time_s_U, code_U


def decode_attention_time_s(
    shape_UD: FloatArray, silicon_US: FloatArray, parameters_UP: FloatArray
) -> tuple[FloatArray, NDArray[np.int8]]:
    """Return decode times (U,) [s] and their bound codes (U,).

    A thread block processes one sequence, one KV head and one split of the keys; the query heads
    of a group are packed into its tile. Kernels also have an unpacked path (a block per query
    head, on CUDA cores or without splits) for groups or windows that the packed path does not
    support. The rule that selects the path is part of the parameters.

    Args:
        shape_UD: Columns of `DECODE_ATTENTION_SHAPE`.
        silicon_US: Columns of `machines.gpu.devices.silicon`; PEAK is that of the product.
        parameters_UP: Columns of `DECODE_ATTENTION_PARAMETERS`.

    Source:
        Own model of splits and waves, validated against the measured tables.

    Limits: All sequences have one length. Not monotone where the kernel changes its number of
    splits, like measured kernels.
    """
    rows = shape_UD.shape[0]
    time_s_U, code_U = np.empty(rows), np.empty(rows, np.int8)
    _decode(shape_UD, silicon_US, parameters_UP, time_s_U, code_U)
    return time_s_U, code_U


@part
def hot_share(traffic_bytes: float, l2_bytes: float) -> float:
    """Return the fraction of a loop's traffic that hits the last-level cache."""
    ratio = (traffic_bytes / l2_bytes) ** 2
    return 1.0 / (1.0 + ratio * ratio)


@part
def visible_blocks(
    tiles: float, q_len: float, tile: float, block: float, seen: tuple[float, float]
) -> float:
    """Return the key blocks that all query tiles of a sequence and head process (causal mask).

    Args:
        q_len: Number of queries.
        tile: Queries per tile; below 1 where packed heads fill several tiles per query.
        seen: Blocks before the first query, and maximum blocks of one tile (inf: no window).
    """
    prefix, limit = seen
    step = max(tile, block)
    per_step, blocks_per_step = step / tile, step / block
    whole = math.ceil(q_len / step) - 1.0  # all steps but the last are full
    growing = math.floor(min(max((limit - prefix) / blocks_per_step, 0.0), whole))
    total = growing * prefix + blocks_per_step * growing * (growing + 1.0) / 2.0
    if whole > growing:
        total += (whole - growing) * limit
    last = min(prefix + math.ceil(q_len / block), limit)
    return per_step * total + (tiles - per_step * whole) * last


@part
def largest_part(compute_s: float, memory_s: float, latency_s: float) -> int:
    """Return the bound code of the largest of three parts."""
    if latency_s >= compute_s and latency_s >= memory_s:
        return BOUND_LATENCY
    return BOUND_COMPUTE if compute_s >= memory_s else BOUND_MEMORY


@part
def tile_size(q_len: float, largest: float) -> float:
    """Return the queries per tile: q_len rounded up to a power of two, within the limits."""
    size = SMALLEST_TILE
    while size < q_len and size < largest:
        size *= 2.0
    return size


@part
def packs(q_len: float, window: float, packed_max: float) -> bool:
    """Return whether a prefill kernel packs the query heads of a group into one tile.

    A kernel that packs only single queries (FlashAttention-2) does not pack under a window.
    """
    return q_len <= packed_max and (window <= 0 or packed_max > 1.0)


@part
def last_end(even_s: float, longest_s: float, longest_last: float) -> float:
    """Return the end of the last SM [s], from an even share of the work and the longest tile."""
    return even_s + longest_s if longest_last > 0 else max(even_s, longest_s)


@part
def _prefill_traffic_s(
    shape_D: FloatArray, silicon_S: FloatArray, parameters_P: FloatArray
) -> tuple[float, float]:
    """Return the times of the kernel's memory traffic and of the cache append [s]."""
    batch, q_len, kv_len, heads, kv_heads, key_dim, value_dim = shape_D[:7]
    window, kv_bytes, input_bytes, hot = shape_D[7:11]
    width = (key_dim + value_dim) / 2.0
    fresh = batch * q_len * width
    cached = batch * (min(kv_len - q_len, window) if window > 0 else kv_len - q_len) * width
    io_bytes = (
        fresh * ((input_bytes + OUTPUT_BYTES) * heads + 2.0 * input_bytes * kv_heads)
        + 2.0 * cached * kv_heads * kv_bytes
    )
    append_bytes = fresh * (parameters_P[13] * 2.0 * heads + 2.0 * kv_heads * (2.0 + kv_bytes))
    miss = 1.0
    if hot > 0:
        kept = hot_share(io_bytes + append_bytes, parameters_P[7] * silicon_S[L2])
        miss = max(COLDEST_MISS, 1.0 - kept)
    rate = parameters_P[1] * silicon_S[BANDWIDTH]
    block_threads = min(kv_heads * width, parameters_P[17])
    block_s = parameters_P[9] / (silicon_S[CLOCK] * silicon_S[SM_COUNT])
    blocks_s = batch * q_len * block_threads / THREADS * block_s
    append_s = parameters_P[6] * miss * append_bytes / rate + blocks_s
    return miss * io_bytes / rate, shape_D[12] * append_s


@compiled
def _prefill(
    shape_UD: FloatArray,
    silicon_US: FloatArray,
    parameters_UP: FloatArray,
    time_s_U: FloatArray,
    code_U: NDArray[np.int8],
) -> None:
    for u in range(shape_UD.shape[0]):
        batch, q_len, kv_len, heads, kv_heads, key_dim, value_dim = shape_UD[u, :7]
        window = shape_UD[u, 7]
        compute, _, launch_s, tile_cycles, exponentials, power = parameters_UP[u, :6]
        wide, _, masked, tile_limit, block, _, packed_max = parameters_UP[u, 8:15]
        padded, fixed_tile, _, splits_keys, longest_last = parameters_UP[u, 15:20]
        sms, clock = silicon_US[u, SM_COUNT], silicon_US[u, CLOCK]

        packed = packs(q_len, window, packed_max)
        group = heads / kv_heads if packed else 1.0
        tile = tile_limit if fixed_tile > 0 else tile_size(q_len * group, tile_limit)
        tiles = math.ceil(q_len * group / tile)
        prefix = math.ceil((kv_len - q_len) / block)
        limit = math.ceil((window + tile / group - 1.0) / block) + 1.0 if window > 0 else np.inf
        blocks = visible_blocks(tiles, q_len, tile / group, block, (prefix, limit))
        longest = min(prefix + math.ceil(q_len / block), limit)
        if shape_UD[u, 11] == 0:
            longest = math.ceil(kv_len / block)
            blocks = tiles * longest
        width = (key_dim + value_dim) / 2.0
        if padded > 0:
            width = tile_size(width, np.inf)
        slower = 1.0 + wide * max(width / WIDE_HEAD - 1.0, 0.0)
        if 0 < window < kv_len:
            slower *= 1.0 + masked
        block_s = (
            4.0 * width * sms / (compute * silicon_US[u, PEAK])
            + exponentials / (silicon_US[u, EXPONENTIALS] * clock)
        ) * (tile * block * slower)
        fixed_s = tile_cycles / clock
        share = batch * heads / group / sms
        pairs_s, tiles_s = share * blocks * block_s, share * tiles * fixed_s
        if splits_keys > 0:
            longest /= min(max(math.floor(1.0 / (share * tiles)), 1.0), max(longest / 4.0, 1.0))
        sm_s = last_end(pairs_s + tiles_s, longest * block_s + fixed_s, longest_last)

        memory_s, append_s = _prefill_traffic_s(shape_UD[u], silicon_US[u], parameters_UP[u])
        together_s = (sm_s**power + memory_s**power) ** (1.0 / power)
        time_s_U[u] = launch_s + together_s + append_s
        code_U[u] = largest_part(
            max(pairs_s, longest * block_s), memory_s + append_s, launch_s + tiles_s
        )


@part
def _unpacked(group: float, window: float, rule_P: FloatArray) -> bool:
    """Return whether a kernel's rule selects its unpacked path."""
    return group <= rule_P[0] or group > rule_P[1] or (window > 0 and rule_P[2] > 0)


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
def split_count(units: float, slots: float, keys: float, split_keys: float) -> float:
    """Return the number of key splits that fills the device."""
    return min(max(math.floor(slots / units), 1.0), math.ceil(keys / split_keys))


@part
def _decode_traffic_s(
    shape_D: FloatArray, silicon_S: FloatArray, parameters_P: FloatArray, keys: float
) -> float:
    """Return the time of the memory traffic [s]; `keys` counts those of one sequence."""
    width = (shape_D[5] + shape_D[6]) / 2.0
    cache_bytes = 2.0 * shape_D[0] * shape_D[4] * keys * width * shape_D[8]
    cold = 1.0
    if shape_D[10] > 0:
        cold = 1.0 - hot_share(cache_bytes, parameters_P[7] * silicon_S[L2])
    io_bytes = shape_D[0] * shape_D[1] * shape_D[3] * width * (shape_D[9] + OUTPUT_BYTES)
    rate = parameters_P[1] * silicon_S[BANDWIDTH]
    traffic_s: float = (cold * cache_bytes + io_bytes) / rate
    return traffic_s


@compiled
def _decode(
    shape_UD: FloatArray,
    silicon_US: FloatArray,
    parameters_UP: FloatArray,
    time_s_U: FloatArray,
    code_U: NDArray[np.int8],
) -> None:
    for u in range(shape_UD.shape[0]):
        batch, q_len, kv_len, heads, kv_heads, key_dim, value_dim = shape_UD[u, :7]
        window, kv_bytes = shape_UD[u, 7], shape_UD[u, 8]
        compute, _, launch_s, unit_cycles, split_s, feed, power = parameters_UP[u, :7]
        per_sm, split_keys = parameters_UP[u, 11], parameters_UP[u, 12]
        sms, clock = silicon_US[u, SM_COUNT], silicon_US[u, CLOCK]

        keys = min(kv_len, window + q_len - 1.0) if window > 0 else kv_len
        width = (key_dim + value_dim) / 2.0
        rows = heads / kv_heads * q_len
        units, key_block = batch * kv_heads, KEY_BLOCK
        per_key_flop = (
            4.0 * width * (1.0 if rows == 1 else QUERY_ROWS * math.ceil(rows / QUERY_ROWS))
        )
        splits = 1.0
        if parameters_UP[u, 19] > 0:
            splits = grown_split_count(units, per_sm * sms, kv_len)
        elif parameters_UP[u, 17] > 0:
            splits = split_count(units, per_sm * sms, keys, split_keys)
        copies = parameters_UP[u, 21] if batch > 1 and kv_heads > 1 else 0.0
        few = units * max(math.floor(kv_len / GROWN_KEYS), 1.0) < parameters_UP[u, 20] * sms
        if few or _unpacked(rows, window, parameters_UP[u, 13:16]):
            copies = 0.0
            unit_cycles, feed = parameters_UP[u, 8], parameters_UP[u, 9]
            key_block, per_key_flop = UNPACKED_KEY_BLOCK, 0.0
            if parameters_UP[u, 18] == 0:
                units = batch * heads * q_len
            splits = 1.0
            if parameters_UP[u, 16] > 0:
                splits = split_count(units, per_sm * sms, keys, split_keys)
        waves = math.ceil(units * splits / sms)
        unit_cycles *= (width / WIDE_HEAD) ** parameters_UP[u, 10]
        unit_keys = key_block * math.ceil(keys / splits / key_block)
        fed_s = waves * 2.0 * unit_keys * width * kv_bytes / (feed * clock)
        arithmetic_s = waves * unit_keys * per_key_flop * sms / (compute * silicon_US[u, PEAK])
        waves_s = waves * unit_cycles / clock
        sm_s = max(fed_s, arithmetic_s) + waves_s

        memory_s = _decode_traffic_s(shape_UD[u], silicon_US[u], parameters_UP[u], keys)
        together_s = (sm_s**power + memory_s**power) ** (1.0 / power)
        fixed_s = launch_s + split_s * ((1.0 if splits > 1 else 0.0) + copies)
        time_s_U[u] = fixed_s + together_s
        code_U[u] = largest_part(arithmetic_s, max(fed_s, memory_s), fixed_s + waves_s)
