"""Blocks in the tiers below the GPU, each with least recently used eviction.

A scheduler has two tiers of its own, host memory and an SSD; a remote pool is shared by all.

Shape legend: S schedulers, W = 2 S + 1 tiers, K blocks of all tiers, U buckets of all hash tables.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfatlas.compiled import part
from perfatlas.serving.state import NO_INDEX

if TYPE_CHECKING:
    from perfatlas.serving.state import SimulationState

HOST: Final = 0
SSD: Final = 1
REMOTE: Final = 2
NO_KEY: Final = -1  # keys are not negative


@part
def tier_of(sim: SimulationState, s: int, t: int) -> int:
    """Return the index of a tier of a scheduler.

    Args:
        t: HOST, SSD or REMOTE.
    """
    return int(sim.tier_W.shape[0] - 1 if t == REMOTE else SSD * s + s + t)


@part
def find(sim: SimulationState, w: int, key: int) -> int:
    """Return the index of a block in a tier, NO_INDEX if it is not there."""
    tier = sim.tier_W[w]
    if tier.capacity == 0:
        return NO_INDEX
    k = sim.tier_bucket_U[tier.bucket + (key & tier.mask)] - 1
    while k != NO_INDEX and sim.tier_block_K[tier.first + k].key != key:
        k = sim.tier_block_K[tier.first + k].chain_after
    return int(k)


@part
def add(sim: SimulationState, w: int, key: int) -> int:
    """Add a block to a tier as most recently used; an existing one stays in its place.

    Returns:
        The key of the block that leaves: an evicted one, this one if there is no tier, or NO_KEY.
    """
    tier = sim.tier_W[w]
    if tier.capacity == 0:
        return key
    if find(sim, w, key) != NO_INDEX:
        return NO_KEY
    evicted = NO_KEY
    if tier.blocks < tier.capacity:
        k = int(tier.blocks)
        tier.blocks += 1
    else:
        k = int(tier.oldest)
        evicted = int(sim.tier_block_K[tier.first + k].key)
        _leave_order(sim, w, k)
        _leave_chain(sim, w, k)
        tier.left += 1
    tier.entered += 1
    row = sim.tier_block_K[tier.first + k]
    u = tier.bucket + (key & tier.mask)
    first = sim.tier_bucket_U[u] - 1
    row.key = key
    row.chain_before = NO_INDEX
    row.chain_after = first
    if first != NO_INDEX:
        sim.tier_block_K[tier.first + first].chain_before = k
    sim.tier_bucket_U[u] = k + 1
    _join_order(sim, w, k)
    return evicted


@part
def lower(sim: SimulationState, s: int, t: int, key: int) -> None:
    """Put a block into a tier and what it evicts into the next one, down to the last.

    Below host memory, a block that is there already becomes the most recently used one.
    """
    while t <= REMOTE and key != NO_KEY:
        w = tier_of(sim, s, t)
        k = find(sim, w, key)
        if k != NO_INDEX and t != HOST:
            renew(sim, w, k)
        key = add(sim, w, key)
        t += 1


@part
def store(sim: SimulationState, s: int, key: int) -> None:
    """Put a block into all tiers, or into host memory, which evicts blocks to the tiers below."""
    host = tier_of(sim, s, HOST)
    if not sim.limits.stores_evicted or find(sim, host, key) == NO_INDEX:
        sim.tier_W[host].stored += 1
    if sim.limits.stores_evicted:
        lower(sim, s, HOST, key)
        return
    for t in range(REMOTE + 1):
        w = tier_of(sim, s, t)
        k = find(sim, w, key)
        if k != NO_INDEX and t != HOST:
            renew(sim, w, k)
        add(sim, w, key)


@part
def clear_tiers(sim: SimulationState, s: int) -> None:
    """Empty the tiers of a scheduler; the remote pool keeps its blocks."""
    for t in range(REMOTE):
        tier = sim.tier_W[tier_of(sim, s, t)]
        tier.left += tier.blocks
        tier.blocks = 0
        tier.oldest = NO_INDEX
        tier.newest = NO_INDEX
        for u in range(tier.bucket, tier.bucket + tier.mask + 1):
            sim.tier_bucket_U[u] = 0


@part
def _leave_chain(sim: SimulationState, w: int, k: int) -> None:
    """Remove a block from its bucket of the hash table."""
    tier = sim.tier_W[w]
    row = sim.tier_block_K[tier.first + k]
    if row.chain_before == NO_INDEX:
        sim.tier_bucket_U[tier.bucket + (row.key & tier.mask)] = row.chain_after + 1
    else:
        sim.tier_block_K[tier.first + row.chain_before].chain_after = row.chain_after
    if row.chain_after != NO_INDEX:
        sim.tier_block_K[tier.first + row.chain_after].chain_before = row.chain_before


@part
def renew(sim: SimulationState, w: int, k: int) -> None:
    """Make a block the most recently used one of its tier."""
    _leave_order(sim, w, k)
    _join_order(sim, w, k)


@part
def _leave_order(sim: SimulationState, w: int, k: int) -> None:
    """Remove a block from the LRU list."""
    tier = sim.tier_W[w]
    row = sim.tier_block_K[tier.first + k]
    if row.before == NO_INDEX:
        tier.oldest = row.after
    else:
        sim.tier_block_K[tier.first + row.before].after = row.after
    if row.after == NO_INDEX:
        tier.newest = row.before
    else:
        sim.tier_block_K[tier.first + row.after].before = row.before


@part
def _join_order(sim: SimulationState, w: int, k: int) -> None:
    """Append a block to the LRU list."""
    tier = sim.tier_W[w]
    row = sim.tier_block_K[tier.first + k]
    row.before = tier.newest
    row.after = NO_INDEX
    if tier.newest == NO_INDEX:
        tier.oldest = k
    else:
        sim.tier_block_K[tier.first + tier.newest].after = k
    tier.newest = k
