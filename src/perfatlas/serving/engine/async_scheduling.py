"""Steps scheduled ahead: when a step begins, the one after it is decided.

What the decision sees is the past: requests that have arrived, tokens of the steps that have ended.
Of the step that begins it knows how many tokens it gives, not more. A sequence whose last token
that step gives is left out of the next one, but keeps its slot and its blocks until the step has
ended, so that others get them one step later still. It may even be thrown out for its blocks
meanwhile; it ends all the same. A sequence that is thrown out keeps the token of the step that
runs.

Where nothing runs, nothing is known to come, and the next step is decided and begins at once. A
decision that finds nothing to run takes no time.

Source: vllm-project/vllm, vllm/v1/engine/core.py, step_with_batch_queue() with a queue of two
batches, which fills the queue before it waits for a result; vllm/v1/core/sched/async_scheduler.py,
_update_after_schedule(); vllm/v1/core/sched/scheduler.py, schedule() on output placeholders and
update_from_output() on requests that stop while preempted.

Limits: ranks that step together are all decided at the same instant. An engine whose ranks have
nothing to run but unfinished requests runs no empty step.

Shape legend: S schedulers, R replicas.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.compiled import part
from perfatlas.serving.engine.front_end import stream
from perfatlas.serving.engine.step_end import finish_step
from perfatlas.serving.policies import on_last_token
from perfatlas.serving.sequences import steps_until, stretch_time, take_finishing
from perfatlas.serving.state import NOBODY

if TYPE_CHECKING:
    from perfatlas.serving.state import World


@part
def foresee(world: World, r: int, end: int) -> None:
    """Let the steps that run have happened, all but what finishes at their end.

    Args:
        world: The simulation.
        r: The replica, whose last step begins.
        end: End of that step [ps].
    """
    steps = world.replica_R[r].steps
    if world.stream_token > 0:
        stream(world, r, steps, end)
    for s in range(r * world.ranks, (r + 1) * world.ranks):
        finish_step(world, s, steps, end)
        lane = world.lane_S[s]
        while world.foresees_ends:
            i = take_finishing(world, s)
            if i == NOBODY:
                break
            on_last_token(world, i)
            world.leaving_SH[s, lane.leaving] = i
            lane.leaving += 1


@part
def note_done(world: World, r: int) -> None:
    """Count the steps that end, and the time they took.

    Args:
        world: The simulation.
        r: The replica.
    """
    replica = world.replica_R[r]
    world.clock_1[0].steps += replica.steps
    replica.done += replica.steps
    replica.busy += stretch_time(replica.base, replica.rise, replica.steps)


@part
def end_overlapped(world: World, r: int) -> bool:
    """Return whether the stretch of a replica has ended, and not only begun its last step.

    Args:
        world: The simulation.
        r: The replica.
    """
    replica = world.replica_R[r]
    if replica.decided == 0:
        return False
    note_done(world, r)
    replica.steps = 0
    replica.decided = 0
    return True


@part
def cut_overlapped(world: World, r: int, now: int) -> None:
    """Let the first border of steps from now on see what has arrived.

    Args:
        world: The simulation.
        r: The replica.
        now: Time [ps].
    """
    replica = world.replica_R[r]
    if replica.decided or replica.steps == 0:
        replica.stale = 1
        return
    delay = now - replica.start
    seen = steps_until(replica.base, replica.rise, replica.steps - 1, delay)
    replica.steps = seen + 1
    world.end_R[r] = replica.start + stretch_time(replica.base, replica.rise, seen)
