"""The prefix cache of a scheduler.

Free blocks form a queue: allocated from the head and freed to the tail, a sequence's last block
first. A block keeps its hash until it is allocated again, so allocation evicts the least recently
used block. With `reuses_unnamed`, blocks without a hash are freed to the head, which is a stack.
Blocks that were never allocated come between the two and have no entry, so that tables take the
memory of what a simulation touches. Equal blocks computed at the same time are not merged; a lookup
finds the oldest.

The hash of block b of a prompt combines b with the chained hash of the traffic's block that
contains its last token: two prompts share it exactly if they are equal up to there according to the
traffic. Blocks of one hash have consecutive keys, so that their buckets are neighbours in memory:
with buckets in random order, most of the time of a simulation goes into cache misses. Blocks with
generated tokens are found only by their own request after a preemption. When it finishes, they get
the hashes of the next turn's prompt, if that contains the output.

Source: vllm-project/vllm, vllm/v1/core/block_pool.py and kv_cache_utils.py; from 0.24 on,
BlockPool.free_blocks() puts blocks without a hash first.

Shape legend: N requests, S schedulers, H sequences of a scheduler, B token slots of a block, K KV
blocks of a scheduler, U buckets of its hash table, L KV blocks of the longest request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from perfatlas.compiled import part
from perfatlas.serving.config import DECODE
from perfatlas.serving.sequences.stages import cache_owner
from perfatlas.serving.sequences.tier_blocks import store
from perfatlas.serving.state import LOCAL, NO_INDEX

if TYPE_CHECKING:
    from perfatlas.serving.state import SimulationState

GENERATED_SALT = (
    0x5851F42D4C957F2D  # separates blocks with generated tokens from those of the traffic
)
FACTORS = (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)  # splitmix64


@part
def find_prefix(sim: SimulationState, i: int) -> tuple[int, int]:
    """Return the leading cached blocks of a request, and how many of them are unreferenced.

    Their indices are stored in `cached_L`. At least one token is always left to compute.
    """
    request = sim.request_N[i]
    s = cache_owner(sim, request.scheduler)
    idle = 0
    most = (request.isl + request.generated - 1) // sim.limits.block_size
    for b in range(most):
        block = find_block(sim, s, block_key(sim, i, b))
        if block == NO_INDEX:
            return b, idle
        sim.cached_L[b] = block
        if sim.block_SK[s, block].references == 0:
            idle += 1
    return most, idle


@part
def find_block(sim: SimulationState, s: int, key: int) -> int:
    """Return the index of a cached block of a scheduler, NO_INDEX if its GPUs do not have it."""
    block = sim.bucket_SU[s, key & (sim.bucket_SU.shape[1] - 1)].head - 1
    while block != NO_INDEX and sim.block_SK[s, block].key != key:
        block = sim.block_SK[s, block].chain_after
    return int(block)


@part
def share_prefix(sim: SimulationState, i: int, hits: int) -> None:
    """Assign a block table row with the cached blocks to an admitted request.

    Args:
        hits: Number of blocks in `cached_L`.
    """
    request = sim.request_N[i]
    s = cache_owner(sim, request.scheduler)
    scheduler = sim.scheduler_S[s]
    scheduler.spare_rows -= 1
    request.row = sim.spare_SH[s, scheduler.spare_rows]
    request.registered = hits
    for b in range(hits):
        block = sim.cached_L[b]
        row = sim.block_SK[s, block]
        if row.references == 0:
            _leave_free(sim, request.scheduler, block)
        row.references += 1
        sim.table_SHL[s, request.row, b] = block


@part
def extend_named(sim: SimulationState, i: int, tokens: int) -> None:
    """Allocate blocks for the first tokens of a request in prefill.

    With `shares_scheduled`, full blocks are cached at once, even for others in the same step.
    """
    request = sim.request_N[i]
    s = cache_owner(sim, request.scheduler)
    size = sim.limits.block_size
    for b in range((request.placed + size - 1) // size, (tokens + size - 1) // size):
        sim.table_SHL[s, request.row, b] = _take(sim, request.scheduler)
    here = sim.role != DECODE or sim.travel_N[i].stage == LOCAL
    # excluding drafts and KV caches in transfer
    if sim.shares_scheduled and here and tokens <= request.isl + request.generated:
        register(sim, i, tokens)


@part
def grow_one(sim: SimulationState, s: int, i: int) -> int:
    """Allocate a block to a decoding sequence for the next step; return the next one in need."""
    request = sim.request_N[i]
    b = (request.isl + request.osl - 1 - (request.finish - sim.scheduler_S[s].step)) // (
        sim.limits.block_size
    )
    sim.table_SHL[cache_owner(sim, s), request.row, b] = _take(sim, s)
    return int(request.growth_after)


@part
def grow_named(sim: SimulationState, s: int, steps: int) -> None:
    """Allocate blocks to decoding sequences for the next steps, in order of admission."""
    scheduler = sim.scheduler_S[s]
    size = sim.limits.block_size
    for step in range(scheduler.step, scheduler.step + steps):
        i = sim.growers_SB[s, -step % size].head
        while i != NO_INDEX:
            request = sim.request_N[i]
            b = (request.isl + request.osl - 1 - (request.finish - step)) // size
            sim.table_SHL[cache_owner(sim, s), request.row, b] = _take(sim, s)
            i = request.growth_after


@part
def release_named(sim: SimulationState, i: int) -> None:
    """Free the blocks of a request, the last one first, and its row.

    Partial blocks, and those whose tokens are not known yet, have no hash.
    """
    request = sim.request_N[i]
    s = cache_owner(sim, request.scheduler)
    scheduler = sim.scheduler_S[s]
    size = sim.limits.block_size
    for b in range((request.placed + size - 1) // size - 1, -1, -1):
        block = sim.table_SHL[s, request.row, b]
        row = sim.block_SK[s, block]
        row.references -= 1
        if row.references == 0 and sim.reuses_unnamed and b >= request.registered:
            _join_free_first(sim, request.scheduler, block)
        elif row.references == 0:
            _join_free(sim, request.scheduler, block)
    sim.spare_SH[s, scheduler.spare_rows] = request.row
    scheduler.spare_rows += 1


@part
def register(sim: SimulationState, i: int, tokens: int) -> None:
    """Register the full blocks of a request's first tokens in the prefix cache."""
    request = sim.request_N[i]
    s = cache_owner(sim, request.scheduler)
    full = tokens // sim.limits.block_size
    for b in range(request.registered, full):
        key = block_key(sim, i, b)
        block = sim.table_SHL[s, request.row, b]
        row = sim.block_SK[s, block]
        bucket = sim.bucket_SU[s, key & (sim.bucket_SU.shape[1] - 1)]
        row.key = key
        row.hashed = 1
        row.chain_before = bucket.tail - 1
        row.chain_after = NO_INDEX
        if bucket.tail == 0:
            bucket.head = block + 1
        else:
            sim.block_SK[s, bucket.tail - 1].chain_after = block
        bucket.tail = block + 1
    request.registered = max(request.registered, full)


