"""Attempts of a job: start, work, end, and the accounting of its GPU-ticks.

Shape legend: as in `state`.
"""

from __future__ import annotations

from perfatlas.compiled import inlined, part
from perfatlas.jobs.model import (
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
    World,
)
from perfatlas.jobs.scheduler.event_queue import cancel, plan
from perfatlas.jobs.scheduler.nodes import attach, detach
from perfatlas.jobs.scheduler.placement import domains_of
from perfatlas.jobs.scheduler.queue import enqueue


@part
def begin(world: World, j: int) -> None:
    """Start a job on the nodes of `chosen_N`.

    Args:
        world: The schedule.
        j: A job removed from the queue.
    """
    job, state = world.job_J[j], world.state_1[0]
    for place in range(job.nodes):
        attach(world, j, world.node_N[place].chosen)
    job.held, job.lost = job.nodes, 0
    job.begun = state.now
    job.kill = state.now + job.limit if job.limit < NEVER else NEVER
    if job.attempts == 0:
        job.started = state.now
        job.spread = domains_of(world, j)
    job.attempts += 1
    _enlist(world, j)
    resume(world, j, job.attempts > 1)


@inlined
def _enlist(world: World, j: int) -> None:
    """Insert a job into the running ones, sorted by the end of their time limit."""
    state, kill = world.state_1[0], world.job_J[j].kill
    low, high = 0, state.runs
    while low < high:
        middle = (low + high) >> 1
        other = world.run_R[middle]
        ends = world.job_J[other].kill
        if ends < kill or (ends == kill and other < j):
            low = middle + 1
        else:
            high = middle
    for place in range(state.runs, low, -1):
        world.run_R[place] = world.run_R[place - 1]
    world.run_R[low] = j
    state.runs += 1


@part
def resume(world: World, j: int, again: bool) -> None:  # noqa: FBT001 - compiled code has no keywords
    """Start or resume the work of a job on its nodes.

    Args:
        world: The schedule.
        j: The job.
        again: Whether it restarts, which takes time and is counted.
    """
    job, now = world.job_J[j], world.state_1[0].now
    job.state, job.mark, job.lost = RUNNING, now, 0
    job.since = now
    if again:
        job.restarts += 1
        job.since += job.overhead
    finish = job.since + (job.work + job.held - 1) // job.held
    plan(world.heap_H, world.spot_J, world.event_J, j, min(finish, job.kill))


@part
def settle(world: World, j: int, done: bool) -> None:  # noqa: FBT001
    """Account for the GPU-time of a job since its last change.

    Args:
        world: The schedule.
        j: A job that holds nodes, before they are released.
        done: Whether all work is kept; otherwise work since the last checkpoint is lost.
    """
    job, state = world.job_J[j], world.state_1[0]
    gpus = job.held * job.gpus
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
    kept = worked
    if not done:
        kept = worked - worked % job.interval if job.interval else 0
    job.work = max(job.work - kept * job.held, 0)
    job.lost_work += (worked - kept) * gpus
    state.bucket[PRODUCTIVE] += kept * gpus
    state.bucket[LOST_WORK] += (worked - kept) * gpus


@inlined
def release(world: World, j: int) -> None:
    """Release all nodes of a settled job.

    Args:
        world: The schedule.
        j: The job.
    """
    job, state = world.job_J[j], world.state_1[0]
    if job.state == WAITING:
        leave_waits(world, j)
    detach(world, j, -1)
    job.held = 0
    place = 0
    while world.run_R[place] != j:
        place += 1
    state.runs -= 1
    for after in range(place, state.runs):
        world.run_R[after] = world.run_R[after + 1]
    cancel(world.heap_H, world.spot_J, world.event_J, j)


@inlined
def leave_waits(world: World, j: int) -> None:
    """Remove a job from the list of those that wait for a node.

    Args:
        world: The schedule.
        j: The job.
    """
    state, place = world.state_1[0], 0
    while world.job_J[place].wait_list != j:
        place += 1
    state.waits -= 1
    for after in range(place, state.waits):
        world.job_J[after].wait_list = world.job_J[after + 1].wait_list


@inlined
def end(world: World, j: int, how: int) -> None:
    """End a job that holds nodes.

    Args:
        world: The schedule.
        j: The job.
        how: Its final state.
    """
    job, state = world.job_J[j], world.state_1[0]
    settle(world, j, how == COMPLETED)
    release(world, j)
    job.state, job.ended = how, state.now
    state.left -= 1


@part
def fail(world: World, j: int) -> None:
    """End a job that failed permanently.

    Args:
        world: The schedule.
        j: The job.
    """
    end(world, j, NODE_FAIL)


@part
def stop(world: World, j: int) -> None:
    """Remove an unfinished job from its nodes.

    Args:
        world: The schedule.
        j: The job.
    """
    settle(world, j, False)  # noqa: FBT003
    release(world, j)


@part
def regain(world: World, j: int, node: int) -> None:
    """Add a node to a settled job.

    Args:
        world: The schedule.
        j: The job.
        node: A free node.
    """
    attach(world, j, node)
    world.job_J[j].held += 1


@part
def give_up_nodes(world: World, j: int) -> None:
    """Stop a job that lost a node and requeue it, or end it where that is not allowed.

    Args:
        world: The schedule.
        j: The job.
    """
    job, rules, now = world.job_J[j], world.plan_1[0], world.state_1[0].now
    if not job.requeue or job.counted >= rules.most_restarts:
        fail(world, j)
        return
    stop(world, j)
    job.counted += 1
    pause = rules.backoff
    for _ in range(job.counted - 1):
        if pause >= rules.most_backoff:
            break
        pause *= 2
    pause = min(pause, rules.most_backoff)
    if pause == 0:
        requeue(world, j)
        return
    job.state = HELD
    plan(world.heap_H, world.spot_J, world.event_J, j, now + pause)


@part
def requeue(world: World, j: int) -> None:
    """Requeue a job.

    Args:
        world: The schedule.
        j: A job without nodes.
    """
    job = world.job_J[j]
    job.key = job.submit if world.plan_1[0].keeps_place else world.state_1[0].now
    enqueue(world, j)
