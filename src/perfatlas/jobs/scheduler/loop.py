"""The event loop: order of events at the same time, then a scheduling pass.

At the same time: jobs end or give up waiting, nodes return, nodes fail, jobs that detect it at once
respond, jobs are submitted; then one pass over the queue.

Shape legend: as in `state`.
"""

from __future__ import annotations

from perfatlas.compiled import inlined, optimized_entry, part
from perfatlas.jobs.model import (
    COMPLETED,
    CONSERVATIVE,
    DOWN_GPUS,
    DRAINING_GPUS,
    EASY,
    HELD,
    IDLE_EMPTY,
    IDLE_QUEUED,
    NEVER,
    REPLACE,
    RUNNING,
    STALLED,
    TIMEOUT,
    World,
)
from perfatlas.jobs.scheduler.attempts import begin, end, requeue, settle
from perfatlas.jobs.scheduler.backfill import conservative, easy
from perfatlas.jobs.scheduler.event_queue import cancel, earliest
from perfatlas.jobs.scheduler.node_failures import (
    apply_failure,
    come_back,
    notice,
    replace_nodes,
    run_out_of_patience,
)
from perfatlas.jobs.scheduler.placement import choose, fits_by_count
from perfatlas.jobs.scheduler.preemption import preempt
from perfatlas.jobs.scheduler.queue import age_usage, dequeue, enqueue, sort_queue


@optimized_entry
def run_world(world: World, most: int) -> bool:
    """Run a schedule for a number of steps; return whether it is done.

    Args:
        world: The schedule.
        most: Maximum number of steps.
    """
    state, until = world.state_1[0], world.plan_1[0].until
    for _ in range(most):
        now = _next_time(world)
        if now > until or now == NEVER or (state.left == 0 and until == NEVER):
            if until < NEVER:
                _advance(world, until)
            for place in range(state.runs):
                _cut(world, world.run_R[place])
            state.done = 1
            return True
        _advance(world, now)
        _step(world)
        state.steps += 1
    return False


@inlined
def _next_time(world: World) -> int:
    state = world.state_1[0]
    now = min(
        earliest(world.heap_H, world.event_J),
        earliest(world.back_H, world.until_N),
    )
    if state.submitted < world.job_J.shape[0]:
        now = min(now, world.job_J[state.submitted].submit)
    if state.failed < world.failure_X.shape[0]:
        now = min(now, world.failure_X[state.failed].time)
    return int(now)


@inlined
def _advance(world: World, now: int) -> None:
    """Advance time and account for the GPUs that no job holds."""
    state = world.state_1[0]
    passed = now - state.now
    queued = state.tail > state.head
    state.bucket[IDLE_QUEUED if queued else IDLE_EMPTY] += passed * state.free
    state.bucket[DRAINING_GPUS] += passed * state.draining
    state.bucket[DOWN_GPUS] += passed * state.down
    state.stranded_ticks += passed * state.partial
    if state.split:
        state.split_ticks += passed * state.free
    state.now = now
    age_usage(world)


@inlined
def _step(world: World) -> None:
    state = world.state_1[0]
    _job_events(world)
    while earliest(world.back_H, world.until_N) == state.now:
        node = world.back_H[1]
        cancel(world.back_H, world.back_N, world.until_N, node)
        come_back(world, node)
    rows, jobs = world.failure_X.shape[0], world.job_J.shape[0]
    while state.failed < rows and world.failure_X[state.failed].time == state.now:
        apply_failure(world, state.failed)
        state.failed += 1
    _job_events(world)
    while state.submitted < jobs and world.job_J[state.submitted].submit == state.now:
        enqueue(world, state.submitted)
        state.submitted += 1
    _pass(world)


@part
def _job_events(world: World) -> None:
    state = world.state_1[0]
    while earliest(world.heap_H, world.event_J) == state.now:
        j = world.heap_H[1]
        cancel(world.heap_H, world.spot_J, world.event_J, j)
        job = world.job_J[j]
        if job.state == HELD:
            requeue(world, j)
        elif job.state == RUNNING or state.now >= job.kill:
            done = job.state == RUNNING and (state.now - job.since) * job.held >= job.work
            end(world, j, COMPLETED if done else TIMEOUT)
        elif job.state == STALLED:
            notice(world, j)
        else:
            run_out_of_patience(world, j)


@inlined
def _pass(world: World) -> None:
    """Start the jobs that can start."""
    state, rules = world.state_1[0], world.plan_1[0]
    state.split = 0
    if rules.response == REPLACE and state.waits:
        replace_nodes(world)
    if state.tail == state.head:
        return
    sort_queue(world)
    while state.tail > state.head:
        j = world.queue_Q[state.head]
        ready = fits_by_count(world, j) and choose(world, world.open_N, j)
        if not ready and rules.preemption and preempt(world, j):
            place = state.head
            while world.queue_Q[place] != j:
                place += 1
            choose(world, world.open_N, j)
            dequeue(world, place)
            begin(world, j)
            state.stale = 1
            continue
        if not ready:
            break
        dequeue(world, state.head)
        begin(world, j)
        state.stale = 1
    if state.tail > state.head:
        if rules.backfill == EASY and state.free:
            easy(world)
        elif rules.backfill == CONSERVATIVE and state.free:
            conservative(world)
        job = world.job_J[world.queue_Q[state.head]]
        state.split = job.nodes * job.gpus <= state.free


@part
def _cut(world: World, j: int) -> None:
    """Account for a job that still runs at the end; its work is not lost."""
    settle(world, j, True)  # noqa: FBT003
