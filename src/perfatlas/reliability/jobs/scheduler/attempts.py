"""Attempts of a job: start, work, end, and the accounting of its GPU-ticks.

Shape legend: as in `state`.
"""

from __future__ import annotations

from perfatlas.compiled import inlined, part
from perfatlas.reliability.jobs.model import (
    COMPLETED,
    DETECTION,
    HELD,
    LOST_WORK,
    NEVER,
    NODE_FAIL,
    PRODUCTIVE,
    REPLACING,
    RESTART,
    RUNNING,
    STALLED,
    WAITING,
    ScheduleState,
)
from perfatlas.reliability.jobs.scheduler.event_queue import cancel, plan
from perfatlas.reliability.jobs.scheduler.nodes import attach, detach
from perfatlas.reliability.jobs.scheduler.placement import domains_of
from perfatlas.reliability.jobs.scheduler.queue import enqueue


@part
def begin(sim: ScheduleState, j: int) -> None:
    """Start a job on the nodes of `chosen_N`."""
    job, state = sim.job_J[j], sim.state_1[0]
    for index in range(job.nodes):
        attach(sim, j, sim.node_N[index].chosen)
    job.allocated, job.lost = job.nodes, 0
    job.begun = state.now
    job.kill = state.now + job.limit if job.limit < NEVER else NEVER
    if job.attempts == 0:
        job.started = state.now
        job.spread = domains_of(sim, j)
    job.attempts += 1
    # the running jobs are sorted by the end of their time limit
    low, high = 0, state.runs
    while low < high:
        middle = (low + high) >> 1
        other = sim.run_R[middle]
        ends = sim.job_J[other].kill
        if ends < job.kill or (ends == job.kill and other < j):
            low = middle + 1
        else:
            high = middle
    for index in range(state.runs, low, -1):
        sim.run_R[index] = sim.run_R[index - 1]
    sim.run_R[low] = j
    state.runs += 1
    resume(sim, j, job.attempts > 1)


@part
def resume(sim: ScheduleState, j: int, again: bool) -> None:  # noqa: FBT001 - compiled code has no keywords
    """Start or resume the work of a job on its nodes."""
    job, now = sim.job_J[j], sim.state_1[0].now
    job.state, job.mark, job.lost = RUNNING, now, 0
    job.since = now
    if again:
        job.restarts += 1
        job.since += job.overhead
    finish = job.since + (job.work + job.allocated - 1) // job.allocated
    plan(sim.heap_H, sim.spot_J, sim.event_J, j, min(finish, job.kill))


@part
def settle(sim: ScheduleState, j: int, done: bool) -> None:  # noqa: FBT001
    """Account for the GPU-time of a job since its last change."""
    job, state = sim.job_J[j], sim.state_1[0]
    gpus = job.allocated * job.gpus
    spent = state.now - job.mark
    job.mark = state.now
    if job.state == STALLED:
        state.bucket[DETECTION] += spent * gpus
        return
    if job.state == WAITING:
        state.bucket[REPLACING] += spent * gpus
        return
    worked = max(state.now - job.since, 0)
    state.bucket[RESTART] += (spent - worked) * gpus
    saved = worked
    if not done:
        saved = worked - worked % job.interval if job.interval else 0
    job.work = max(job.work - saved * job.allocated, 0)
    job.lost_work += (worked - saved) * gpus
    state.bucket[PRODUCTIVE] += saved * gpus
    state.bucket[LOST_WORK] += (worked - saved) * gpus


@inlined
def release(sim: ScheduleState, j: int) -> None:
    """Release all nodes of a settled job."""
    job, state = sim.job_J[j], sim.state_1[0]
    if job.state == WAITING:
        leave_waits(sim, j)
    detach(sim, j, -1)
    job.allocated = 0
    index = 0
    while sim.run_R[index] != j:
        index += 1
    state.runs -= 1
    for after in range(index, state.runs):
        sim.run_R[after] = sim.run_R[after + 1]
    cancel(sim.heap_H, sim.spot_J, sim.event_J, j)


@inlined
def leave_waits(sim: ScheduleState, j: int) -> None:
    """Remove a job from the list of those that wait for a node."""
    state, index = sim.state_1[0], 0
    while sim.job_J[index].wait_list != j:
        index += 1
    state.waits -= 1
    for after in range(index, state.waits):
        sim.job_J[after].wait_list = sim.job_J[after + 1].wait_list


@inlined
def end(sim: ScheduleState, j: int, how: int) -> None:
    """End a job that holds nodes."""
    job, state = sim.job_J[j], sim.state_1[0]
    settle(sim, j, how == COMPLETED)
    release(sim, j)
    job.state, job.ended = how, state.now
    state.left -= 1


@part
def fail(sim: ScheduleState, j: int) -> None:
    """End a job that failed permanently."""
    end(sim, j, NODE_FAIL)


@part
def stop(sim: ScheduleState, j: int) -> None:
    """Remove an unfinished job from its nodes."""
    settle(sim, j, False)  # noqa: FBT003
    release(sim, j)


@part
def regain(sim: ScheduleState, j: int, node: int) -> None:
    """Add a node to a settled job."""
    attach(sim, j, node)
    sim.job_J[j].allocated += 1


@part
def give_up_nodes(sim: ScheduleState, j: int) -> None:
    """Stop a job that lost a node and requeue it, or end it where that is not allowed."""
    job, rules, now = sim.job_J[j], sim.plan_1[0], sim.state_1[0].now
    if not job.requeue or job.counted >= rules.most_restarts:
        fail(sim, j)
        return
    stop(sim, j)
    job.counted += 1
    pause = rules.backoff
    for _ in range(job.counted - 1):
        if pause >= rules.most_backoff:
            break
        pause *= 2
    pause = min(pause, rules.most_backoff)
    if pause == 0:
        requeue(sim, j)
        return
    job.state = HELD
    plan(sim.heap_H, sim.spot_J, sim.event_J, j, now + pause)


@part
def requeue(sim: ScheduleState, j: int) -> None:
    """Requeue a job."""
    job = sim.job_J[j]
    job.key = job.submit if sim.plan_1[0].keeps_place else sim.state_1[0].now
    enqueue(sim, j)