@part
def hash_output(sim: SimulationState, i: int) -> None:
    """Hash the full blocks of a request's output as in the prompt of its next turn."""
    request = sim.request_N[i]
    s = cache_owner(sim, request.scheduler)
    first = request.isl // sim.limits.block_size
    for b in range(first, request.registered):
        block = sim.table_SHL[s, request.row, b]
        if sim.block_SK[s, block].hashed:
            _forget(sim, s, block)
    request.registered = min(request.registered, first)
    register(sim, i, request.isl + request.osl - 1)


@part
def mark_output_hashed(sim: SimulationState, i: int) -> None:
    """Mark the full blocks of a request's output as hashed, although no request can find them."""
    request = sim.request_N[i]
    request.registered = max(
        request.registered, (request.isl + request.osl - 1) // sim.limits.block_size
    )


@part
def _forget(sim: SimulationState, s: int, block: int) -> None:
    """Remove a block from the hash table."""
    row = sim.block_SK[s, block]
    bucket = sim.bucket_SU[s, row.key & (sim.bucket_SU.shape[1] - 1)]
    if row.chain_before == NO_INDEX:
        bucket.head = row.chain_after + 1
    else:
        sim.block_SK[s, row.chain_before].chain_after = row.chain_after
    if row.chain_after == NO_INDEX:
        bucket.tail = row.chain_before + 1
    else:
        sim.block_SK[s, row.chain_after].chain_before = row.chain_before
    row.hashed = 0


