"""Nodes and their GPUs: allocation and availability.

Shape legend: as in `state`.
"""

from __future__ import annotations

from perfatlas.compiled import inlined, part
from perfatlas.jobs.model import DOWN, DRAINING, NEVER, UP, World
from perfatlas.jobs.scheduler.event_queue import cancel, plan


@inlined
def _count(world: World, free: int, by: int) -> None:
    """Add or remove a node that is up in the counts by free GPUs."""
    state = world.state_1[0]
    world.free_F[free].count += by
    state.free += by * free
    if free < world.plan_1[0].gpus:
        state.partial += by * free


@inlined
def _count_out(world: World, up: int, free: int) -> None:
    """Add or remove the free GPUs of a node that is not up."""
    if up == DRAINING:
        world.state_1[0].draining += free
    else:
        world.state_1[0].down += free


@inlined
def set_free(world: World, node: int, free: int) -> None:
    """Set the free GPUs of a node.

    Args:
        world: The schedule.
        node: The node.
        free: Its free GPUs.
    """
    it = world.node_N[node]
    if free > it.free:
        world.state_1[0].stale = 1
    if it.up == UP:
        _count(world, it.free, -1)
        _count(world, free, 1)
        world.open_N[node] = free
    else:
        _count_out(world, it.up, free - it.free)
    it.free = free


@part
def set_up(world: World, node: int, up: int) -> None:
    """Set whether a node is up.

    Args:
        world: The schedule.
        node: The node.
        up: UP, DRAINING or DOWN.
    """
    it = world.node_N[node]
    world.state_1[0].stale = 1
    if it.up == UP:
        _count(world, it.free, -1)
    else:
        _count_out(world, it.up, -it.free)
    if up == UP:
        _count(world, it.free, 1)
    else:
        _count_out(world, up, it.free)
    world.open_N[node] = it.free if up == UP else -1
    it.up = up


@part
def repair(world: World, node: int, ticks: int) -> None:
    """Start the repair of a node, or extend the current one.

    Args:
        world: The schedule.
        node: The node.
        ticks: Repair time, below zero for never.
    """
    it = world.node_N[node]
    until = NEVER if ticks < 0 else world.state_1[0].now + ticks
    if it.up == DOWN:
        until = max(until, it.until)
    set_up(world, node, DOWN)
    it.until = until
    if until < NEVER:
        plan(world.back_H, world.back_N, world.until_N, node, until)
    else:
        cancel(world.back_H, world.back_N, world.until_N, node)


@inlined
def attach(world: World, j: int, node: int) -> None:
    """Allocate the GPUs of a job on a node.

    Args:
        world: The schedule.
        j: The job.
        node: A node with enough free GPUs.
    """
    job = world.job_J[j]
    place = node * world.plan_1[0].gpus
    while world.place_E[place].job >= 0:
        place += 1
    world.place_E[place].job = j
    world.place_E[place].after = job.first
    job.first = place
    world.user_U[job.user].active += job.gpus
    set_free(world, node, world.node_N[node].free - job.gpus)


@inlined
def detach(world: World, j: int, node: int) -> None:
    """Release the GPUs of a job on a node.

    Args:
        world: The schedule.
        j: The job.
        node: A node it holds, or -1 for all of them.
    """
    job, gpus = world.job_J[j], world.plan_1[0].gpus
    before, place = -1, job.first
    while place >= 0:
        after = world.place_E[place].after
        at = place // gpus
        if node in (-1, at):
            if before < 0:
                job.first = after
            else:
                world.place_E[before].after = after
            world.place_E[place].job = -1
            world.user_U[job.user].active -= job.gpus
            set_free(world, at, world.node_N[at].free + job.gpus)
            if world.node_N[at].up == DRAINING and world.node_N[at].free == gpus:
                repair(world, at, world.node_N[at].repair)
        else:
            before = place
        place = after
