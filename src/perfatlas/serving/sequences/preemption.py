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
    from perfatlas.serving.state import SimulationState


@part
def _back_to_prompt(sim: SimulationState, i: int) -> None:
    """Stop decoding a request; its generated tokens become part of its prompt."""
    request = sim.request_N[i]
    s = request.lane
    lane = sim.lane_S[s]
    if sim.draft_tokens == 0:
        request.generated = request.osl - (request.finish - lane.step)
        request.computed = request.isl + request.generated - 1
        request.placed = request.computed
    drop(sim.finishing_SH[s], sim.request_N, lane.heap, request.place)
    lane.heap -= 1
    stop_decoding(sim, i)


@part
def preempt(sim: SimulationState, i: int) -> None:
    """Preempt a running request, keeping its tokens and its cached blocks.

    Args:
        sim: The simulation.
        i: The request; if it ends in the running step, it still finishes.
    """
    blocks.cache_tokens(sim, i, _start_over(sim, i))
    _leave(sim, i)


@part
def preempt_uncached(sim: SimulationState, i: int) -> None:
    """Preempt a running request, keeping its tokens but not its cached blocks.

    Args:
        sim: The simulation.
        i: The request.
    """
    _start_over(sim, i)
    _leave(sim, i)


@part
def _start_over(sim: SimulationState, i: int) -> int:
    """Reset the computed tokens of a running request; return the tokens that stay cached."""
    request = sim.request_N[i]
    lane = sim.lane_S[request.lane]
    if has_ended(sim, i):
        return int(_seen(sim, i))
    loss = sim.loss_N[i]
    if loss.gone == 0:
        loss.gone = lane.start + 1
    if i == lane.partial:
        lane.partial = NOBODY
        loss.mark = max(loss.mark, request.computed)
        return int(request.computed)
    loss.since = last_joined(sim, i)
    if request.joined <= lane.beat:
        loss.since = max(loss.since, lane.last_end)
    _back_to_prompt(sim, i)
    loss.mark = request.computed + 1
    return int(_seen(sim, i))


@part
def _seen(sim: SimulationState, i: int) -> int:
    """Return the tokens in the KV cache, without output of the running step."""
    request = sim.request_N[i]
    return int(request.computed - (request.gave if sim.async_scheduling else 0))


@part
def _leave(sim: SimulationState, i: int) -> None:
    """Remove a preempted request from the running ones and free its blocks."""
    request = sim.request_N[i]
    blocks.release(sim, i)
    leave_running(sim, i)
    request.computed = 0
    sim.preempted_N[i] += 1
    sim.lane_S[request.lane].preempted += 1
    sim.clock_1[0].preemptions += 1
