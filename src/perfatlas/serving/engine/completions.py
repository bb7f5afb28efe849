"""Ends of steps and completions of requests.

Shape legend: S schedulers, R replicas of a type, F of all types.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.compiled import part
from perfatlas.serving.engine.arrival_queue import on_request_end
from perfatlas.serving.engine.async_scheduling import end_overlapped
from perfatlas.serving.engine.stages import make_ready
from perfatlas.serving.engine.step_batching import end
from perfatlas.serving.engine.step_end import cache_finished_prompts
from perfatlas.serving.policies import on_last_token
from perfatlas.serving.sequences import (
    blocks,
    continues_elsewhere,
    first_batch,
    hand_over,
    leave_queue,
    leave_running,
    take_finishing,
)
from perfatlas.serving.state import NO_INDEX

if TYPE_CHECKING:
    from perfatlas.serving.state import SimulationState


@part
def end_steps(groups: tuple[SimulationState, ...], now: int) -> None:
    """End all steps due at this time.

    Args:
        groups: The simulation, by engine type.
        now: Time [ps].
    """
    sim = groups[0]
    for place in range(sim.end_F.shape[0]):
        if sim.end_F[place] == now:
            owner = groups[sim.group_F[place]]
            end_step(owner, place - owner.first_replica, now)


@part
def end_step(sim: SimulationState, r: int, now: int) -> None:
    """End the step of a replica.

    Args:
        sim: The simulation.
        r: The replica.
        now: Time [ps].
    """
    if sim.async_scheduling:
        if end_overlapped(sim, r):
            for s in range(r * sim.ranks, (r + 1) * sim.ranks):
                cache_finished_prompts(sim, s)
                if not sim.foresees_ends:
                    _finish(sim, s, now)
                _finish_planned(sim, s, now)
    else:
        end(sim, r, now)
        for s in range(r * sim.ranks, (r + 1) * sim.ranks):
            _finish(sim, s, now)
    make_ready(sim, r)


@part
def _finish(sim: SimulationState, s: int, now: int) -> None:
    """Finish the requests of a scheduler that got their last token in the ending step."""
    while True:
        i = take_finishing(sim, s)
        if i == NO_INDEX:
            break
        on_last_token(sim, i)
        _end_request(sim, i, now)


@part
def _finish_planned(sim: SimulationState, s: int, now: int) -> None:
    """Finish the requests of a scheduler whose end was planned when their last step started."""
    scheduler = sim.scheduler_S[s]
    left = scheduler.leaving + scheduler.learning + scheduler.ended
    for place in range(scheduler.leaving):
        i = sim.leaving_SH[s, place]
        if sim.request_N[i].computed == 0:  # preempted meanwhile
            leave_queue(sim, i)
        _end_request(sim, i, now)
    if (
        scheduler.waiting + scheduler.arrived + scheduler.ready + scheduler.retracted > 0
        and left > 0
    ):
        sim.replica_R[s // sim.ranks].stale = 1
    scheduler.leaving = 0
    scheduler.learning = 0


@part
def _end_request(sim: SimulationState, i: int, now: int) -> None:
    """Finish a request that does not decode any more."""
    if continues_elsewhere(sim, i):
        hand_over(sim, i, now)
        return
    request = sim.request_N[i]
    sim.finished_N[i] = now
    if request.computed > 0:
        leave_running(sim, i)
        blocks.cache_output(sim, i)
        blocks.release(sim, i)
    r = request.scheduler // sim.ranks
    replica = sim.replica_R[r]
    sim.replica_R[first_batch(sim, r)].load -= 1
    if sim.stream_token > 0:
        sim.late_last_N[i] = replica.late
        on_request_end(sim, i, now + replica.late)
    else:
        on_request_end(sim, i, now)
