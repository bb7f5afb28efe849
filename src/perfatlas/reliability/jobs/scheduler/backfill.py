"""Backfill: jobs that start early without delaying the jobs before them.

Shape legend: as in `state`.
"""

from __future__ import annotations

from perfatlas.compiled import inlined, part
from perfatlas.reliability.jobs.model import FAIR_SHARE, NEVER, UP, ScheduleState
from perfatlas.reliability.jobs.scheduler.attempts import begin
from perfatlas.reliability.jobs.scheduler.placement import choose, fits_by_count
from perfatlas.reliability.jobs.scheduler.queue import dequeue


@part
def easy(sim: ScheduleState) -> None:
    """Start jobs behind the head of the queue that do not delay its reservation.

    The head gets a reservation of specific nodes at the earliest time at which, by their time
    limits, enough jobs have ended. Another job may start if its own limit ends by then, or if it
    does not use the reserved GPUs. The reservation is renewed when GPUs became free, nodes failed
    or returned, or the head changed; in between only jobs that are new in the queue or within the
    depth are tested, as what did not fit before does not fit now.

    Source: Lifka, "The ANL/IBM SP scheduling system", JSSPP 1995 (EASY); node by node as Slurm's
        sched/backfill does it.
    """
    state, head = sim.state_1[0], sim.queue_Q[sim.state_1[0].head]
    position = state.head + 1
    last = min(state.tail, position + sim.plan_1[0].depth)
    if state.stale or head != state.last_head or sim.plan_1[0].order == FAIR_SHARE:
        state.due = _reserve(sim, head)
        state.last_head, state.stale = head, 0
    else:
        position = max(position, state.fresh)
    for width in range(sim.free_F.shape[0]):
        sim.free_F[width].refused[0] = sim.free_F[width].refused[1] = NEVER
    while position < last and state.free:
        j = sim.queue_Q[position]
        limit = sim.ask_J3[j, 2]
        overlaps = int(state.due < NEVER and (limit == NEVER or state.now + limit > state.due))
        if not _refused(sim, j, overlaps):
            if _fits_reservation(sim, j, overlaps):
                dequeue(sim, position)
                begin(sim, j)
                state.backfilled += 1
            else:
                sim.free_F[sim.ask_J3[j, 1]].refused[overlaps] = sim.ask_J3[j, 0]
        position += 1
    state.fresh = last


@inlined
def _refused(sim: ScheduleState, j: int, overlaps: int) -> bool:
    """Return whether as many nodes already failed to fit in this pass."""
    nodes, gpus = sim.ask_J3[j, 0], sim.ask_J3[j, 1]
    return bool(
        nodes >= sim.free_F[gpus].refused[0] or (overlaps and nodes >= sim.free_F[gpus].refused[1])
    )


@part
def _reserve(sim: ScheduleState, head: int) -> int:
    """Return the time of the head's reservation; fields `reserved` and `future_N` then hold it."""
    state, job, gpus = sim.state_1[0], sim.job_J[head], sim.plan_1[0].gpus
    fitting, index = 0, 0
    for node in range(sim.open_N.shape[0]):
        sim.future_N[node] = sim.open_N[node]
        sim.node_N[node].reserved = 0
        fitting += sim.open_N[node] >= job.gpus
    while index < state.runs:
        due = sim.job_J[sim.run_R[index]].kill
        if due == NEVER:
            break
        while index < state.runs and sim.job_J[sim.run_R[index]].kill == due:
            running = sim.job_J[sim.run_R[index]]
            at = running.first
            while at >= 0:
                node = at // gpus
                if sim.node_N[node].up == UP:
                    was = sim.future_N[node]
                    sim.future_N[node] = was + running.gpus
                    fitting += was < job.gpus <= was + running.gpus
                at = sim.place_E[at].after
            index += 1
        if fitting >= job.nodes and choose(sim, sim.future_N, head):
            for have in range(job.nodes):
                sim.node_N[sim.node_N[have].chosen].reserved = job.gpus
            if job.promised == NEVER:
                job.promised = due
            return int(due)
    return NEVER


@part
def _fits_reservation(sim: ScheduleState, j: int, overlaps: int) -> bool:
    """Choose nodes for a job that respect the reservation; return whether there are any."""
    if not fits_by_count(sim, j):
        sim.free_F[sim.ask_J3[j, 1]].refused[0] = sim.ask_J3[j, 0]
        return False
    if not overlaps:
        return bool(choose(sim, sim.open_N, j))
    job = sim.job_J[j]
    for node in range(sim.open_N.shape[0]):
        spared = sim.future_N[node] - sim.node_N[node].reserved
        sim.trial_N[node] = min(sim.open_N[node], spared)
    if not choose(sim, sim.trial_N, j):
        return False
    for have in range(job.nodes):
        sim.future_N[sim.node_N[have].chosen] -= job.gpus
    return True


