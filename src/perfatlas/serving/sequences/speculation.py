"""Decode steps with speculative decoding.

A step computes 1 + `draft_tokens` tokens of a decoding sequence and produces one token more than
the number of accepted drafts, up to the first rejection. Acceptance is a hash of the position, the
request and its output length, so that it does not depend on the schedule. Rejected drafts cost
their computation, and their slots in the KV cache until the next step.

Sequences advance individually, and steps are simulated one by one.

Source: vllm-project/vllm, vllm/v1/core/sched/scheduler.py, schedule() with num_lookahead_tokens and
update_from_output(), which takes rejected drafts from the computed tokens.

Each scheduler reserves slots for the tokens of a step and for some of the drafts after it; see
`decode_slots` of its policy. A sequence that a decode engine gets without its first token drafts
nothing in its first step.

Limits: All sequences draft the same number of tokens. With asynchronous scheduling, acceptance in
the previous step is known, so no step is wasted after the end of a sequence.

Shape legend: N requests, S schedulers, D positions of a draft.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from perfatlas.compiled import part
from perfatlas.serving.sequences import blocks
from perfatlas.serving.sequences.preemption import preempt
from perfatlas.serving.sequences.prefix import mixed
from perfatlas.serving.sequences.running import queue_first
from perfatlas.serving.state import NO_INDEX

if TYPE_CHECKING:
    from perfatlas.serving.state import SimulationState

DRAW_BITS = 53  # bits per draw, as in a double


@part
def tokens_produced(sim: SimulationState, i: int, output: int) -> int:
    """Return the number of tokens that a decode step of a request produces.

    Args:
        output: Output tokens so far, not all; without any, there is nothing to draft from.
    """
    if output == 0:
        return 1
    drawn = mixed(mixed(np.uint64(sim.limits.draft_seed)) + np.uint64(i))  # seeds share no draws
    draw = mixed(drawn + np.uint64(output))
    tokens = 1
    for d in range(sim.limits.draft_tokens):
        draw = mixed(draw)
        if np.int64(draw >> np.uint64(64 - DRAW_BITS)) >= sim.accepted_D[d]:
            break
        tokens += 1
    return int(min(tokens, sim.request_N[i].osl - output))


@part
def decode_steps(sim: SimulationState, i: int, output: int) -> int:
    """Return the number of decode steps until a request ends.

    Args:
        output: Output tokens so far.
    """
    if sim.limits.draft_tokens == 0:
        return int(sim.request_N[i].osl - output)
    steps = 0
    while output < sim.request_N[i].osl:
        output += tokens_produced(sim, i, output)
        steps += 1
    return steps


@part
def _decodes_next(sim: SimulationState, i: int) -> bool:
    """Return whether a running request decodes in the next step, possibly past its known end."""
    request = sim.request_N[i]
    scheduler = sim.scheduler_S[request.scheduler]
    return bool(
        i != scheduler.partial and not (sim.foresees_ends and request.finish <= scheduler.step)
    )


@part
def reserve(sim: SimulationState, s: int) -> None:
    """Allocate blocks for a step and the following drafts, in order of admission.

    The last admitted sequences are preempted while blocks are missing.
    """
    scheduler = sim.scheduler_S[s]
    i = scheduler.running_tail
    while i != NO_INDEX and sim.request_N[i].before != NO_INDEX:
        i = sim.request_N[i].before
    while i != NO_INDEX:
        request = sim.request_N[i]
        if _decodes_next(sim, i):
            tokens = request.computed + sim.decode_slots
            need = blocks.count(sim, tokens) - blocks.count(sim, request.placed)
            while need > scheduler.free:
                victim = scheduler.running_tail
                preempt(sim, victim)
                queue_first(sim, victim)
                if victim == i:
                    return
            if tokens > request.placed:
                blocks.extend(sim, i, tokens)
        i = request.after


@part
def decode_blocks(sim: SimulationState, s: int) -> int:
    """Return the blocks that the next step of all decoding sequences needs."""
    scheduler = sim.scheduler_S[s]
    if sim.limits.draft_tokens == 0:
        return int(sim.growth_SB[s, -scheduler.step % sim.limits.block_size])
    need = 0
    i = scheduler.running_tail
    while i != NO_INDEX:
        request = sim.request_N[i]
        if _decodes_next(sim, i):
            tokens = max(request.computed + sim.decode_slots, request.placed)
            need += blocks.count(sim, tokens) - blocks.count(sim, request.placed)
        i = request.before
    return int(need)


@part
def allocate_decodes(sim: SimulationState, s: int) -> None:
    """Allocate the blocks of the next step to all decoding sequences; there are enough."""
    if sim.limits.draft_tokens == 0:
        blocks.allocate_steps(sim, s, 1)
    else:
        reserve(sim, s)


@part
def advance_each(sim: SimulationState, s: int) -> None:
    """Advance all decoding sequences by the tokens of the step.

    Args:
        s: The scheduler; its step counter is after the step.
    """
    scheduler = sim.scheduler_S[s]
    fresh = scheduler.fresh
    i = scheduler.running_tail
    while i != NO_INDEX:
        request = sim.request_N[i]
        if i != scheduler.partial and fresh > 0:
            fresh -= 1
        elif i != scheduler.partial and request.finish >= scheduler.step:
            tokens = tokens_produced(sim, i, request.generated)
            request.gave = tokens
            request.generated += tokens
            request.computed += tokens
            scheduler.context += tokens
            sim.gaps_G[0] += tokens - 1  # produced at the same time
        i = request.before
