"""KV cache offloading: prompt blocks in host memory, and on an SSD below it.

Every full block of a prompt is written through to both tiers when the step that computes it is
scheduled, unless it was found there at admission. Each tier holds a fixed number of blocks and
evicts the least recently used one; neither tier includes the other.

When a request is admitted, its leading blocks are looked up in host memory, and from the first miss
on the SSD. Hits become most recently used, the last block first, so that the start of a prompt is
evicted after its end. Hits beyond the blocks found on the GPU are loaded: they are allocated GPU
blocks and enter its prefix cache at once; blocks from the SSD are also put into host memory. The
step that admits or computes a request waits for its loads and stores, one after the other. Output
is not stored.

Source: LMCache 0.5.7rc2 in vLLM's process, its defaults enable_async_loading, use_layerwise and
save_decode_cache false: lmcache/inprocess/integration/vllm/vllm_v1_adapter.py,
get_num_new_matched_tokens() (a lookup from the first token on), start_load_kv() and
wait_for_save() (both block the worker); lmcache/v1/storage_backend/storage_manager.py,
batched_contains() (tier after tier), batched_put() (to all of them), batched_get() (SSD to host);
local_cpu_backend.py and local_disk_backend.py, touch_cache() (reversed) and submit_put_task() (an
existing block is refreshed on disk only); cache_policy/lru.py.

Limits: A chunk of LMCache (256 tokens by default) is a block of the engine here. In one step,
requests look up, load and store in turn, whereas LMCache loads for all requests before it stores.
Nothing is pinned: a prompt larger than a tier evicts its own start. Writing to the SSD is
instantaneous and takes no step time. If a whole prompt is found, its last block is recomputed,
whereas LMCache recomputes its last token.

Shape legend: N requests, S schedulers, K blocks of the larger tier, U buckets of its hash table;
2 tiers, host and SSD.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfatlas.compiled import part
from perfatlas.serving.sequences.prefix import block_key
from perfatlas.serving.state import NO_INDEX

if TYPE_CHECKING:
    from perfatlas.serving.state import SimulationState

_key = part(block_key)
HOST: Final = 0
SSD: Final = 1


@part
def find_offloaded(sim: SimulationState, i: int) -> tuple[int, int]:
    """Return the leading blocks of a request in the tiers, and how many are in host memory.

    Args:
        i: The request, waiting.
    """
    request = sim.request_N[i]
    s = request.scheduler
    most = (request.isl + request.generated - 1) // sim.block_size
    b = 0
    while b < most and _find(sim, (s, HOST), _key(sim, i, b)) != NO_INDEX:
        b += 1
    host = b
    while b < most and _find(sim, (s, SSD), _key(sim, i, b)) != NO_INDEX:
        b += 1
    return b, host


@part
def load_offloaded(sim: SimulationState, i: int, hits: int, cached: tuple[int, int]) -> None:
    """Refresh the hits of an admitted request in the tiers, and load those not on the GPU."""
    request = sim.request_N[i]
    s = request.scheduler
    below, host = cached
    for b in range(host - 1, -1, -1):
        _renew(sim, (s, HOST), _find(sim, (s, HOST), _key(sim, i, b)))
    for b in range(below - 1, host - 1, -1):
        _renew(sim, (s, SSD), _find(sim, (s, SSD), _key(sim, i, b)))
    request.offloaded = below
    from_host = max(host - hits, 0)
    from_ssd = max(below - max(hits, host), 0)
    for b in range(below - from_ssd, below):
        _add_block(sim, (s, HOST), _key(sim, i, b))
    sim.stock_S2[s, HOST].loaded += from_host
    sim.stock_S2[s, SSD].loaded += from_ssd
    if sim.preempted_N[i] == 0:
        loaded = sim.loaded_N[i]
        loaded.host = from_host * sim.block_size
        loaded.ssd = from_ssd * sim.block_size
        sim.cached_N[i] += loaded.host + loaded.ssd
    moved = (from_host + from_ssd) * sim.host_move + from_ssd * sim.ssd_move
    _wait_for(sim, i, moved)


@part
def offload_prompt(sim: SimulationState, i: int, tokens: int) -> None:
    """Write through the full blocks of a prompt's first tokens that are not in the tiers yet."""
    request = sim.request_N[i]
    s = request.scheduler
    full = min(tokens, request.isl) // sim.block_size
    if full <= request.offloaded:
        return
    for b in range(request.offloaded, full):
        key = _key(sim, i, b)
        _add_block(sim, (s, HOST), key)
        _add_block(sim, (s, SSD), key)
    sim.stock_S2[s, HOST].stored += full - request.offloaded
    _wait_for(sim, i, (full - request.offloaded) * sim.host_move)
    request.offloaded = full


@part
def _wait_for(sim: SimulationState, i: int, time: int) -> None:
    """Add the time of a copy to the step being scheduled."""
    sim.scheduler_S[sim.request_N[i].scheduler].moving += time
    if sim.first_token_N[i] == NO_INDEX:
        sim.loaded_N[i].moved += time


@part
def _find(sim: SimulationState, shelf: tuple[int, int], key: int) -> int:
    """Return the index of a block in a tier, NO_INDEX if it is not there."""
    s, t = shelf
    k = sim.slot_S2U[s, t, key & (sim.slot_S2U.shape[2] - 1)] - 1
    while k != NO_INDEX and sim.shelf_S2K[s, t, k].key != key:
        k = sim.shelf_S2K[s, t, k].chain_after
    return int(k)


@part
def _add_block(sim: SimulationState, shelf: tuple[int, int], key: int) -> None:
    """Add a block to a tier as most recently used; an existing one is refreshed on the SSD only."""
    s, t = shelf
    room = sim.ssd_blocks if t == SSD else sim.host_blocks
    k = _find(sim, shelf, key)
    if k != NO_INDEX:
        if t == SSD:
            _renew(sim, shelf, k)
        return
    if room == 0:
        return
    stock = sim.stock_S2[s, t]
    if stock.blocks < room:
        k = int(stock.blocks)
        stock.blocks += 1
    else:
        k = int(stock.oldest)
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
def _renew(sim: SimulationState, shelf: tuple[int, int], k: int) -> None:
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
