"""The vLLM V1 scheduling policy, without visiting every sequence in each step.

Sequences past their prompts decode one token per step and take the token budget first; prompts take
the rest, in chunks.

A chunk is truncated only by the end of the budget, which ends admission in that step. In later
steps, the sequences before it take one token each, it takes the rest, and requests are admitted
only from what remains. It always gets a token, since the budget is at least the number of running
sequences.

A sequence that needs a block preempts the last admitted one, possibly itself. Preempted sequences
come after it and are not scheduled yet, so the minimum number that lets all others continue is
preempted. Counting the needed blocks is therefore sufficient.

Source: vllm-project/vllm, vllm/v1/core/sched/scheduler.py, schedule() and update_from_output().

Shape legend: S schedulers, B token slots of a block.
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
    """Schedule the next step.

    Args:
        world: The simulation.
        s: The scheduler.
        now: Start of the step [ps].
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
    """Allocate blocks to decoding sequences, preempting the last admitted while one is missing."""
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
    """Allocate blocks to decoding sequences in order of admission.

    The blocks of preempted sequences are available only to later sequences.
    """
    lane = world.lane_S[s]
    i = world.growers_SB[s, residue].head
    while i != NOBODY:
        before = world.preempted_N[i]
        while lane.free == 0 and world.preempted_N[i] == before:
            preempt_last(world, s)
        if world.preempted_N[i] > before:  # it preempted itself
            break
        i = blocks.grow_one(world, s, i)


@part
def _continue_prompt(world: World, s: int) -> None:
    """Run the next chunk of the partially computed prompt, or preempt it."""
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
    """Preempt the last admitted sequence; it restarts from the head of the queue.

    Args:
        world: The simulation.
        s: The scheduler.
    """
    i = world.lane_S[s].running_tail
    throw_out(world, i)
    queue_first(world, i)


@part
def _steady_steps(world: World, s: int) -> int:
    """Return 1 if the head of the queue might fit later although it does not fit now.

    If its whole prompt must fit, evicting a block of its cached prefix does not change what is
    missing. If only a chunk must fit, the chunk can start earlier in the prompt and need less.
    """
    chunk_alone = world.prefix_caching and not world.reserve_full_isl
    return 1 if chunk_alone and world.lane_S[s].waiting > 0 else MANY


@part
def _can_hold(world: World, i: int, tokens: int) -> bool:  # noqa: ARG001 - part of the protocol
    """Return whether the KV cache holds a request, with drafts but without its last token."""
    return bool(blocks.count(world, tokens + 2 * world.draft_tokens - 1) <= world.kv_blocks)


VLLM: Final = Policy(
    name="vllm",
    title="vLLM",
    description=(
        "requests are scheduled as in vLLM V1: one token budget for prefills and decodes, KV"
        " cache in blocks, the last admitted request preempted and recomputed when none is free"
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
