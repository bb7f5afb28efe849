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
from perfatlas.serving.state import NO_INDEX, drop

if TYPE_CHECKING:
    from perfatlas.serving.state import SimulationState


@part
def _back_to_prompt(sim: SimulationState, i: int) -> None:
    """Stop decoding a request; its generated tokens become part of its prompt."""
    request = sim.request_N[i]
    s = request.scheduler
    scheduler = sim.scheduler_S[s]
    if sim.limits.draft_tokens == 0:
        request.generated = request.osl - (request.finish - scheduler.step)
        request.computed = request.isl + request.generated - 1
        request.placed = request.computed
    drop(sim.finishing_SH[s], sim.request_N, scheduler.heap, request.heap_slot)
    scheduler.heap -= 1
    stop_decoding(sim, i)


@part
def preempt(sim: SimulationState, i: int) -> None:
    """Preempt a running request, keeping its tokens and its cached blocks.

    Args:
        i: The request; if it ends in the running step, it still finishes.
    """
    blocks.cache_tokens(sim, i, _start_over(sim, i))
    _leave(sim, i)


@part
def preempt_uncached(sim: SimulationState, i: int) -> None:
    """Preempt a running request, keeping its tokens but not its cached blocks."""
    _start_over(sim, i)
    _leave(sim, i)


@part
def _start_over(sim: SimulationState, i: int) -> int:
    """Reset the computed tokens of a running request; return the tokens that stay cached."""
    request = sim.request_N[i]
    scheduler = sim.scheduler_S[request.scheduler]
    if has_ended(sim, i):
        return int(_seen(sim, i))
    loss = sim.loss_N[i]
    if loss.gone == 0:
        loss.gone = scheduler.start + 1
    if i == scheduler.partial:
        scheduler.partial = NO_INDEX
        loss.mark = max(loss.mark, request.computed)
        return int(request.computed)
    loss.since = last_joined(sim, i)
    if request.joined <= scheduler.beat:
        loss.since = max(loss.since, scheduler.last_end)
    _back_to_prompt(sim, i)
    loss.mark = request.computed + 1
    return int(_seen(sim, i))


@part
def _seen(sim: SimulationState, i: int) -> int:
    """Return the tokens in the KV cache, without output of the running step."""
    request = sim.request_N[i]
    return int(request.computed - (request.gave if sim.limits.async_scheduling else 0))


@part
def _leave(sim: SimulationState, i: int) -> None:
    """Remove a preempted request from the running ones and free its blocks."""
    request = sim.request_N[i]
    blocks.release(sim, i)
    leave_running(sim, i)
    request.computed = 0
    sim.preempted_N[i] += 1
    sim.scheduler_S[request.scheduler].preempted += 1
    sim.clock_1[0].preemptions += 1
