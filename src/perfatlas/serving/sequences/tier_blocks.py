"""Blocks in the tiers below the GPU: host memory and SSD, each with least recently used eviction.

Shape legend: S schedulers, K blocks of the larger tier, U buckets of its hash table; 2 tiers, host
and SSD.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfatlas.compiled import part
from perfatlas.serving.state import NO_INDEX

if TYPE_CHECKING:
    from perfatlas.serving.state import SimulationState

HOST: Final = 0
SSD: Final = 1
NO_KEY: Final = -1  # keys are not negative


@part
def find(sim: SimulationState, shelf: tuple[int, int], key: int) -> int:
    """Return the index of a block in a tier, NO_INDEX if it is not there."""
    s, t = shelf
    k = sim.slot_S2U[s, t, key & (sim.slot_S2U.shape[2] - 1)] - 1
    while k != NO_INDEX and sim.shelf_S2K[s, t, k].key != key:
        k = sim.shelf_S2K[s, t, k].chain_after
    return int(k)


@part
def add(sim: SimulationState, shelf: tuple[int, int], key: int) -> int:
    """Add a block to a tier as most recently used; an existing one is refreshed on the SSD only.

    Returns:
        The key of the block that leaves: an evicted one, this one without room, NO_KEY for none.
    """
    s, t = shelf
    room = sim.ssd_blocks if t == SSD else sim.host_blocks
    k = find(sim, shelf, key)
    if k != NO_INDEX:
        if t == SSD:
            renew(sim, shelf, k)
        return NO_KEY
    if room == 0:
        return key
    evicted = NO_KEY
    stock = sim.stock_S2[s, t]
    if stock.blocks < room:
        k = int(stock.blocks)
        stock.blocks += 1
    else:
        k = int(stock.oldest)
        evicted = int(sim.shelf_S2K[s, t, k].key)
        _leave_order(sim, shelf, k)
        _leave_chain(sim, shelf, k)
        stock.went += 1
    stock.came += 1
    row = sim.shelf_S2K[s, t, k]
    u = key & (sim.slot_S2U.shape[2] - 1)
    first = sim.slot_S2U[s, t, u] - 1
    row.key = key
    row.chain_before = NO_INDEX
    row.chain_after = first
    if first != NO_INDEX:
        sim.shelf_S2K[s, t, first].chain_before = k
    sim.slot_S2U[s, t, u] = k + 1
    _join_order(sim, shelf, k)
    return evicted


@part
def store(sim: SimulationState, owner: int, key: int) -> None:
    """Put a block into both tiers, or into host memory, whose evicted blocks go to the SSD."""
    stock = sim.stock_S2[owner, HOST]
    if not sim.stores_evicted or find(sim, (owner, HOST), key) == NO_INDEX:
        stock.stored += 1
    evicted = add(sim, (owner, HOST), key)
    if not sim.stores_evicted:
        add(sim, (owner, SSD), key)
    elif evicted != NO_KEY:
        add(sim, (owner, SSD), evicted)


@part
def clear_tiers(sim: SimulationState, s: int) -> None:
    """Empty the tiers of a scheduler."""
    for t in range(sim.stock_S2.shape[1]):
        stock = sim.stock_S2[s, t]
        stock.went += stock.blocks
        stock.blocks = 0
        stock.oldest = NO_INDEX
        stock.newest = NO_INDEX
        for u in range(sim.slot_S2U.shape[2]):
            sim.slot_S2U[s, t, u] = 0


@part
def _leave_chain(sim: SimulationState, shelf: tuple[int, int], k: int) -> None:
    """Remove a block from its bucket of the hash table."""
    s, t = shelf
    row = sim.shelf_S2K[s, t, k]
    if row.chain_before == NO_INDEX:
        sim.slot_S2U[s, t, row.key & (sim.slot_S2U.shape[2] - 1)] = row.chain_after + 1
    else:
        sim.shelf_S2K[s, t, row.chain_before].chain_after = row.chain_after
    if row.chain_after != NO_INDEX:
        sim.shelf_S2K[s, t, row.chain_after].chain_before = row.chain_before


@part
def renew(sim: SimulationState, shelf: tuple[int, int], k: int) -> None:
    """Make a block the most recently used one of its tier."""
    _leave_order(sim, shelf, k)
    _join_order(sim, shelf, k)


@part
def _leave_order(sim: SimulationState, shelf: tuple[int, int], k: int) -> None:
    """Remove a block from the LRU list."""
    s, t = shelf
    stock = sim.stock_S2[s, t]
    row = sim.shelf_S2K[s, t, k]
    if row.before == NO_INDEX:
        stock.oldest = row.after
    else:
        sim.shelf_S2K[s, t, row.before].after = row.after
    if row.after == NO_INDEX:
        stock.newest = row.before
    else:
        sim.shelf_S2K[s, t, row.after].before = row.before


@part
def _join_order(sim: SimulationState, shelf: tuple[int, int], k: int) -> None:
    """Append a block to the LRU list."""
    s, t = shelf
    stock = sim.stock_S2[s, t]
    row = sim.shelf_S2K[s, t, k]
    row.before = stock.newest
    row.after = NO_INDEX
    if stock.newest == NO_INDEX:
        stock.oldest = k
    else:
        sim.shelf_S2K[s, t, stock.newest].after = k
    stock.newest = k
