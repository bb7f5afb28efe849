"""KV cache offloading: blocks in host memory, and on an SSD below it.

Every full block of a prompt is written through to both tiers when the step that computes it is
scheduled, unless it was found there at admission. With `stores_evicted`, blocks enter host memory
when the prefix cache of the GPU evicts them, and the SSD when host memory does. Each tier holds a
fixed number of blocks and evicts the least recently used one.

When a request is admitted, its leading blocks are looked up in host memory, and from the first miss
on the SSD. Hits become most recently used, the last block first, so that the start of a prompt is
evicted after its end. Hits beyond the blocks found on the GPU are loaded: they are allocated GPU
blocks and enter its prefix cache with the rest of the prompt; blocks from the SSD are also put into
host memory. The step that admits a request waits for its loads, or, with `load_layers`, computes a
layer while the next one is loaded. With `store_waits`, the step that computes blocks waits until
they are stored. Output is stored only where blocks are stored as they are evicted. The tiers of a
replica that fails or stops are lost: their index is in its process. Decode engines have none.

Source: which of these an engine does is data of its profile. LMCache 0.5.7rc2 in vLLM's process,
its defaults enable_async_loading, use_layerwise and
save_decode_cache false: lmcache/inprocess/integration/vllm/vllm_v1_adapter.py,
get_num_new_matched_tokens() (a lookup from the first token on), start_load_kv() and
wait_for_save() (both block the worker); lmcache/v1/storage_backend/storage_manager.py,
batched_contains() (tier after tier), batched_put() (to all of them), batched_get() (SSD to host);
local_cpu_backend.py and local_disk_backend.py, touch_cache() (reversed) and submit_put_task() (an
existing block is refreshed on disk only); cache_policy/lru.py.

Limits: A chunk of LMCache (256 tokens by default) is a block of the engine here. In one step,
requests look up, load and store in turn, whereas LMCache loads for all requests before it stores.
Nothing is pinned: a prompt larger than a tier evicts its own start. Writing to the SSD, and storing
what no step waits for, is instantaneous and takes no bandwidth from loads. If a whole prompt is
found, its last block is recomputed, whereas LMCache recomputes its last token.

Shape legend: N requests, S schedulers, K blocks of the larger tier, U buckets of its hash table;
2 tiers, host and SSD.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.compiled import part
from perfatlas.serving.sequences.prefix import block_key
from perfatlas.serving.sequences.stages import cache_owner
from perfatlas.serving.sequences.tier_blocks import HOST, NO_KEY, SSD, add, find, renew, store
from perfatlas.serving.state import NO_INDEX

if TYPE_CHECKING:
    from perfatlas.serving.state import SimulationState

_key = part(block_key)


@part
def find_offloaded(sim: SimulationState, i: int, hits: int) -> tuple[int, int]:
    """Return the leading blocks of a request in the tiers, and how many are in host memory.

    Args:
        i: The request, waiting.
        hits: Its leading blocks on the GPU, after which those follow that the GPU has evicted.
    """
    request = sim.request_N[i]
    s = cache_owner(sim, request.scheduler)
    most = (request.isl + request.generated - 1) // sim.block_size
    b = hits if sim.stores_evicted else 0
    while b < most and find(sim, (s, HOST), _key(sim, i, b)) != NO_INDEX:
        b += 1
    host = b
    while b < most and find(sim, (s, SSD), _key(sim, i, b)) != NO_INDEX:
        b += 1
    return b, host


@part
def load_offloaded(sim: SimulationState, i: int, hits: int, cached: tuple[int, int]) -> None:
    """Refresh the hits of an admitted request in the tiers, and load those not on the GPU."""
    request = sim.request_N[i]
    s = cache_owner(sim, request.scheduler)
    below, host = cached
    first = hits if sim.stores_evicted else 0
    for b in range(host - 1, first - 1, -1):
        renew(sim, (s, HOST), find(sim, (s, HOST), _key(sim, i, b)))
    for b in range(below - 1, host - 1, -1):
        renew(sim, (s, SSD), find(sim, (s, SSD), _key(sim, i, b)))
    request.offloaded = below
    from_host = max(host - hits, 0)
    from_ssd = max(below - max(hits, host), 0)
    for b in range(below - from_ssd, below):
        evicted = add(sim, (s, HOST), _key(sim, i, b))
        if sim.stores_evicted and evicted != NO_KEY:
            add(sim, (s, SSD), evicted)
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
    full = min(tokens, request.isl) // sim.block_size
    if sim.stores_evicted or full <= request.offloaded:
        return
    s = cache_owner(sim, request.scheduler)
    for b in range(request.offloaded, full):
        store(sim, s, _key(sim, i, b))
    if sim.store_waits:
        _wait_for(sim, i, (full - request.offloaded) * sim.host_move)
    request.offloaded = full


@part
def _wait_for(sim: SimulationState, i: int, time: int) -> None:
    """Add the time of a copy to the step being scheduled."""
    sim.scheduler_S[sim.request_N[i].scheduler].moving += time
    if sim.first_token_N[i] == NO_INDEX:
        sim.loaded_N[i].moved += time
