"""Nodes and their GPUs: allocation and availability.

Shape legend: as in `state`.
"""

from __future__ import annotations

from perfatlas.compiled import inlined, part
from perfatlas.reliability.jobs.model import DOWN, DRAINING, NEVER, UP, ScheduleState
from perfatlas.reliability.jobs.scheduler.event_queue import cancel, plan


@inlined
def _count(sim: ScheduleState, free: int, by: int) -> None:
    """Add or remove a node that is up in the counts by free GPUs."""
    state = sim.state_1[0]
    sim.free_F[free].count += by
    state.free += by * free
    if free < sim.plan_1[0].gpus:
        state.partial += by * free


@inlined
def _count_out(sim: ScheduleState, up: int, free: int) -> None:
    """Add or remove the free GPUs of a node that is not up."""
    if up == DRAINING:
        sim.state_1[0].draining += free
    else:
        sim.state_1[0].down += free


@inlined
def set_free(sim: ScheduleState, node: int, free: int) -> None:
    """Set the free GPUs of a node."""
    node_state = sim.node_N[node]
    if free > node_state.free:
        sim.state_1[0].stale = 1
    if node_state.up == UP:
        _count(sim, node_state.free, -1)
        _count(sim, free, 1)
        sim.open_N[node] = free
    else:
        _count_out(sim, node_state.up, free - node_state.free)
    node_state.free = free


@part
def set_up(sim: ScheduleState, node: int, up: int) -> None:
    """Set whether a node is up.

    Args:
        up: UP, DRAINING or DOWN.
    """
    node_state = sim.node_N[node]
    sim.state_1[0].stale = 1
    if node_state.up == UP:
        _count(sim, node_state.free, -1)
    else:
        _count_out(sim, node_state.up, -node_state.free)
    if up == UP:
        _count(sim, node_state.free, 1)
    else:
        _count_out(sim, up, node_state.free)
    sim.open_N[node] = node_state.free if up == UP else -1
    node_state.up = up


@part
def repair(sim: ScheduleState, node: int, ticks: int) -> None:
    """Start the repair of a node, or extend the current one."""
    node_state = sim.node_N[node]
    until = NEVER if ticks < 0 else sim.state_1[0].now + ticks
    if node_state.up == DOWN:
        until = max(until, node_state.until)
    set_up(sim, node, DOWN)
    node_state.until = until
    if until < NEVER:
        plan(sim.back_H, sim.back_N, sim.until_N, node, until)
    else:
        cancel(sim.back_H, sim.back_N, sim.until_N, node)


@inlined
def attach(sim: ScheduleState, j: int, node: int) -> None:
    """Allocate the GPUs of a job on a node."""
    job = sim.job_J[j]
    slot = node * sim.plan_1[0].gpus
    while sim.place_E[slot].job >= 0:
        slot += 1
    sim.place_E[slot].job = j
    sim.place_E[slot].after = job.first
    job.first = slot
    sim.user_U[job.user].active += job.gpus
    set_free(sim, node, sim.node_N[node].free - job.gpus)


@inlined
def detach(sim: ScheduleState, j: int, node: int) -> None:
    """Release the GPUs of a job on a node.

    Args:
        node: A node it holds, or -1 for all of them.
    """
    job, gpus = sim.job_J[j], sim.plan_1[0].gpus
    before, slot = -1, job.first
    while slot >= 0:
        after = sim.place_E[slot].after
        at = slot // gpus
        if node in (-1, at):
            if before < 0:
                job.first = after
            else:
                sim.place_E[before].after = after
            sim.place_E[slot].job = -1
            sim.user_U[job.user].active -= job.gpus
            set_free(sim, at, sim.node_N[at].free + job.gpus)
            if sim.node_N[at].up == DRAINING and sim.node_N[at].free == gpus:
                repair(sim, at, sim.node_N[at].repair)
        else:
            before = slot
        slot = after
