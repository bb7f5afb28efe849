"""The event loop: order of events at the same time, then a scheduling pass.

At the same time: jobs end or give up waiting, nodes return, nodes fail, jobs that detect it at once
respond, jobs are submitted; then one pass over the queue.

Shape legend: as in `state`.
"""

from __future__ import annotations

from perfatlas.compiled import inlined, optimized_entry, part
from perfatlas.reliability.jobs.model import (
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
    ScheduleState,
)
from perfatlas.reliability.jobs.scheduler.attempts import begin, end, requeue, settle
from perfatlas.reliability.jobs.scheduler.backfill import conservative, easy
from perfatlas.reliability.jobs.scheduler.event_queue import cancel, earliest
from perfatlas.reliability.jobs.scheduler.node_failures import (
    apply_failure,
    come_back,
    notice,
    on_wait_timeout,
    replace_nodes,
)
from perfatlas.reliability.jobs.scheduler.placement import choose, fits_by_count
from perfatlas.reliability.jobs.scheduler.preemption import preempt
from perfatlas.reliability.jobs.scheduler.queue import age_usage, dequeue, enqueue, sort_queue


@optimized_entry
def run_world(sim: ScheduleState, most: int) -> bool:
    """Run a schedule for a number of steps; return whether it is done."""
    state, until = sim.state_1[0], sim.plan_1[0].until
    for _ in range(most):
        now = _next_time(sim)
        if now > until or now == NEVER or (state.left == 0 and until == NEVER):
            if until < NEVER:
                _advance(sim, until)
            for index in range(state.runs):
                settle(sim, sim.run_R[index], True)  # noqa: FBT003 - work under way is not lost
            state.done = 1
            return True
        _advance(sim, now)
        _step(sim)
        state.steps += 1
    return False


@inlined
def _next_time(sim: ScheduleState) -> int:
    state = sim.state_1[0]
    now = min(
        earliest(sim.heap_H, sim.event_J),
        earliest(sim.back_H, sim.until_N),
    )
    if state.submitted < sim.job_J.shape[0]:
        now = min(now, sim.job_J[state.submitted].submit)
    if state.failed < sim.failure_X.shape[0]:
        now = min(now, sim.failure_X[state.failed].time)
    return int(now)


@inlined
def _advance(sim: ScheduleState, now: int) -> None:
    """Advance time and account for the GPUs that no job holds."""
    state = sim.state_1[0]
    passed = now - state.now
    queued = state.tail > state.head
    state.bucket[IDLE_QUEUED if queued else IDLE_EMPTY] += passed * state.free
    state.bucket[DRAINING_GPUS] += passed * state.draining
    state.bucket[DOWN_GPUS] += passed * state.down
    state.stranded_ticks += passed * state.partial
    if state.split:
        state.split_ticks += passed * state.free
    state.now = now
    age_usage(sim)


@inlined
def _step(sim: ScheduleState) -> None:
    state = sim.state_1[0]
    _job_events(sim)
    while earliest(sim.back_H, sim.until_N) == state.now:
        node = sim.back_H[1]
        cancel(sim.back_H, sim.back_N, sim.until_N, node)
        come_back(sim, node)
    rows, jobs = sim.failure_X.shape[0], sim.job_J.shape[0]
    while state.failed < rows and sim.failure_X[state.failed].time == state.now:
        apply_failure(sim, state.failed)
        state.failed += 1
    _job_events(sim)
    while state.submitted < jobs and sim.job_J[state.submitted].submit == state.now:
        enqueue(sim, state.submitted)
        state.submitted += 1
    _pass(sim)


@part
def _job_events(sim: ScheduleState) -> None:
    state = sim.state_1[0]
    while earliest(sim.heap_H, sim.event_J) == state.now:
        j = sim.heap_H[1]
        cancel(sim.heap_H, sim.spot_J, sim.event_J, j)
        job = sim.job_J[j]
        if job.state == HELD:
            requeue(sim, j)
        elif job.state == RUNNING or state.now >= job.kill:
            done = job.state == RUNNING and (state.now - job.since) * job.allocated >= job.work
            end(sim, j, COMPLETED if done else TIMEOUT)
        elif job.state == STALLED:
            notice(sim, j)
        else:
            on_wait_timeout(sim, j)


@inlined
def _pass(sim: ScheduleState) -> None:
    """Start the jobs that can start."""
    state, rules = sim.state_1[0], sim.plan_1[0]
    state.split = 0
    if rules.response == REPLACE and state.waits:
        replace_nodes(sim)
    if state.tail == state.head:
        return
    sort_queue(sim)
    while state.tail > state.head:
        j = sim.queue_Q[state.head]
        ready = fits_by_count(sim, j) and choose(sim, sim.open_N, j)
        if not ready and rules.preemption and preempt(sim, j):
            position = state.head
            while sim.queue_Q[position] != j:
                position += 1
            choose(sim, sim.open_N, j)
            dequeue(sim, position)
            begin(sim, j)
            state.stale = 1
            continue
        if not ready:
            break
        dequeue(sim, state.head)
        begin(sim, j)
        state.stale = 1
    if state.tail > state.head:
        if rules.backfill == EASY and state.free:
            easy(sim)
        elif rules.backfill == CONSERVATIVE and state.free:
            conservative(sim)
        job = sim.job_J[sim.queue_Q[state.head]]
        state.split = job.nodes * job.gpus <= state.free
