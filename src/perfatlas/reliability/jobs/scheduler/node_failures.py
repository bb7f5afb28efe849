"""Effect of node failures on jobs, before and after detection.

Shape legend: as in `state`.
"""

from __future__ import annotations

from perfatlas.compiled import part
from perfatlas.reliability.jobs.model import (
    DOWN,
    DRAINING,
    ELASTIC,
    REPLACE,
    RUNNING,
    SHRINK,
    STALLED,
    UP,
    WAITING,
    ScheduleState,
)
from perfatlas.reliability.jobs.scheduler.attempts import (
    fail,
    give_up_nodes,
    leave_waits,
    regain,
    resume,
    settle,
)
from perfatlas.reliability.jobs.scheduler.event_queue import plan
from perfatlas.reliability.jobs.scheduler.nodes import detach, repair, set_up


@part
def apply_failure(sim: ScheduleState, row: int) -> None:
    """Apply a failure or a drain."""
    event = sim.failure_X[row]
    for node in range(event.node, event.node + event.width):
        node_state = sim.node_N[node]
        if event.drain:
            _drain(sim, node, event.repair)
            continue
        if node_state.up == DOWN:
            sim.state_1[0].unseen += 1
        else:
            _release_node(sim, node)
        repair(sim, node, event.repair)
        gpus = sim.plan_1[0].gpus
        for index in range(node * gpus, (node + 1) * gpus):
            j = sim.place_E[index].job
            if j >= 0:
                if sim.plan_1[0].response == ELASTIC:
                    sim.lost_E2[index, 0] = j
                    sim.lost_E2[index, 1] = sim.job_J[j].attempts
                _drop_node(sim, j, node)


@part
def _release_node(sim: ScheduleState, node: int) -> None:
    gpus = sim.plan_1[0].gpus
    for index in range(node * gpus, (node + 1) * gpus):
        sim.lost_E2[index, 0] = -1


@part
def _drain(sim: ScheduleState, node: int, ticks: int) -> None:
    node_state = sim.node_N[node]
    if node_state.up != UP:
        sim.state_1[0].unseen += 1
    elif node_state.free == sim.plan_1[0].gpus:
        repair(sim, node, ticks)
    else:
        node_state.repair = ticks
        set_up(sim, node, DRAINING)


@part
def _drop_node(sim: ScheduleState, j: int, node: int) -> None:
    """Remove a failed node from a job; the job makes no progress until detection."""
    job, rules, now = sim.job_J[j], sim.plan_1[0], sim.state_1[0].now
    settle(sim, j, False)  # noqa: FBT003
    detach(sim, j, node)
    job.allocated -= 1
    job.lost += 1
    job.lost_node = node
    if job.state == RUNNING:
        job.state = STALLED
        wake = min(now + rules.detection, job.kill)
        plan(sim.heap_H, sim.spot_J, sim.event_J, j, wake)
    elif job.state == WAITING and rules.response == REPLACE:
        plan(sim.heap_H, sim.spot_J, sim.event_J, j, now)


@part
def notice(sim: ScheduleState, j: int) -> None:
    """Apply the response of the launcher when it detects a lost node."""
    job, rules = sim.job_J[j], sim.plan_1[0]
    if rules.response == SHRINK and job.allocated >= max(job.fewest, 1):
        settle(sim, j, False)  # noqa: FBT003
        resume(sim, j, True)  # noqa: FBT003
    elif rules.response == ELASTIC:
        job.counted += 1
        if job.counted > rules.most_restarts:
            fail(sim, j)
        elif job.allocated >= max(job.fewest, 1):
            settle(sim, j, False)  # noqa: FBT003
            resume(sim, j, True)  # noqa: FBT003
        else:
            _wait(sim, j)
    elif rules.response == REPLACE and job.lost == 1:
        _wait(sim, j)
    else:
        give_up_nodes(sim, j)


@part
def _wait(sim: ScheduleState, j: int) -> None:
    """Keep the other nodes and wait for a replacement."""
    job, state, rank = sim.job_J[j], sim.state_1[0], sim.state_1[0].waits
    settle(sim, j, False)  # noqa: FBT003
    job.state = WAITING
    state.waits += 1
    while rank > 0 and sim.job_J[rank - 1].wait_list > j:
        sim.job_J[rank].wait_list = sim.job_J[rank - 1].wait_list
        rank -= 1
    sim.job_J[rank].wait_list = j
    wake = min(state.now + sim.plan_1[0].patience, job.kill)
    plan(sim.heap_H, sim.spot_J, sim.event_J, j, wake)


@part
def on_wait_timeout(sim: ScheduleState, j: int) -> None:
    """Stop a job that has waited for a node too long."""
    if sim.plan_1[0].response == ELASTIC:
        fail(sim, j)
    else:
        give_up_nodes(sim, j)


@part
def come_back(sim: ScheduleState, node: int) -> None:
    """Return a repaired node to service; elastic jobs that lost it add it again."""
    gpus = sim.plan_1[0].gpus
    set_up(sim, node, UP)
    if sim.plan_1[0].response != ELASTIC:
        return
    for index in range(node * gpus, (node + 1) * gpus):
        j = sim.lost_E2[index, 0]
        if j >= 0 and sim.job_J[j].attempts == sim.lost_E2[index, 1]:
            _rejoin_node(sim, j, node)
    _release_node(sim, node)


@part
def _rejoin_node(sim: ScheduleState, j: int, node: int) -> None:
    """Add a lost node to an elastic job again, if it still needs it."""
    job = sim.job_J[j]
    if job.state not in (RUNNING, STALLED, WAITING):
        return
    settle(sim, j, False)  # noqa: FBT003
    regain(sim, j, node)
    if job.state == RUNNING:
        resume(sim, j, True)  # noqa: FBT003
    elif job.state == WAITING and job.allocated >= job.fewest:
        leave_waits(sim, j)
        resume(sim, j, True)  # noqa: FBT003


@part
def replace_nodes(sim: ScheduleState) -> None:
    """Assign free nodes to jobs that wait for one, near the lost node first."""
    state, index = sim.state_1[0], 0
    while index < state.waits:
        j = sim.job_J[index].wait_list
        node = _replacement(sim, j)
        if node < 0:
            index += 1
            continue
        settle(sim, j, False)  # noqa: FBT003
        leave_waits(sim, j)
        regain(sim, j, node)
        state.stale = 1
        resume(sim, j, True)  # noqa: FBT003


@part
def _holds(sim: ScheduleState, j: int, node: int) -> bool:
    gpus = sim.plan_1[0].gpus
    assigned = False
    for index in range(node * gpus, (node + 1) * gpus):
        assigned = assigned or sim.place_E[index].job == j
    return assigned


@part
def _replacement(sim: ScheduleState, j: int) -> int:
    """Return a replacement for the lost node, -1 for none."""
    rules, job = sim.plan_1[0], sim.job_J[j]
    lost, gpus = job.lost_node, job.gpus
    for level in range(rules.level, 4):
        size = rules.domain if level == 1 else rules.leaf
        first, last = lost - lost % size, lost - lost % size + size
        if level in (0, 3):
            first, last = 0, rules.nodes
        best = -1
        for node in range(first, min(last, rules.nodes)):
            room = sim.open_N[node]
            closer = best < 0 or (rules.best_fit and room < sim.open_N[best])
            if room >= gpus and closer and not _holds(sim, j, node):
                best = node
        if best >= 0 or level == 0 or (rules.required and level < 3):
            return best
    return -1
