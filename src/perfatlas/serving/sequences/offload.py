"""KV cache offloading: blocks in host memory, on an SSD, and in a remote pool that replicas share.

Every full block of a prompt is written through to all tiers when the step that computes it is
scheduled, unless it was found there at admission. With `stores_evicted`, blocks enter host memory
when the prefix cache of the GPU evicts them, and each next tier when the one above it does. A tier
holds a fixed number of blocks and evicts the least recently used one.

When a request is admitted, its leading blocks are looked up in host memory, and from the first miss
on in each next tier. Hits become most recently used, the last block first, so that the start of a
prompt is evicted after its end. Hits beyond the blocks found on the GPU are loaded: they are
allocated GPU blocks and enter its prefix cache with the rest of the prompt; those from lower tiers
are also put into host memory. Loads from the pool wait for those of other replicas over its links.
The step that admits a request waits for its loads, or, with `load_layers`, computes a layer while
the next one is loaded. With `store_waits`, the step that computes blocks waits until they are
stored. Output is stored only where blocks are stored as they are evicted. Host memory and the SSD
of a replica that fails or stops are lost: their index is in its process. Decode engines have none.

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
Nothing is pinned: a prompt larger than a tier evicts its own start. Writing to the SSD or the pool,
and storing what no step waits for, takes no time and no bandwidth from loads. If a whole prompt is
found, its last block is recomputed, whereas LMCache recomputes its last token.

Shape legend: N requests, S schedulers, W tiers, as in `tier_blocks`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from perfatlas.compiled import part
from perfatlas.serving.sequences.prefix import block_key
from perfatlas.serving.sequences.stages import cache_owner
from perfatlas.serving.sequences.tier_blocks import (
    HOST,
    NO_KEY,
    REMOTE,
    SSD,
    add,
    find,
    lower,
    renew,
    store,
    tier_of,
)
from perfatlas.serving.state import NO_INDEX

if TYPE_CHECKING:
    from perfatlas.serving.state import SimulationState

prompt_key = part(block_key)


class Below(NamedTuple):
    """Leading blocks of a request up to which tiers have them, one tier after the other."""

    host: int  # In host memory
    ssd: int  # There or on the SSD
    end: int  # In any tier


@part
def find_offloaded(sim: SimulationState, i: int, hits: int) -> Below:
    """Return the leading blocks of a request in the tiers.

    Args:
        i: The request, waiting.
        hits: Its leading blocks on the GPU, after which those follow that the GPU has evicted.
    """
    b = hits if sim.limits.stores_evicted else 0
    host = _found_in(sim, i, HOST, b)
    ssd = _found_in(sim, i, SSD, host)
    return Below(host, ssd, _found_in(sim, i, REMOTE, ssd))


@part
def is_offloaded(sim: SimulationState, s: int, key: int) -> bool:
    """Return whether a block is in a tier that a scheduler reads."""
    for t in range(REMOTE + 1 if sim.offloads else 0):
        if find(sim, tier_of(sim, s, t), key) != NO_INDEX:
            return True
    return False


@part
def _found_in(sim: SimulationState, i: int, t: int, b: int) -> int:
    """Return the end of the blocks from one on that a tier has."""
    request = sim.request_N[i]
    w = tier_of(sim, cache_owner(sim, request.scheduler), t)
    if sim.tier_W[w].capacity == 0:
        return b
    most = (request.isl + request.generated - 1) // sim.limits.block_size
    while b < most and find(sim, w, prompt_key(sim, i, b)) != NO_INDEX:
        b += 1
    return b


@part
def load_offloaded(sim: SimulationState, i: int, hits: int, below: Below, now: int) -> None:
    """Refresh the hits of an admitted request in the tiers, and load those not on the GPU.

    Args:
        now: Start of the step [ps].
    """
    request = sim.request_N[i]
    scheduler = sim.scheduler_S[request.scheduler]
    s = cache_owner(sim, request.scheduler)
    first = hits if sim.limits.stores_evicted else 0
    loaded = sim.loaded_N[i]
    moved = 0
    for t in range(REMOTE + 1):
        end = below.end
        if t == HOST:
            end = below.host
        elif t == SSD:
            end = below.ssd
        w = tier_of(sim, s, t)
        for b in range(end - 1, first - 1, -1):
            renew(sim, w, find(sim, w, prompt_key(sim, i, b)))
        blocks = max(end - max(first, hits), 0)
        sim.tier_W[w].loaded += blocks
        if t == SSD:
            moved += blocks * sim.limits.ssd_move
        elif t == REMOTE and blocks > 0:
            moved += _fetch(sim, w, blocks, now + scheduler.moving + moved)
        moved += blocks * sim.limits.host_move
        if sim.preempted_N[i] == 0:
            tokens = blocks * sim.limits.block_size
            sim.cached_N[i] += tokens
            if t == HOST:
                loaded.host = tokens
            elif t == SSD:
                loaded.ssd = tokens
            else:
                loaded.remote = tokens
        first = max(first, end)
    # all have been read before what host memory evicts for them enters the tiers below
    for b in range(max(below.host, hits), below.end):
        _raise(sim, s, prompt_key(sim, i, b))
    request.offloaded = below.end
    _wait_for(sim, i, moved)


@part
def _raise(sim: SimulationState, s: int, key: int) -> None:
    """Put a block that was loaded from a lower tier into host memory."""
    evicted = add(sim, tier_of(sim, s, HOST), key)
    if sim.limits.stores_evicted and evicted != NO_KEY:
        lower(sim, s, SSD, evicted)


@part
def _fetch(sim: SimulationState, w: int, blocks: int, now: int) -> int:
    """Return the time until blocks have come from the remote pool, whose links all replicas share.

    Args:
        now: Start of the load [ps].
    """
    tier = sim.tier_W[w]
    tier.free_at = max(tier.free_at, now) + blocks * sim.limits.remote_share
    return int(max(blocks * sim.limits.remote_move, tier.free_at - now) + sim.limits.remote_latency)


@part
def offload_prompt(sim: SimulationState, i: int, tokens: int) -> None:
    """Write through the full blocks of a prompt's first tokens that are not in the tiers yet."""
    request = sim.request_N[i]
    full = min(tokens, request.isl) // sim.limits.block_size
    if sim.limits.stores_evicted or full <= request.offloaded:
        return
    s = cache_owner(sim, request.scheduler)
    for b in range(request.offloaded, full):
        store(sim, s, prompt_key(sim, i, b))
    if sim.limits.store_waits:
        _wait_for(sim, i, (full - request.offloaded) * sim.limits.host_move)
    request.offloaded = full


@part
def _wait_for(sim: SimulationState, i: int, time: int) -> None:
    """Add the time of a copy to the step being scheduled."""
    sim.scheduler_S[sim.request_N[i].scheduler].moving += time
    if sim.first_token_N[i] == NO_INDEX:
        sim.loaded_N[i].moved += time
