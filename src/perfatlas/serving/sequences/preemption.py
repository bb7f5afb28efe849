"""Running sequences lose their blocks, and start over later.

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
    """Take a request from those that decode; what it has generated becomes part of its prompt."""
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
    """Take a running request out with all it has computed but its tokens and its cached blocks.

    Args:
        world: The simulation.
        i: The request; one that ends in the step now running ends all the same.
    """
    blocks.keep_known(world, i, _start_over(world, i))
    _leave(world, i)


@part
def give_up(world: World, i: int) -> None:
    """Take a running request out with all it has computed but its tokens; none of it is found.

    Args:
        world: The simulation.
        i: The request.
    """
    _start_over(world, i)
    _leave(world, i)


@part
def _start_over(world: World, i: int) -> int:
    """Let a running request have computed nothing; return the tokens others may find of it."""
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
    """Return the tokens in the cache without what the running step computes of its own output."""
    request = world.request_N[i]
    return int(request.computed - (request.gave if world.async_scheduling else 0))


@part
def _leave(world: World, i: int) -> None:
    """Take a request that starts over from the running ones, and its blocks from it."""
    request = world.request_N[i]
    blocks.release(world, i)
    leave_running(world, i)
    request.computed = 0
    world.preempted_N[i] += 1
    world.lane_S[request.lane].preempted += 1
    world.clock_1[0].preemptions += 1
