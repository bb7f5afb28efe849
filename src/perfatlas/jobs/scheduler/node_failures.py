"""Effect of node failures on jobs, before and after detection.

Shape legend: as in `state`.
"""

from __future__ import annotations

from perfatlas.compiled import part
from perfatlas.jobs.model import (
    DOWN,
    DRAINING,
    ELASTIC,
    REPLACE,
    RUNNING,
    SHRINK,
    STALLED,
    UP,
    WAITING,
    World,
)
from perfatlas.jobs.scheduler.attempts import (
    fail,
    give_up_nodes,
    leave_waits,
    regain,
    resume,
    settle,
)
from perfatlas.jobs.scheduler.event_queue import plan
from perfatlas.jobs.scheduler.nodes import detach, repair, set_up


@part
def apply_failure(world: World, row: int) -> None:
    """Apply a failure or a drain.

    Args:
        world: The schedule.
        row: Row of the failures.
    """
    event = world.failure_X[row]
    for node in range(event.node, event.node + event.width):
        it = world.node_N[node]
        if event.drain:
            _drain(world, node, event.repair)
            continue
        if it.up == DOWN:
            world.state_1[0].unseen += 1
        else:
            _disown(world, node)
        repair(world, node, event.repair)
        gpus = world.plan_1[0].gpus
        for place in range(node * gpus, (node + 1) * gpus):
            j = world.place_E[place].job
            if j >= 0:
                if world.plan_1[0].response == ELASTIC:
                    world.lost_E2[place, 0] = j
                    world.lost_E2[place, 1] = world.job_J[j].attempts
                _lose(world, j, node)


@part
def _disown(world: World, node: int) -> None:
    gpus = world.plan_1[0].gpus
    for place in range(node * gpus, (node + 1) * gpus):
        world.lost_E2[place, 0] = -1


@part
def _drain(world: World, node: int, ticks: int) -> None:
    it = world.node_N[node]
    if it.up != UP:
        world.state_1[0].unseen += 1
    elif it.free == world.plan_1[0].gpus:
        repair(world, node, ticks)
    else:
        it.repair = ticks
        set_up(world, node, DRAINING)


@part
def _lose(world: World, j: int, node: int) -> None:
    """Remove a failed node from a job; the job makes no progress until detection."""
    job, rules, now = world.job_J[j], world.plan_1[0], world.state_1[0].now
    settle(world, j, False)  # noqa: FBT003
    detach(world, j, node)
    job.held -= 1
    job.lost += 1
    job.lost_node = node
    if job.state == RUNNING:
        job.state = STALLED
        wake = min(now + rules.detection, job.kill)
        plan(world.heap_H, world.spot_J, world.event_J, j, wake)
    elif job.state == WAITING and rules.response == REPLACE:
        plan(world.heap_H, world.spot_J, world.event_J, j, now)


@part
def notice(world: World, j: int) -> None:
    """Apply the response of the launcher when it detects a lost node.

    Args:
        world: The schedule.
        j: A job with an undetected failure.
    """
    job, rules = world.job_J[j], world.plan_1[0]
    if rules.response == SHRINK and job.held >= max(job.fewest, 1):
        settle(world, j, False)  # noqa: FBT003
        resume(world, j, True)  # noqa: FBT003
    elif rules.response == ELASTIC:
        job.counted += 1
        if job.counted > rules.most_restarts:
            fail(world, j)
        elif job.held >= max(job.fewest, 1):
            settle(world, j, False)  # noqa: FBT003
            resume(world, j, True)  # noqa: FBT003
        else:
            _wait(world, j)
    elif rules.response == REPLACE and job.lost == 1:
        _wait(world, j)
    else:
        give_up_nodes(world, j)


@part
def _wait(world: World, j: int) -> None:
    """Keep the other nodes and wait for a replacement."""
    job, state, place = world.job_J[j], world.state_1[0], world.state_1[0].waits
    settle(world, j, False)  # noqa: FBT003
    job.state = WAITING
    state.waits += 1
    while place > 0 and world.job_J[place - 1].wait_list > j:
        world.job_J[place].wait_list = world.job_J[place - 1].wait_list
        place -= 1
    world.job_J[place].wait_list = j
    wake = min(state.now + world.plan_1[0].patience, job.kill)
    plan(world.heap_H, world.spot_J, world.event_J, j, wake)


@part
def run_out_of_patience(world: World, j: int) -> None:
    """Stop a job that has waited for a node too long.

    Args:
        world: The schedule.
        j: A job that waits.
    """
    if world.plan_1[0].response == ELASTIC:
        fail(world, j)
    else:
        give_up_nodes(world, j)


@part
def come_back(world: World, node: int) -> None:
    """Return a repaired node to service; elastic jobs that lost it add it again.

    Args:
        world: The schedule.
        node: The node.
    """
    gpus = world.plan_1[0].gpus
    set_up(world, node, UP)
    if world.plan_1[0].response != ELASTIC:
        return
    for place in range(node * gpus, (node + 1) * gpus):
        j = world.lost_E2[place, 0]
        if j >= 0 and world.job_J[j].attempts == world.lost_E2[place, 1]:
            _take_in(world, j, node)
    _disown(world, node)


@part
def _take_in(world: World, j: int, node: int) -> None:
    """Add a lost node to an elastic job again, if it still needs it."""
    job = world.job_J[j]
    if job.state not in (RUNNING, STALLED, WAITING):
        return
    settle(world, j, False)  # noqa: FBT003
    regain(world, j, node)
    if job.state == RUNNING:
        resume(world, j, True)  # noqa: FBT003
    elif job.state == WAITING and job.held >= job.fewest:
        leave_waits(world, j)
        resume(world, j, True)  # noqa: FBT003


@part
def replace_nodes(world: World) -> None:
    """Assign free nodes to jobs that wait for one, near the lost node first.

    Args:
        world: The schedule.
    """
    state, place = world.state_1[0], 0
    while place < state.waits:
        j = world.job_J[place].wait_list
        node = _replacement(world, j)
        if node < 0:
            place += 1
            continue
        settle(world, j, False)  # noqa: FBT003
        leave_waits(world, j)
        regain(world, j, node)
        state.stale = 1
        resume(world, j, True)  # noqa: FBT003


@part
def _holds(world: World, j: int, node: int) -> bool:
    gpus = world.plan_1[0].gpus
    found = False
    for place in range(node * gpus, (node + 1) * gpus):
        found = found or world.place_E[place].job == j
    return found


@part
def _replacement(world: World, j: int) -> int:
    """Return a replacement for the lost node, -1 for none."""
    rules, job = world.plan_1[0], world.job_J[j]
    lost, gpus = job.lost_node, job.gpus
    for level in range(rules.level, 4):
        size = rules.domain if level == 1 else rules.leaf
        first, last = lost - lost % size, lost - lost % size + size
        if level in (0, 3):
            first, last = 0, rules.nodes
        best = -1
        for node in range(first, min(last, rules.nodes)):
            room = world.open_N[node]
            closer = best < 0 or (rules.best_fit and room < world.open_N[best])
            if room >= gpus and closer and not _holds(world, j, node):
                best = node
        if best >= 0 or level == 0 or (rules.required and level < 3):
            return best
    return -1
