"""Preemption: running sequences lose their blocks and restart later.

Shape legend: N requests, S schedulers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.compiled import part
from perfatlas.serving.sequences import blocks
from perfatlas.serving.sequences.running import (
    has_ended,
    last_joined,
    leave_running,
    stop_decoding,
)
from perfatlas.serving.state import NOBODY, drop

if TYPE_CHECKING:
    from perfatlas.serving.state import World


@part
def _back_to_prompt(world: World, i: int) -> None:
    """Stop decoding a request; its generated tokens become part of its prompt."""
    request = world.request_N[i]
    s = request.lane
    lane = world.lane_S[s]
    if world.draft_tokens == 0:
        request.generated = request.osl - (request.finish - lane.step)
        request.computed = request.isl + request.generated - 1
        request.placed = request.computed
    drop(world.finishing_SH[s], world.request_N, lane.heap, request.place)
    lane.heap -= 1
    stop_decoding(world, i)


@part
def throw_out(world: World, i: int) -> None:
    """Preempt a running request, keeping its tokens and its cached blocks.

    Args:
        world: The simulation.
        i: The request; if it ends in the running step, it still finishes.
    """
    blocks.keep_known(world, i, _start_over(world, i))
    _leave(world, i)


@part
def give_up(world: World, i: int) -> None:
    """Preempt a running request, keeping its tokens but not its cached blocks.

    Args:
        world: The simulation.
        i: The request.
    """
    _start_over(world, i)
    _leave(world, i)


@part
def _start_over(world: World, i: int) -> int:
    """Reset the computed tokens of a running request; return the tokens that stay cached."""
    request = world.request_N[i]
    lane = world.lane_S[request.lane]
    if has_ended(world, i):
        return int(_seen(world, i))
    loss = world.loss_N[i]
    if loss.gone == 0:
        loss.gone = lane.start + 1
    if i == lane.partial:
        lane.partial = NOBODY
        loss.mark = max(loss.mark, request.computed)
        return int(request.computed)
    loss.since = last_joined(world, i)
    if request.joined <= lane.beat:
        loss.since = max(loss.since, lane.last_end)
    _back_to_prompt(world, i)
    loss.mark = request.computed + 1
    return int(_seen(world, i))


@part
def _seen(world: World, i: int) -> int:
    """Return the tokens in the KV cache, without output of the running step."""
    request = world.request_N[i]
    return int(request.computed - (request.gave if world.async_scheduling else 0))


@part
def _leave(world: World, i: int) -> None:
    """Remove a preempted request from the running ones and free its blocks."""
    request = world.request_N[i]
    blocks.release(world, i)
    leave_running(world, i)
    request.computed = 0
    world.preempted_N[i] += 1
    world.lane_S[request.lane].preempted += 1
    world.clock_1[0].preemptions += 1
