"""Ends of steps and completions of requests.

Shape legend: S schedulers, R replicas of a type, F of all types.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.compiled import part
from perfatlas.serving.engine.arrival_queue import follow
from perfatlas.serving.engine.async_scheduling import end_overlapped
from perfatlas.serving.engine.handover import make_ready
from perfatlas.serving.engine.step_batching import end
from perfatlas.serving.engine.step_end import learn_late
from perfatlas.serving.policies import on_last_token
from perfatlas.serving.sequences import (
    blocks,
    goes_on,
    hand_over,
    leave_queue,
    leave_running,
    take_finishing,
)
from perfatlas.serving.state import NOBODY

if TYPE_CHECKING:
    from perfatlas.serving.state import World


@part
def end_steps(kinds: tuple[World, ...], now: int) -> None:
    """End all steps due at this time.

    Args:
        kinds: The simulation, by engine type.
        now: Time [ps].
    """
    world = kinds[0]
    for place in range(world.end_F.shape[0]):
        if world.end_F[place] == now:
            owner = kinds[world.kind_F[place]]
            end_step(owner, place - owner.first_replica, now)


@part
def end_step(world: World, r: int, now: int) -> None:
    """End the step of a replica.

    Args:
        world: The simulation.
        r: The replica.
        now: Time [ps].
    """
    if world.async_scheduling:
        if end_overlapped(world, r):
            for s in range(r * world.ranks, (r + 1) * world.ranks):
                learn_late(world, s)
                if not world.foresees_ends:
                    _finish(world, s, now)
                _let_leave(world, s, now)
    else:
        end(world, r, now)
        for s in range(r * world.ranks, (r + 1) * world.ranks):
            _finish(world, s, now)
    make_ready(world, r)


@part
def _finish(world: World, s: int, now: int) -> None:
    """Finish the requests of a scheduler that got their last token in the ending step."""
    while True:
        i = take_finishing(world, s)
        if i == NOBODY:
            break
        on_last_token(world, i)
        _end_request(world, i, now)


@part
def _let_leave(world: World, s: int, now: int) -> None:
    """Finish the requests of a scheduler whose end was planned when their last step started."""
    lane = world.lane_S[s]
    left = lane.leaving + lane.learning + lane.ended
    for place in range(lane.leaving):
        i = world.leaving_SH[s, place]
        if world.request_N[i].computed == 0:  # preempted meanwhile
            leave_queue(world, i)
        _end_request(world, i, now)
    if lane.waiting + lane.arrived + lane.ready + lane.retracted > 0 and left > 0:
        world.replica_R[s // world.ranks].stale = 1
    lane.leaving = 0
    lane.learning = 0


@part
def _end_request(world: World, i: int, now: int) -> None:
    """Finish a request that does not decode any more."""
    if goes_on(world, i):
        hand_over(world, i, now)
        return
    request = world.request_N[i]
    world.finished_N[i] = now
    if request.computed > 0:
        leave_running(world, i)
        blocks.keep_answer(world, i)
        blocks.release(world, i)
    replica = world.replica_R[request.lane // world.ranks]
    replica.load -= 1
    if world.stream_token > 0:
        world.late_last_N[i] = replica.late
        follow(world, i, now + replica.late)
    else:
        follow(world, i, now)
