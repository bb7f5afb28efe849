"""The queue of waiting jobs, in scheduling order.

Shape legend: as in `state`.
"""

from __future__ import annotations

import math

from perfatlas.compiled import inlined, part
from perfatlas.reliability.jobs.model import FAIR_SHARE, FIFO, PRIORITY, QUEUED, ScheduleState


@inlined
def before(sim: ScheduleState, number: int, other: int) -> bool:
    """Return whether a job precedes another in the queue."""
    a, b = sim.job_J[number], sim.job_J[other]
    order = sim.plan_1[0].order
    if order == PRIORITY and a.priority != b.priority:
        return bool(a.priority > b.priority)
    if order == FAIR_SHARE and sim.user_U[a.user].rank != sim.user_U[b.user].rank:
        return bool(sim.user_U[a.user].rank < sim.user_U[b.user].rank)
    if a.key != b.key:
        return bool(a.key < b.key)
    return number < other


@part
def enqueue(sim: ScheduleState, j: int) -> None:
    """Insert a job into the queue."""
    state, queue_Q, job = sim.state_1[0], sim.queue_Q, sim.job_J[j]
    job.state = QUEUED
    job.queued_at = state.now
    if state.tail == queue_Q.shape[0]:
        for position in range(state.head, state.tail):
            queue_Q[position - state.head] = queue_Q[position]
        state.tail -= state.head
        state.head = 0
        state.fresh = 0
    index = state.tail
    state.tail += 1
    while index > state.head and before(sim, j, queue_Q[index - 1]):
        queue_Q[index] = queue_Q[index - 1]
        index -= 1
    queue_Q[index] = j
    state.fresh = min(state.fresh, index)


@inlined
def dequeue(sim: ScheduleState, position: int) -> None:
    """Remove a job from the queue; those before it move up by one position."""
    state, queue_Q = sim.state_1[0], sim.queue_Q
    job = sim.job_J[queue_Q[position]]
    job.waited += state.now - job.queued_at
    while position > state.head:
        queue_Q[position] = queue_Q[position - 1]
        position -= 1
    state.head += 1


@part
def age_usage(sim: ScheduleState) -> None:
    """Update the usage of all users to the current time.

    Source: usage that decays with a half-life, as Slurm's PriorityDecayHalfLife; GPUs held over dt
        add GPUs h / ln 2 (1 - 2^(-dt/h)).
    """
    plan, state = sim.plan_1[0], sim.state_1[0]
    passed = state.now - state.usage_time
    if plan.order != FAIR_SHARE or passed == 0:
        return
    decay = 2.0 ** (-passed / plan.half_life)
    gain = plan.half_life / math.log(2.0) * (1.0 - decay)
    for user in range(sim.user_U.shape[0]):
        usage = sim.user_U[user].usage * decay + sim.user_U[user].active * gain
        sim.user_U[user].usage = usage
        sim.user_U[user].rank = usage / sim.user_U[user].share
    state.usage_time = state.now


@part
def sort_queue(sim: ScheduleState) -> None:
    """Sort the queue after usage has changed."""
    state, queue_Q = sim.state_1[0], sim.queue_Q
    if sim.plan_1[0].order == FIFO or sim.plan_1[0].order == PRIORITY:
        return
    for end in range(state.head + 1, state.tail):
        j, index = queue_Q[end], end
        while index > state.head and before(sim, j, queue_Q[index - 1]):
            queue_Q[index] = queue_Q[index - 1]
            index -= 1
        queue_Q[index] = j
