"""KV cache blocks of a scheduler: only counted, or identified if prefix caching is enabled.

Shape legend: N requests, S schedulers, B token slots of a block.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from perfatlas.compiled import part
from perfatlas.serving.sequences import prefix
from perfatlas.serving.sequences.offload import (
    Below,
    find_offloaded,
    is_offloaded,
    load_offloaded,
    prompt_key,
)
from perfatlas.serving.sequences.stages import cache_owner
from perfatlas.serving.state import NO_INDEX

if TYPE_CHECKING:
    from perfatlas.serving.state import SimulationState


class Cached(NamedTuple):
    """Leading blocks of a request that need not be computed."""

    hits: int  # On the GPU
    idle: int  # Those of them that no request references
    found: int  # On the GPU or in a tier below it
    below: Below  # In the tiers below it


NOTHING: Final = Cached(hits=0, idle=0, found=0, below=Below(0, 0, 0))


@part
def count(sim: SimulationState, tokens: int) -> int:
    """Return the number of blocks for tokens."""
    return int((tokens + sim.limits.block_size - 1) // sim.limits.block_size)


@part
def reserved_at_end(sim: SimulationState, i: int) -> int:
    """Return the blocks a request needs until its end, for engines that reserve them.

    Source: NVIDIA/TensorRT-LLM, cpp/tensorrt_llm/batch_manager/kvCacheManager.cpp,
    getRemainingBlocksToCompletion(): prompt and all new tokens, although the last is never stored,
    and the drafts of a step.
    """
    return int(count(sim, sim.request_N[i].isl + sim.request_N[i].osl + sim.limits.draft_tokens))


@part
def allocate_steps(sim: SimulationState, s: int, steps: int) -> None:
    """Allocate blocks to decoding sequences for the next steps; there are enough."""
    scheduler = sim.scheduler_S[s]
    size = sim.limits.block_size
    if sim.limits.prefix_caching:
        prefix.grow_named(sim, s, steps)
        return
    scheduler.free -= steps // size * scheduler.decoding
    for j in range(steps % size):
        scheduler.free -= sim.growth_SB[s, -(scheduler.step + j) % size]


@part
def grow_one(sim: SimulationState, s: int, i: int) -> int:
    """Allocate a block to a decoding sequence for the next step; return the next one in need."""
    return int(prefix.grow_one(sim, s, i))


@part
def steps_with_blocks(sim: SimulationState, s: int, most: int) -> int:
    """Return how many further steps, up to `most`, have sufficient blocks."""
    scheduler = sim.scheduler_S[s]
    size = sim.limits.block_size
    if scheduler.decoding * ((most + size - 1) // size) <= scheduler.free:
        return most
    steps = scheduler.free // scheduler.decoding * size
    spare = scheduler.free % scheduler.decoding
    while steps < most:
        spare -= sim.growth_SB[s, -(scheduler.step + 1 + steps) % size]
        if spare < 0:
            break
        steps += 1
    return int(min(steps, most))


@part
def find_cached(sim: SimulationState, i: int) -> Cached:
    """Return the leading blocks of a request in the prefix cache and in the tiers below the GPU."""
    hits = 0
    idle = 0
    if sim.limits.prefix_caching:
        hits, idle = prefix.find_prefix(sim, i)
    below = Below(0, 0, 0)
    if sim.offloads:
        below = find_offloaded(sim, i, hits)
    return Cached(hits, idle, max(hits, below.end), below)


@part
def holds(sim: SimulationState, i: int, b: int) -> bool:
    """Return whether a scheduler has a block of a request's prompt on its GPUs or in its tiers."""
    request = sim.request_N[i]
    if b >= (request.isl + request.generated - 1) // sim.limits.block_size:
        return False
    s = cache_owner(sim, request.scheduler)
    key = prompt_key(sim, i, b)
    return bool(prefix.find_block(sim, s, key) != NO_INDEX or is_offloaded(sim, s, key))


@part
def reference_cached(sim: SimulationState, i: int, hits: int) -> None:
    """Reference the cached blocks of an admitted request."""
    if sim.limits.prefix_caching:
        prefix.share_prefix(sim, i, hits)
    request = sim.request_N[i]
    request.computed = hits * sim.limits.block_size
    request.placed = request.computed


@part
def load_tiers(sim: SimulationState, i: int, cached: Cached, now: int) -> None:
    """Load blocks of an admitted request from tiers below the GPU; there are enough free blocks."""
    load_offloaded(sim, i, cached.hits, cached.below, now)
    if cached.found > cached.hits:
        extend(sim, i, cached.found * sim.limits.block_size)
        sim.request_N[i].computed = cached.found * sim.limits.block_size


@part
def extend(sim: SimulationState, i: int, tokens: int) -> None:
    """Allocate blocks for the first tokens of a request in prefill; there are enough.

    Args:
        tokens: Tokens that need a slot; `placed` of them have one.
    """
    request = sim.request_N[i]
    if sim.limits.prefix_caching:
        prefix.extend_named(sim, i, tokens)
    else:
        scheduler = sim.scheduler_S[request.scheduler]
        scheduler.free -= count(sim, tokens) - count(sim, request.placed)
    request.placed = tokens


@part
def release(sim: SimulationState, i: int) -> None:
    """Free the blocks of a request."""
    request = sim.request_N[i]
    scheduler = sim.scheduler_S[request.scheduler]
    before = scheduler.free
    if sim.limits.prefix_caching:
        prefix.release_named(sim, i)
    else:
        scheduler.free += count(sim, request.placed)
    scheduler.spare += scheduler.free - before
    request.placed = 0


@part
def cache_prompt(sim: SimulationState, i: int) -> None:
    """Register the full blocks of a finished prompt in the prefix cache, if not done yet."""
    request = sim.request_N[i]
    if sim.limits.prefix_caching and not sim.shares_scheduled and request.placed > 0:
        prefix.register(sim, i, request.computed)


@part
def cache_output(sim: SimulationState, i: int) -> None:
    """Register the full blocks of a request's output for its next turn, if there is one.

    Where evicted blocks are stored, those that no request can find take room too.
    """
    found = sim.limits.stores_evicted or sim.request_N[i].next_turn_prefix_owner != NO_INDEX
    if sim.limits.prefix_caching and found:
        prefix.hash_output(sim, i)
    elif sim.limits.prefix_caching:
        prefix.mark_output_hashed(sim, i)


@part
def cache_tokens(sim: SimulationState, i: int, tokens: int) -> None:
    """Register the full blocks of a request's first tokens, including its output."""
    if sim.limits.prefix_caching:
        prefix.register(sim, i, tokens)


@part
def join_growth(sim: SimulationState, i: int) -> None:
    """Add a request that starts to decode to the group that needs blocks in the same steps."""
    residue = _residue(sim, i)
    sim.growth_SB[sim.request_N[i].scheduler, residue] += 1
    if sim.limits.prefix_caching:
        prefix.join_growers(sim, i, residue)


@part
def leave_growth(sim: SimulationState, i: int) -> None:
    """Remove a request that stops decoding from its group."""
    residue = _residue(sim, i)
    sim.growth_SB[sim.request_N[i].scheduler, residue] -= 1
    if sim.limits.prefix_caching:
        prefix.leave_growers(sim, i, residue)


@part
def _residue(sim: SimulationState, i: int) -> int:
    """Return a decoding request's context less its scheduler's steps, modulo a block's size."""
    request = sim.request_N[i]
    return int((request.isl + request.osl - 1 - request.finish) % sim.limits.block_size)
