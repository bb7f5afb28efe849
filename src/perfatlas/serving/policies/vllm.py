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
from perfatlas.serving.policies.policy import BatchingPolicy
from perfatlas.serving.sequences import (
    UNLIMITED_STEPS,
    admit_head,
    blocks,
    is_handed,
    join,
    preempt,
    queue_first,
    reserve,
    run_chunk,
    start_transfer,
    tokens_to_allocate,
)
from perfatlas.serving.state import NO_INDEX

if TYPE_CHECKING:
    from perfatlas.serving.state import SimulationState


@part
def schedule_vllm(sim: SimulationState, s: int, now: int) -> None:
    """Schedule the next step.

    Args:
        now: Start of the step [ps].
    """
    scheduler = sim.scheduler_S[s]
    if sim.limits.draft_tokens == 0:  # the last admitted is preempted while a block is missing
        residue = -scheduler.step % sim.limits.block_size
        if sim.growth_SB[s, residue] <= scheduler.free:
            blocks.allocate_steps(sim, s, 1)
        elif sim.limits.prefix_caching:
            _grow_each(sim, s, residue)
        else:
            while sim.growth_SB[s, residue] > scheduler.free:
                preempt_last(sim, s)
            blocks.allocate_steps(sim, s, 1)
    else:
        reserve(sim, s)
    if scheduler.arrived > 0 and scheduler.preempted == 0 and scheduler.partial == NO_INDEX:
        join(sim, s, sim.limits.max_num_seqs - scheduler.running, now)
    scheduler.decodes = scheduler.decoding
    if scheduler.partial != NO_INDEX:
        request = sim.request_N[scheduler.partial]
        budget = (
            sim.limits.max_num_batched_tokens - scheduler.decoding * sim.prices.tokens_per_decode
        )
        chunk = min(request.isl + request.generated - request.computed, budget)
        need = blocks.count(sim, request.computed + chunk) - blocks.count(sim, request.placed)
        if need > scheduler.free:
            preempt_last(sim, s)
        else:
            run_chunk(sim, scheduler.partial, chunk)
    if scheduler.preempted == 0:
        _admit(sim, s, now)


@part
def _grow_each(sim: SimulationState, s: int, residue: int) -> None:
    """Allocate blocks to decoding sequences in order of admission.

    The blocks of preempted sequences are available only to later sequences.
    """
    scheduler = sim.scheduler_S[s]
    i = sim.growers_SB[s, residue].head
    while i != NO_INDEX:
        before = sim.preempted_N[i]
        while scheduler.free == 0 and sim.preempted_N[i] == before:
            preempt_last(sim, s)
        if sim.preempted_N[i] > before:  # it preempted itself
            break
        i = blocks.grow_one(sim, s, i)


@part
def _admit(sim: SimulationState, s: int, now: int) -> None:
    """Admit from the head of the queue until it is empty or its head does not fit."""
    scheduler = sim.scheduler_S[s]
    budget = (
        sim.limits.max_num_batched_tokens
        - scheduler.decoding * sim.prices.tokens_per_decode
        - scheduler.tokens
    )
    while scheduler.waiting > 0 and budget > 0 and _has_slot(sim, s):
        i = scheduler.waiting_head
        request = sim.request_N[i]
        total = request.isl + request.generated
        cached = blocks.find_cached(sim, i)
        room = scheduler.free + cached.hits - cached.idle
        if is_handed(sim, i):
            if blocks.count(sim, tokens_to_allocate(sim, i)) > room:
                break
            start_transfer(sim, i, cached, tokens_to_allocate(sim, i), now)
            continue
        computed = cached.found * sim.limits.block_size
        chunk = min(total - computed, budget)
        tokens = total if sim.limits.reserve_full_isl else computed + chunk
        if blocks.count(sim, tokens) > room:
            break
        admit_head(sim, i, cached, now)
        run_chunk(sim, i, chunk)
        budget -= chunk


@part
def _has_slot(sim: SimulationState, s: int) -> bool:
    """Return whether another sequence may run, with those of other batches in flight."""
    scheduler = sim.scheduler_S[s]
    return bool(scheduler.running + scheduler.elsewhere < sim.limits.max_num_seqs)


@part
def preempt_last(sim: SimulationState, s: int) -> None:
    """Preempt the last admitted sequence; it restarts from the head of the queue."""
    i = sim.scheduler_S[s].running_tail
    preempt(sim, i)
    queue_first(sim, i)


@part
def _steady_steps(sim: SimulationState, s: int) -> int:
    """Return 1 if the head of the queue might fit later although it does not fit now.

    If its whole prompt must fit, evicting a block of its cached prefix does not change what is
    missing. If only a chunk must fit, the chunk can start earlier in the prompt and need less.
    """
    chunk_alone = sim.limits.prefix_caching and not sim.limits.reserve_full_isl
    return 1 if chunk_alone and sim.scheduler_S[s].waiting > 0 else UNLIMITED_STEPS


@part
def _can_hold(sim: SimulationState, i: int, tokens: int) -> bool:  # noqa: ARG001 - part of the protocol
    """Return whether the KV cache holds a request, with drafts but without its last token."""
    return bool(blocks.count(sim, tokens + sim.decode_slots - 2) <= sim.limits.kv_blocks)


def _decode_slots(drafts: int, ahead: bool) -> int:  # noqa: ARG001, FBT001 - part of the protocol
    """Return the slots of a step and of the next drafts (num_lookahead_tokens)."""
    return 1 + 2 * drafts


VLLM: Final = BatchingPolicy(
    name="vllm",
    title="vLLM",
    description=(
        "requests are scheduled as in vLLM V1: one token budget for prefills and decodes, KV"
        " cache in blocks, the last admitted request preempted and recomputed when none is free"
    ),
    roles=("both", "prefill", "decode"),
    decode_slots=_decode_slots,
    requires_chunks=True,
    shares_scheduled=True,
    overlaps_chunks=True,
    reuses_unnamed=True,
    schedule=schedule_vllm,
    steady_steps=_steady_steps,
    can_hold=_can_hold,
)
