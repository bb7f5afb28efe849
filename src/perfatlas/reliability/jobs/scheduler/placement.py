"""Placement of gangs: all nodes or none, with optional locality.

Shape legend: as in `state`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from perfatlas.compiled import inlined, part
from perfatlas.reliability.jobs.model import ScheduleState  # noqa: TC001 - as in the other parts

Ints = NDArray[np.int64]


@inlined
def fits_by_count(sim: ScheduleState, j: int) -> bool:
    """Return whether enough nodes have enough free GPUs now, in any location."""
    job = sim.job_J[j]
    wanted, fitting = job.nodes, 0
    for free in range(job.gpus, sim.plan_1[0].gpus + 1):
        fitting += sim.free_F[free].count
    return bool(fitting >= wanted)


@part
def choose(sim: ScheduleState, avail_N: Ints, j: int) -> bool:
    """Choose the nodes of a job, without other effects; `chosen_N` then holds them.

    Source: the levels of Kueue's topology-aware scheduling: within one domain, else one level up,
        else over few domains, those with the most room first. `best_fit` takes the domain with the
        least sufficient room, otherwise the first one.
    """
    plan, job = sim.plan_1[0], sim.job_J[j]
    wanted, gpus = job.nodes, job.gpus
    if plan.level == 0:
        return bool(_take(sim, avail_N, (0, plan.nodes), gpus, (0, wanted)) == wanted)
    for level in range(plan.level, 3):
        size = plan.domain if level == 1 else plan.leaf
        first = _group(sim, avail_N, size, wanted, gpus)
        if first >= 0:
            ends = (first, min(first + size, plan.nodes))
            return bool(_take(sim, avail_N, ends, gpus, (0, wanted)) == wanted)
        if plan.required:
            return False
    return bool(_spread(sim, avail_N, gpus, wanted))


@inlined
def _room(avail_N: Ints, ends: tuple[int, int], gpus: int) -> int:
    fitting = 0
    for node in range(ends[0], ends[1]):
        fitting += avail_N[node] >= gpus
    return fitting


@part
def _group(sim: ScheduleState, avail_N: Ints, size: int, wanted: int, gpus: int) -> int:
    """Return the first node of the group that fits a job, -1 for none."""
    plan = sim.plan_1[0]
    best, least = -1, plan.nodes + 1
    for first in range(0, plan.nodes, size):
        room = _room(avail_N, (first, min(first + size, plan.nodes)), gpus)
        if wanted <= room < least:
            best, least = first, room
            if not plan.best_fit:
                break
    return best


@part
def _take(
    sim: ScheduleState, avail_N: Ints, ends: tuple[int, int], gpus: int, span: tuple[int, int]
) -> int:
    """Fill `chosen_N` from span[0] up to span[1] with nodes of a range; return the end."""
    have, wanted = span
    plan = sim.plan_1[0]
    if not plan.best_fit or gpus == plan.gpus:
        for node in range(ends[0], ends[1]):
            if have == wanted:
                break
            if avail_N[node] >= gpus:
                sim.node_N[have].chosen = node
                have += 1
        return have
    for free in range(gpus, plan.gpus + 1):
        for node in range(ends[0], ends[1]):
            if have == wanted:
                return have
            if avail_N[node] == free:
                sim.node_N[have].chosen = node
                have += 1
    return have


@part
def _spread(sim: ScheduleState, avail_N: Ints, gpus: int, wanted: int) -> bool:
    """Fill `chosen_N` from the domains with the most room."""
    plan = sim.plan_1[0]
    groups, total = 0, 0
    for first in range(0, plan.nodes, plan.domain):
        room = _room(avail_N, (first, min(first + plan.domain, plan.nodes)), gpus)
        sim.node_N[groups].group = room
        total += room
        groups += 1
    if total < wanted:
        return False
    have = 0
    while have < wanted:
        best = 0
        for group in range(1, groups):
            if sim.node_N[group].group > sim.node_N[best].group:
                best = group
        sim.node_N[best].group = -1
        first = best * plan.domain
        ends = (first, min(first + plan.domain, plan.nodes))
        have = _take(sim, avail_N, ends, gpus, (have, wanted))
    return True


@part
def domains_of(sim: ScheduleState, j: int) -> int:
    """Return the number of domains of a job."""
    plan = sim.plan_1[0]
    for group in range((plan.nodes + plan.domain - 1) // plan.domain):
        sim.node_N[group].group = 0
    spread, slot = 0, sim.job_J[j].first
    while slot >= 0:
        group = slot // plan.gpus // plan.domain
        if not sim.node_N[group].group:
            spread += 1
        sim.node_N[group].group = 1
        slot = sim.place_E[slot].after
    return spread
