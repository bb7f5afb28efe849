"""Parts that several formulas of kernels share: tiles and splits of attention, hits in cache."""

from __future__ import annotations

import math
from typing import Final

from perfatlas.compiled import part
from perfatlas.operators import BOUND_COMPUTE, BOUND_LATENCY, BOUND_MEMORY

MIN_TILE_ROWS: Final = 16.0  # query rows
OUTPUT_BYTES: Final = 2.0  # attention outputs are 16-bit
KEY_BLOCK: Final = 64.0  # keys a packed block reads at a time


@part
def tile_size(q_len: float, largest: float) -> float:
    """Return the queries per tile: q_len rounded up to a power of two, within the limits."""
    size = MIN_TILE_ROWS
    while size < q_len and size < largest:
        size *= 2.0
    return size


@part
def visible_blocks(
    tiles: float, q_len: float, tile: float, block: float, seen: tuple[float, float]
) -> float:
    """Return the key blocks that all query tiles of a sequence and head process (causal mask).

    `tile`, the queries per tile, is below 1 where packed heads fill several tiles per query; `seen`
    holds the blocks before the first query, and the maximum blocks of one tile (inf: no window).
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
def last_end(even_s: float, longest_s: float, longest_last: float) -> float:
    """Return the end of the last SM [s], from an even share of the work and the longest tile."""
    return even_s + longest_s if longest_last > 0 else max(even_s, longest_s)


@part
def split_count(units: float, slots: float, keys: float, split_keys: float) -> float:
    """Return the number of key splits that fills the device."""
    return min(max(math.floor(slots / units), 1.0), math.ceil(keys / split_keys))


@part
def hot_share(traffic_bytes: float, l2_bytes: float) -> float:
    """Return the fraction of a loop's traffic that hits the last-level cache."""
    ratio = (traffic_bytes / l2_bytes) ** 2
    return 1.0 / (1.0 + ratio * ratio)


@part
def largest_part(compute_s: float, memory_s: float, latency_s: float) -> int:
    """Return the bound code of the largest of three parts."""
    if latency_s >= compute_s and latency_s >= memory_s:
        return BOUND_LATENCY
    return BOUND_COMPUTE if compute_s >= memory_s else BOUND_MEMORY
