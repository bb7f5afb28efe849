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

from typing import TYPE_CHECKING

from perfatlas.compiled import part
from perfatlas.serving.sequences import (
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
    while world.growth_SB[s, residue] > lane.free:
        preempt_last(world, s)
    blocks.grow(world, s, 1)


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
            fetch(world, i, (hits, idle_hits), now)
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