@part
def conservative(sim: ScheduleState) -> None:
    """Make reservations for the first jobs of the queue in order; start those due now.

    Only reservations that affect which jobs start now are computed: the last jobs are skipped as
    long as they could not start even without further reservations. The head of the queue always
    gets its reservation, which is reported.

    The reservations of the last pass are kept where no GPUs became free, no node failed or
    returned, and the queue is unchanged over their range, as recomputing would give the same.
    Before its reservation a job did not fit and does not fit now, as no more is free and a later
    start ends no earlier. At its start its nodes are still free, as jobs started meanwhile avoided
    them. A first-fit choice is unchanged when other nodes are removed. A choice of the fullest
    nodes or of the domains with the most room is not: then a start recomputes all reservations.

    Source: conservative backfill of Mualem & Feitelson, IEEE TPDS 12(6), 2001; reservations are
        recomputed at each pass, as in Slurm, for `depth` jobs.
    """
    state, rules = sim.state_1[0], sim.plan_1[0]
    position, seen = state.planned, min(state.fresh, state.viewed)
    if state.stale or state.fresh < state.planned or rules.order == FAIR_SHARE:
        _plan_reservations(sim)
        position = seen = state.head
        state.stale = 0
    head, last = state.head, min(state.tail, state.head + rules.depth)
    state.viewed = last
    while max(position, seen) < last:
        j = sim.queue_Q[position]
        promises = position == head and sim.job_J[j].promised == NEVER
        if not (promises or _starts(sim, sim.queue_Q[last - 1])):
            last -= 1
            continue
        begins = _slot(sim, j, NEVER - 1)
        if promises:
            sim.job_J[j].promised = begins
        if begins < NEVER:
            job = sim.job_J[j]
            for have in range(job.nodes):
                node = sim.node_N[have].chosen
                first = _span_from(sim, node, begins) if begins > state.now else 0
                end = sim.node_N[node].spans
                if begins + job.limit < NEVER:
                    end = _span_from(sim, node, begins + job.limit)
                for at in range(first, end):
                    sim.free_SN[at, node] -= job.gpus
        if begins == state.now:
            state.backfilled += position > head
            dequeue(sim, position)
            begin(sim, j)
            if rules.best_fit or (rules.level and not rules.required):
                state.stale = 1  # other nodes may be chosen now
        position += 1
    state.planned, state.fresh = position, NEVER


@inlined
def _starts(sim: ScheduleState, j: int) -> bool:
    """Return whether a job could start now without further reservations."""
    return bool(fits_by_count(sim, j) and _slot(sim, j, sim.state_1[0].now) < NEVER)


@part
def _plan_reservations(sim: ScheduleState) -> None:
    """Write the future free GPUs of each node, assuming that running jobs reach their limits."""
    state, gpus = sim.state_1[0], sim.plan_1[0].gpus
    for node in range(sim.open_N.shape[0]):
        sim.begins_SN[0, node] = state.now
        sim.free_SN[0, node] = sim.open_N[node]
        sim.begins_SN[1, node] = NEVER
        sim.node_N[node].spans = 1
    for index in range(state.runs):
        job = sim.job_J[sim.run_R[index]]
        if job.kill >= NEVER:
            break
        at = job.first
        while at >= 0:
            node = at // gpus
            if sim.node_N[node].up == UP:
                sim.free_SN[_span_from(sim, node, job.kill), node] += job.gpus
            at = sim.place_E[at].after


@part
def _span_from(sim: ScheduleState, node: int, time: int) -> int:
    """Return the time span of a node that starts at a time, splitting the one that contains it."""
    begins_S, free_S = sim.begins_SN[:, node], sim.free_SN[:, node]
    spans = at = sim.node_N[node].spans
    while begins_S[at - 1] > time:
        at -= 1
    if begins_S[at - 1] == time:
        return int(at - 1)
    begins_S[spans + 1] = NEVER
    for after in range(spans, at, -1):
        begins_S[after] = begins_S[after - 1]
        free_S[after] = free_S[after - 1]
    begins_S[at] = time
    free_S[at] = free_S[at - 1]
    sim.node_N[node].spans += 1
    return int(at)


@part
def _slot(sim: ScheduleState, j: int, latest: int) -> int:
    """Return the earliest start of a job, NEVER if later than a time; `chosen_N` holds its nodes.

    Time advances to where the next node becomes free for long enough.
    """
    job, time, soonest_N = sim.job_J[j], sim.state_1[0].now, sim.soonest_N
    for node in range(soonest_N.shape[0]):
        full = latest == time and sim.open_N[node] < job.gpus
        soonest_N[node] = NEVER if full else -1
    while time <= latest:
        for node in range(soonest_N.shape[0]):
            if soonest_N[node] < time:
                _write_free_time(sim, node, (time, latest), (job.gpus, job.limit))
                if job.nodes == 1:
                    latest = min(latest, soonest_N[node])
        fitting, soonest = 0, NEVER
        for node in range(soonest_N.shape[0]):
            fitting += soonest_N[node] == time
            soonest = min(soonest, soonest_N[node] if soonest_N[node] > time else NEVER)
        if fitting >= job.nodes:
            for node in range(soonest_N.shape[0]):
                sim.trial_N[node] = sim.least_N[node] if soonest_N[node] == time else -1
            if choose(sim, sim.trial_N, j):
                return int(time)
        time = soonest
    return NEVER


@inlined
def _write_free_time(
    sim: ScheduleState, node: int, reach: tuple[int, int], ask: tuple[int, int]
) -> None:
    """Write the time from which a node is free for long enough, and its fewest free GPUs then.

    Beyond `reach` it is only marked as later.
    """
    (time, latest), (gpus, limit) = reach, ask
    at, least = 0, NEVER
    while sim.begins_SN[at + 1, node] <= time:
        at += 1
    while time <= latest:
        free = sim.free_SN[at, node]
        at += 1
        ends = sim.begins_SN[at, node]
        if free < gpus:
            time, least = ends, NEVER
        else:
            least = min(least, free)
            if ends == NEVER or ends - time >= limit:
                break
    sim.soonest_N[node] = time
    sim.least_N[node] = least
