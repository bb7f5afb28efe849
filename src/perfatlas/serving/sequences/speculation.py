"""Decode steps with drafted tokens: a sequence computes some and keeps those that are accepted.

A step computes 1 + `draft_tokens` tokens of a sequence that decodes and gives one token more than
it accepts drafts; the first rejected draft ends it. Whether a draft is accepted is drawn from its
position, the request and how far its output is, so that every schedule accepts the same. Drafts
that are rejected cost their computation, and their places in the cache until the next step.

Sequences advance by themselves here, and steps are taken one by one.

Source: vllm-project/vllm, vllm/v1/core/sched/scheduler.py, schedule() with num_lookahead_tokens and
update_from_output(), which takes rejected drafts from the computed tokens.

Limits: rules of vLLM. All sequences draft equally much, from their first decode step on. Scheduled
ahead, a step knows what the one before it accepts, so that none is wasted after an end.

Shape legend: N requests, S schedulers, D positions of a draft.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from perfatlas.compiled import part
from perfatlas.serving.sequences import blocks
from perfatlas.serving.sequences.preemption import throw_out
from perfatlas.serving.sequences.prefix import mixed
from perfatlas.serving.sequences.running import queue_first
from perfatlas.serving.state import NOBODY

if TYPE_CHECKING:
    from perfatlas.serving.state import World

DRAW_BITS = 53  # of a draw, as many as a float has


@part
def given(world: World, i: int, output: int) -> int:
    """Return how many tokens a decode step of a request gives.

    Args:
        world: The simulation.
        i: The request.
        output: Tokens it has given, at least 1 and not all.
    """
    drawn = mixed(mixed(np.uint64(world.draft_seed)) + np.uint64(i))  # seeds share no draws
    draw = mixed(drawn + np.uint64(output))
    tokens = 1
    for d in range(world.draft_tokens):
        draw = mixed(draw)
        if np.int64(draw >> np.uint64(64 - DRAW_BITS)) >= world.accepted_D[d]:
            break
        tokens += 1
    return int(min(tokens, world.request_N[i].osl - output))


@part
def decode_steps(world: World, i: int, output: int) -> int:
    """Return how many decode steps a request needs to its end.

    Args:
        world: The simulation.
        i: The request.
        output: Tokens it has given, at least 1.
    """
    steps = 0
    while output < world.request_N[i].osl:
        output += given(world, i, output)
        steps += 1
    return steps


@part
def reserve(world: World, s: int) -> None:
    """Give sequences the blocks of a step and of the drafts after it, in order of admission.

    The last admitted are thrown out while one is missing.

    Args:
        world: The simulation.
        s: The scheduler.
    """
    lane = world.lane_S[s]
    i = lane.running_tail
    while i != NOBODY and world.request_N[i].before != NOBODY:
        i = world.request_N[i].before
    while i != NOBODY:
        request = world.request_N[i]
        if i != lane.partial and request.finish > lane.step:
            tokens = request.computed + 1 + 2 * world.draft_tokens
            need = blocks.count(world, tokens) - blocks.count(world, request.placed)
            while need > lane.free:
                victim = lane.running_tail
                throw_out(world, victim)
                queue_first(world, victim)
                if victim == i:
                    return
            if tokens > request.placed:
                blocks.extend(world, i, tokens)
        i = request.after


@part
def advance_each(world: World, s: int) -> None:
    """Let every sequence that decodes have the tokens of the step.

    Args:
        world: The simulation.
        s: The scheduler; its step counter is past the step.
    """
    lane = world.lane_S[s]
    fresh = lane.fresh
    i = lane.running_tail
    while i != NOBODY:
        request = world.request_N[i]
        if i != lane.partial and fresh > 0:
            fresh -= 1
        elif i != lane.partial and request.finish >= lane.step:
            tokens = given(world, i, request.generated)
            request.gave = tokens
            request.generated += tokens
            request.computed += tokens
            lane.context += tokens
            world.gaps_G[0] += tokens - 1  # they come together
        i = request.before
