"""Preemption of jobs of lower priority by jobs of higher priority.

Shape legend: as in `state`.
"""

from __future__ import annotations

from perfatlas.compiled import part
from perfatlas.jobs.model import CANCEL, PREEMPTED, UP, World
from perfatlas.jobs.scheduler.attempts import requeue, stop
from perfatlas.jobs.scheduler.placement import choose


@part
def preempt(world: World, j: int) -> bool:
    """Preempt as few jobs as needed for a job to start; none where that would not suffice.

    Victims are chosen by lowest priority, then latest start; then unneeded victims are spared, last
    chosen first. Jobs that must not be requeued are cancelled.

    Args:
        world: The schedule.
        j: The job to start.

    Source: Slurm's PreemptMode REQUEUE and CANCEL with preempt_youngest_first; slurm.conf(5):
        REQUEUE preempts "by requeuing them (if possible) or canceling them".
    """
    victims = _pick(world, j)
    if victims == 0:
        return False
    for place in range(victims - 1, -1, -1):
        victim = world.job_J[place].victim_list
        _lend(world, victim, -1)
        if choose(world, world.trial_N, j):
            world.job_J[victim].chosen = 0
        else:
            _lend(world, victim, 1)
    for place in range(victims):
        victim = world.job_J[place].victim_list
        job = world.job_J[victim]
        if not job.chosen:
            continue
        job.chosen = 0
        job.preempted += 1
        stop(world, victim)
        if world.plan_1[0].preemption == CANCEL or not job.requeue:
            job.state, job.ended = PREEMPTED, world.state_1[0].now
            world.state_1[0].left -= 1
        else:
            requeue(world, victim)
    return True


@part
def _pick(world: World, j: int) -> int:
    """Choose victims until the job fits, into `victim_R`."""
    state, wanted = world.state_1[0], world.job_J[j].priority
    for node in range(world.open_N.shape[0]):
        world.trial_N[node] = world.open_N[node]
    victims, enough = 0, False
    while not enough:
        best = -1
        for place in range(state.runs):
            other = world.run_R[place]
            it = world.job_J[other]
            if it.priority < wanted and not it.chosen and _sooner(world, other, best):
                best = other
        if best < 0:
            break
        world.job_J[best].chosen = 1
        world.job_J[victims].victim_list = best
        victims += 1
        _lend(world, best, 1)
        enough = choose(world, world.trial_N, j)
    if not enough:
        for place in range(victims):
            world.job_J[world.job_J[place].victim_list].chosen = 0
        victims = 0
    return victims


@part
def _sooner(world: World, one: int, other: int) -> bool:
    """Return whether a job is preempted before another, -1 for none."""
    if other < 0:
        return True
    a, b = world.job_J[one], world.job_J[other]
    if a.priority != b.priority:
        return bool(a.priority < b.priority)
    if a.begun != b.begun:
        return bool(a.begun > b.begun)
    return one > other


@part
def _lend(world: World, j: int, by: int) -> None:
    """Add the GPUs of a job to the trial, or subtract them."""
    gpus, place = world.plan_1[0].gpus, world.job_J[j].first
    while place >= 0:
        node = place // gpus
        if world.node_N[node].up == UP:
            world.trial_N[node] += by * world.job_J[j].gpus
        place = world.place_E[place].after
