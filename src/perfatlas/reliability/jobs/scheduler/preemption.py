"""Preemption of jobs of lower priority by jobs of higher priority.

Shape legend: as in `state`.
"""

from __future__ import annotations

from perfatlas.compiled import part
from perfatlas.reliability.jobs.model import CANCEL, PREEMPTED, UP, ScheduleState
from perfatlas.reliability.jobs.scheduler.attempts import requeue, stop
from perfatlas.reliability.jobs.scheduler.placement import choose


@part
def preempt(sim: ScheduleState, j: int) -> bool:
    """Preempt as few jobs as needed for a job to start; none where that would not suffice.

    Victims are chosen by lowest priority, then latest start; then unneeded victims are spared, last
    chosen first. Jobs that must not be requeued are cancelled.

    Source: Slurm's PreemptMode REQUEUE and CANCEL with preempt_youngest_first; slurm.conf(5):
        REQUEUE preempts "by requeuing them (if possible) or canceling them".
    """
    victims = _pick(sim, j)
    if victims == 0:
        return False
    for index in range(victims - 1, -1, -1):
        victim = sim.job_J[index].victim_list
        _lend(sim, victim, -1)
        if choose(sim, sim.trial_N, j):
            sim.job_J[victim].chosen = 0
        else:
            _lend(sim, victim, 1)
    for position in range(victims):
        victim = sim.job_J[position].victim_list
        job = sim.job_J[victim]
        if not job.chosen:
            continue
        job.chosen = 0
        job.preempted += 1
        stop(sim, victim)
        if sim.plan_1[0].preemption == CANCEL or not job.requeue:
            job.state, job.ended = PREEMPTED, sim.state_1[0].now
            sim.state_1[0].left -= 1
        else:
            requeue(sim, victim)
    return True


@part
def _pick(sim: ScheduleState, j: int) -> int:
    """Choose victims until the job fits, into `victim_R`."""
    state, wanted = sim.state_1[0], sim.job_J[j].priority
    for node in range(sim.open_N.shape[0]):
        sim.trial_N[node] = sim.open_N[node]
    victims, enough = 0, False
    while not enough:
        best = -1
        for index in range(state.runs):
            other = sim.run_R[index]
            candidate = sim.job_J[other]
            if candidate.priority < wanted and not candidate.chosen and _precedes(sim, other, best):
                best = other
        if best < 0:
            break
        sim.job_J[best].chosen = 1
        sim.job_J[victims].victim_list = best
        victims += 1
        _lend(sim, best, 1)
        enough = choose(sim, sim.trial_N, j)
    if not enough:
        for position in range(victims):
            sim.job_J[sim.job_J[position].victim_list].chosen = 0
        victims = 0
    return victims


@part
def _precedes(sim: ScheduleState, number: int, other: int) -> bool:
    """Return whether a job is preempted before another, -1 for none."""
    if other < 0:
        return True
    a, b = sim.job_J[number], sim.job_J[other]
    if a.priority != b.priority:
        return bool(a.priority < b.priority)
    if a.begun != b.begun:
        return bool(a.begun > b.begun)
    return number > other


@part
def _lend(sim: ScheduleState, j: int, by: int) -> None:
    """Add the GPUs of a job to the trial, or subtract them."""
    gpus, slot = sim.plan_1[0].gpus, sim.job_J[j].first
    while slot >= 0:
        node = slot // gpus
        if sim.node_N[node].up == UP:
            sim.trial_N[node] += by * sim.job_J[j].gpus
        slot = sim.place_E[slot].after