@part
def _take(sim: SimulationState, s: int) -> int:
    """Allocate the least recently used free block and evict its content."""
    owner = cache_owner(sim, s)
    cache = sim.scheduler_S[owner]
    if cache.unnamed_head != NO_INDEX:
        block = cache.unnamed_head
        cache.unnamed_head = sim.block_SK[owner, block].after
        sim.scheduler_S[s].free -= 1
    elif cache.touched < sim.limits.kv_blocks:
        block = cache.touched
        cache.touched += 1
        sim.scheduler_S[s].free -= 1
    else:
        block = cache.free_head
        _leave_free(sim, s, block)
    row = sim.block_SK[owner, block]
    if row.hashed:
        if sim.limits.stores_evicted:
            store(sim, owner, row.key)
        _forget(sim, owner, block)
    row.references = 1
    return int(block)


@part
def _leave_free(sim: SimulationState, s: int, block: int) -> None:
    """Remove a block from the end of the free queue, where those with a hash are."""
    owner = cache_owner(sim, s)
    scheduler = sim.scheduler_S[owner]
    row = sim.block_SK[owner, block]
    if row.before == NO_INDEX:
        scheduler.free_head = row.after
    else:
        sim.block_SK[owner, row.before].after = row.after
    if row.after == NO_INDEX:
        scheduler.free_tail = row.before
    else:
        sim.block_SK[owner, row.after].before = row.before
    sim.scheduler_S[s].free -= 1


@part
def _join_free(sim: SimulationState, s: int, block: int) -> None:
    """Add a block to the tail of the free queue."""
    owner = cache_owner(sim, s)
    scheduler = sim.scheduler_S[owner]
    row = sim.block_SK[owner, block]
    row.before = scheduler.free_tail
    row.after = NO_INDEX
    if scheduler.free_tail == NO_INDEX:
        scheduler.free_head = block
    else:
        sim.block_SK[owner, scheduler.free_tail].after = block
    scheduler.free_tail = block
    sim.scheduler_S[s].free += 1


@part
def _join_free_first(sim: SimulationState, s: int, block: int) -> None:
    """Add a block without a hash to the head of the free queue."""
    owner = cache_owner(sim, s)
    scheduler = sim.scheduler_S[owner]
    sim.block_SK[owner, block].after = scheduler.unnamed_head
    scheduler.unnamed_head = block
    sim.scheduler_S[s].free += 1


@part
def join_growers(sim: SimulationState, i: int, residue: int) -> None:
    """Append a request to the group that needs blocks in the same steps."""
    request = sim.request_N[i]
    line = sim.growers_SB[request.scheduler, residue]
    request.growth_before = line.tail
    request.growth_after = NO_INDEX
    if line.tail == NO_INDEX:
        line.head = i
    else:
        sim.request_N[line.tail].growth_after = i
    line.tail = i


@part
def leave_growers(sim: SimulationState, i: int, residue: int) -> None:
    """Remove a request from the group that needs blocks in the same steps."""
    request = sim.request_N[i]
    line = sim.growers_SB[request.scheduler, residue]
    if request.growth_before == NO_INDEX:
        line.head = request.growth_after
    else:
        sim.request_N[request.growth_before].growth_after = request.growth_after
    if request.growth_after == NO_INDEX:
        line.tail = request.growth_before
    else:
        sim.request_N[request.growth_after].growth_before = request.growth_before


@part
def block_key(sim: SimulationState, i: int, b: int) -> int:
    """Return the hash of block b of a request."""
    end = (b + 1) * sim.limits.block_size
    seed = np.uint64(i) ^ np.uint64(GENERATED_SALT)
    request = sim.request_N[i]
    source = NO_INDEX  # request whose prompt contains the block
    if end <= request.isl:
        source = i
    elif request.next_turn_prefix_owner != NO_INDEX and sim.finished_N[i] != NO_INDEX:
        source = request.next_turn_prefix_owner
    if (
        source != NO_INDEX
        and sim.requests.hash_block > 0
        and sim.requests.hash_first_N[source] >= 0
    ):
        place = (end - 1) // sim.requests.hash_block
        if place < sim.request_N[source].isl // sim.requests.hash_block:
            seed = np.uint64(sim.requests.hash_H[sim.requests.hash_first_N[source] + place])
        else:
            seed = np.uint64(sim.requests.tail_N[source])
    return int(np.int64(mixed(seed) >> np.uint64(2)) + b)


@part
def mixed(value: np.uint64) -> np.uint64:
    """Return 64 pseudo-random bits."""
    z = value + np.uint64(FACTORS[0])
    z = (z ^ (z >> np.uint64(30))) * np.uint64(FACTORS[1])
    z = (z ^ (z >> np.uint64(27))) * np.uint64(FACTORS[2])
    return z ^ (z >> np.uint64(31))
