"""Asynchronous scheduling: when a step starts, the next one is scheduled.

Scheduling sees requests that have arrived and tokens of finished steps. Of the starting step it
knows only the number of tokens. A sequence that gets its last token in that step is excluded from
the next one, but keeps its slot and blocks until the step ends, so that others get them one step
later. It may even be preempted for its blocks meanwhile, and still finishes. A preempted sequence
keeps the token of the running step.

If no step is running, the next step is scheduled and starts at once. Scheduling that finds nothing
to run takes no time.

Source: vllm-project/vllm, vllm/v1/engine/core.py, step_with_batch_queue() with a queue of two
batches, which fills the queue before it waits for a result; vllm/v1/core/sched/async_scheduler.py,
_update_after_schedule(); vllm/v1/core/sched/scheduler.py, schedule() on output placeholders and
update_from_output() on requests that stop while preempted.

Limits: Ranks that step together are scheduled at the same instant. An engine whose ranks have
unfinished requests but nothing to run does not run an empty step.

Shape legend: S schedulers, R replicas.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.compiled import part
from perfatlas.serving.engine.front_end import stream
from perfatlas.serving.engine.step_end import finish_step
from perfatlas.serving.policies import on_last_token
from perfatlas.serving.sequences import batch_energy, batch_time, steps_until, take_finishing
from perfatlas.serving.state import NO_INDEX

if TYPE_CHECKING:
    from perfatlas.serving.state import SimulationState


@part
def plan_ahead(sim: SimulationState, r: int, end: int) -> None:
    """Apply the running steps ahead of their end, except for finishing requests.

    Args:
        end: End of that step [ps].
    """
    steps = sim.replica_R[r].steps
    if sim.stream_token > 0:
        stream(sim, r, steps, end)
    for s in range(r * sim.ranks, (r + 1) * sim.ranks):
        finish_step(sim, s, steps, end)
        scheduler = sim.scheduler_S[s]
        while sim.foresees_ends:
            i = take_finishing(sim, s)
            if i == NO_INDEX:
                break
            on_last_token(sim, i)
            sim.leaving_SH[s, scheduler.leaving] = i
            scheduler.leaving += 1


@part
def note_done(sim: SimulationState, r: int) -> None:
    """Count the finished steps, their time and their energy."""
    replica = sim.replica_R[r]
    sim.clock_1[0].steps += replica.steps
    replica.done += replica.steps
    replica.busy += batch_time(replica.base, replica.rise, replica.steps)
    if replica.steps > 0:
        replica.prompts += replica.prompt_time  # a step with prompts is alone in its batch
        if sim.energy.rank_gpus > 0:
            replica.spent += batch_energy(sim, r, replica.steps)
            replica.spent_on_prompts += replica.prompt_energy
        replica.waits += batch_time(replica.wait_base, replica.wait_rise, replica.steps)
        replica.prompt_waits += replica.prompt_wait


@part
def end_overlapped(sim: SimulationState, r: int) -> bool:
    """Return whether a replica's batch of steps has ended, rather than its last step started."""
    replica = sim.replica_R[r]
    if replica.decided == 0:
        return False
    note_done(sim, r)
    replica.steps = 0
    replica.decided = 0
    return True


@part
def truncate_overlapped(sim: SimulationState, r: int, now: int) -> None:
    """Truncate the batch so that the next step boundary sees arrivals.

    Args:
        now: Time [ps].
    """
    replica = sim.replica_R[r]
    if replica.decided or replica.steps == 0:
        replica.stale = 1
        return
    delay = now - replica.start
    seen = steps_until(replica.base, replica.rise, replica.steps - 1, delay)
    replica.steps = seen + 1
    sim.end_R[r] = replica.start + batch_time(replica.base, replica.rise, seen)
