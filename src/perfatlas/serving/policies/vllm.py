"""One step of one scheduler by the rules of vLLM V1, without a look at every sequence.

Sequences past their prompts decode one token per step and have the first claim on the budget of
tokens; prompts take what is left, in chunks.

A chunk is cut short only by the end of the budget, which ends admission in that step; in later
steps the sequences before it take one token each, it takes the rest, and only a budget that
outlasts it reaches the queue. It always gets a token, since a scheduler runs no more sequences than
it has tokens.

A sequence in need of a block throws out the last admitted, possibly itself. Those thrown out come
after it, so they have not been scheduled yet, and the fewest leave that let all others go on.
Counting needs is therefore enough.

Source: vllm-project/vllm, vllm/v1/core/sched/scheduler.py, schedule() and update_from_output().

Shape legend: S schedulers, B places in a cache block.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfatlas.compiled import part
from perfatlas.serving.policies.policy import Policy
from perfatlas.serving.sequences import (
    MANY,
    admit_head,
    blocks,
    fetch,
    is_handed,
    join,
    look_below,
    places,
    queue_first,
    reserve,
    run_chunk,
    throw_out,
)
from perfatlas.serving.state import NOBODY

if TYPE_CHECKING:
    from perfatlas.serving.state import World


@part
def schedule_vllm(world: World, s: int, now: int) -> None:
    """Decide what a scheduler runs in its next step.

    Args:
        world: The simulation.
        s: The scheduler.
        now: When the step begins [ps].
    """
    lane = world.lane_S[s]
    if world.draft_tokens == 0:
        _keep_decoding(world, s)
    else:
        reserve(world, s)
    if lane.arrived > 0 and lane.preempted == 0 and lane.partial == NOBODY:
        join(world, s, world.max_num_seqs - lane.running, now)
    lane.decodes = lane.decoding
    if lane.partial != NOBODY:
        _continue_prompt(world, s)
    if lane.preempted == 0:
        _admit(world, s, now)


@part
def _keep_decoding(world: World, s: int) -> None:
    """Give decoding sequences their blocks, throwing out the last admitted while one is missing."""
    lane = world.lane_S[s]
    residue = -lane.step % world.block_size
    if world.growth_SB[s, residue] <= lane.free:
        blocks.grow(world, s, 1)
    elif world.prefix_caching:
        _grow_one_by_one(world, s, residue)
    else:
        while world.growth_SB[s, residue] > lane.free:
            preempt_last(world, s)
        blocks.grow(world, s, 1)


@part
def _grow_one_by_one(world: World, s: int, residue: int) -> None:
    """Give decoding sequences blocks in order of admission: who is early takes what is free first.

    The blocks of those thrown out are only there for those after that.
    """
    lane = world.lane_S[s]
    i = world.growers_SB[s, residue].head
    while i != NOBODY:
        before = world.preempted_N[i]
        while lane.free == 0 and world.preempted_N[i] == before:
            preempt_last(world, s)
        if world.preempted_N[i] > before:  # it was the last admitted itself
            break
        i = blocks.grow_one(world, s, i)


@part
def _continue_prompt(world: World, s: int) -> None:
    """Run the next chunk of the partly computed prompt, or throw it out."""
    lane = world.lane_S[s]
    request = world.request_N[lane.partial]
    budget = world.max_num_batched_tokens - lane.decoding * world.tokens_per_decode
    chunk = min(request.isl + request.generated - request.computed, budget)
    need = blocks.count(world, request.computed + chunk) - blocks.count(world, request.placed)
    if need > lane.free:
        preempt_last(world, s)
    else:
        run_chunk(world, lane.partial, chunk)


@part
def _admit(world: World, s: int, now: int) -> None:
    """Admit from the head of the queue until it is empty or its head does not fit."""
    lane = world.lane_S[s]
    budget = world.max_num_batched_tokens - lane.decoding * world.tokens_per_decode - lane.tokens
    while lane.waiting > 0 and budget > 0 and lane.running < world.max_num_seqs:
        i = lane.waiting_head
        request = world.request_N[i]
        total = request.isl + request.generated
        hits, idle_hits = blocks.hits(world, i)
        if is_handed(world, i):
            if blocks.count(world, places(world, i)) - hits + idle_hits > lane.free:
                break
            fetch(world, i, (hits, idle_hits), places(world, i), now)
            continue
        found = hits
        below = (0, 0)
        if world.offloads:
            below = look_below(world, i)
            found = max(hits, below[0])
        chunk = min(total - found * world.block_size, budget)
        tokens = total if world.reserve_full_isl else found * world.block_size + chunk
        if blocks.count(world, tokens) - hits + idle_hits > lane.free:
            break
        admit_head(world, i, (hits, idle_hits), now)
        if world.offloads:
            blocks.load(world, i, hits, below)
        run_chunk(world, i, chunk)
        budget -= chunk


@part
def preempt_last(world: World, s: int) -> None:
    """Throw out the last admitted; it goes to the head of the queue and starts over.

    Args:
        world: The simulation.
        s: The scheduler.
    """
    i = world.lane_S[s].running_tail
    throw_out(world, i)
    queue_first(world, i)


@part
def _steady_steps(world: World, s: int) -> int:
    """Return 1 where the head of the queue might fit later though it does not fit now.

    Where its whole prompt must fit, an evicted block that it would have found takes as much from
    the free ones as from its need. A chunk alone can start earlier in a prompt and need less.
    """
    chunk_alone = world.prefix_caching and not world.reserve_full_isl
    return 1 if chunk_alone and world.lane_S[s].waiting > 0 else MANY


@part
def _can_hold(world: World, i: int, tokens: int) -> bool:  # noqa: ARG001 - of the protocol
    """Return whether the cache holds a request: its drafts too, but never its last token."""
    return bool(blocks.count(world, tokens + 2 * world.draft_tokens - 1) <= world.kv_blocks)


VLLM: Final = Policy(
    name="vllm",
    title="vLLM",
    description=(
        "requests wait in the queues of vLLM V1 schedulers: one token budget for prompts and"
        " decodes, cache by blocks, the last admitted recomputed when none is free"
    ),
    roles=("both", "prefill", "decode"),
    supports_drafts=True,
    supports_offload=True,
    requires_chunks=True,
    shares_scheduled=True,
    reuses_unnamed=True,
    schedule=schedule_vllm,
    steady_steps=_steady_steps,
    can_hold=_can_hold,
)
