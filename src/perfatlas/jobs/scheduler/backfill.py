"""Backfill: jobs that start early without delaying the jobs before them.

Shape legend: as in `state`.
"""

from __future__ import annotations

from perfatlas.compiled import inlined, part
from perfatlas.jobs.model import FAIR_SHARE, NEVER, UP, World
from perfatlas.jobs.scheduler.attempts import begin
from perfatlas.jobs.scheduler.placement import choose, fits_by_count
from perfatlas.jobs.scheduler.queue import dequeue


@part
def easy(world: World) -> None:
    """Start jobs behind the head of the queue that do not delay its reservation.

    The head gets a reservation of specific nodes at the earliest time at which, by their time
    limits, enough jobs have ended. Another job may start if its own limit ends by then, or if it
    does not use the reserved GPUs. The reservation is renewed when GPUs became free, nodes failed
    or returned, or the head changed; in between only jobs that are new in the queue or within the
    depth are tested, as what did not fit before does not fit now.

    Args:
        world: The schedule.

    Source: Lifka, "The ANL/IBM SP scheduling system", JSSPP 1995 (EASY); node by node as Slurm's
        sched/backfill does it.
    """
    state, head = world.state_1[0], world.queue_Q[world.state_1[0].head]
    place = state.head + 1
    last = min(state.tail, place + world.plan_1[0].depth)
    if state.stale or head != state.last_head or world.plan_1[0].order == FAIR_SHARE:
        state.due = _promise(world, head)
        state.last_head, state.stale = head, 0
    else:
        place = max(place, state.fresh)
    for width in range(world.free_F.shape[0]):
        world.free_F[width].refused[0] = world.free_F[width].refused[1] = NEVER
    while place < last and state.free:
        j = world.queue_Q[place]
        limit = world.ask_J3[j, 2]
        beside = int(state.due < NEVER and (limit == NEVER or state.now + limit > state.due))
        if not _refused(world, j, beside):
            if _start_beside(world, j, beside):
                dequeue(world, place)
                begin(world, j)
                state.backfilled += 1
            else:
                world.free_F[world.ask_J3[j, 1]].refused[beside] = world.ask_J3[j, 0]
        place += 1
    state.fresh = last


@inlined
def _refused(world: World, j: int, beside: int) -> bool:
    """Return whether as many nodes did not fit before in this pass, since when fewer are free."""
    nodes, gpus = world.ask_J3[j, 0], world.ask_J3[j, 1]
    return bool(
        nodes >= world.free_F[gpus].refused[0]
        or (beside and nodes >= world.free_F[gpus].refused[1])
    )


@part
def _promise(world: World, head: int) -> int:
    """Return the time of the head's reservation; `kept_N` and `future_N` then hold it."""
    state, job, gpus = world.state_1[0], world.job_J[head], world.plan_1[0].gpus
    found, place = 0, 0
    for node in range(world.open_N.shape[0]):
        world.future_N[node] = world.open_N[node]
        world.node_N[node].kept = 0
        found += world.open_N[node] >= job.gpus
    while place < state.runs:
        due = world.job_J[world.run_R[place]].kill
        if due == NEVER:
            break
        while place < state.runs and world.job_J[world.run_R[place]].kill == due:
            it = world.job_J[world.run_R[place]]
            at = it.first
            while at >= 0:
                node = at // gpus
                if world.node_N[node].up == UP:
                    was = world.future_N[node]
                    world.future_N[node] = was + it.gpus
                    found += was < job.gpus <= was + it.gpus
                at = world.place_E[at].after
            place += 1
        if found >= job.nodes and choose(world, world.future_N, head):
            for have in range(job.nodes):
                world.node_N[world.node_N[have].chosen].kept = job.gpus
            if job.promised == NEVER:
                job.promised = due
            return int(due)
    return NEVER


@part
def _start_beside(world: World, j: int, beside: int) -> bool:
    """Choose nodes for a job that respect the reservation; return whether there are any."""
    if not fits_by_count(world, j):
        world.free_F[world.ask_J3[j, 1]].refused[0] = world.ask_J3[j, 0]
        return False
    if not beside:
        return bool(choose(world, world.open_N, j))
    job = world.job_J[j]
    for node in range(world.open_N.shape[0]):
        spared = world.future_N[node] - world.node_N[node].kept
        world.trial_N[node] = min(world.open_N[node], spared)
    if not choose(world, world.trial_N, j):
        return False
    for have in range(job.nodes):
        world.future_N[world.node_N[have].chosen] -= job.gpus
    return True


@part
def conservative(world: World) -> None:
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

    Args:
        world: The schedule.

    Source: conservative backfill of Mualem & Feitelson, IEEE TPDS 12(6), 2001; reservations are
        recomputed at each pass, as in Slurm, for `depth` jobs.
    """
    state, rules = world.state_1[0], world.plan_1[0]
    place, seen = state.planned, min(state.fresh, state.viewed)
    if state.stale or state.fresh < state.planned or rules.order == FAIR_SHARE:
        _foresee(world)
        place = seen = state.head
        state.stale = 0
    head, last = state.head, min(state.tail, state.head + rules.depth)
    state.viewed = last
    while max(place, seen) < last:
        j = world.queue_Q[place]
        promises = place == head and world.job_J[j].promised == NEVER
        if not (promises or _starts(world, world.queue_Q[last - 1])):
            last -= 1
            continue
        begins = _slot(world, j, NEVER - 1)
        if promises:
            world.job_J[j].promised = begins
        if begins < NEVER:
            _book(world, j, begins)
        if begins == state.now:
            state.backfilled += place > head
            dequeue(world, place)
            begin(world, j)
            if rules.best_fit or (rules.level and not rules.required):
                state.stale = 1  # other nodes may be chosen now
        place += 1
    state.planned, state.fresh = place, NEVER


@inlined
def _starts(world: World, j: int) -> bool:
    """Return whether a job could start now without further reservations."""
    return bool(fits_by_count(world, j) and _slot(world, j, world.state_1[0].now) < NEVER)


@part
def _foresee(world: World) -> None:
    """Write the future free GPUs of each node, assuming that running jobs reach their limits."""
    state, gpus = world.state_1[0], world.plan_1[0].gpus
    for node in range(world.open_N.shape[0]):
        world.begins_SN[0, node] = state.now
        world.free_SN[0, node] = world.open_N[node]
        world.begins_SN[1, node] = NEVER
        world.node_N[node].spans = 1
    for place in range(state.runs):
        job = world.job_J[world.run_R[place]]
        if job.kill >= NEVER:
            break
        at = job.first
        while at >= 0:
            node = at // gpus
            if world.node_N[node].up == UP:
                world.free_SN[_cut(world, node, job.kill), node] += job.gpus
            at = world.place_E[at].after


@part
def _cut(world: World, node: int, time: int) -> int:
    """Return the time span of a node that starts at a time, splitting the one that contains it."""
    begins_S, free_S = world.begins_SN[:, node], world.free_SN[:, node]
    spans = at = world.node_N[node].spans
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
    world.node_N[node].spans += 1
    return int(at)


@part
def _slot(world: World, j: int, latest: int) -> int:
    """Return the earliest start of a job, NEVER if later than a time; `chosen_N` holds its nodes.

    Time advances to where the next node becomes free for long enough.
    """
    job, time, soonest_N = world.job_J[j], world.state_1[0].now, world.soonest_N
    for node in range(soonest_N.shape[0]):
        full = latest == time and world.open_N[node] < job.gpus
        soonest_N[node] = NEVER if full else -1
    while time <= latest:
        for node in range(soonest_N.shape[0]):
            if soonest_N[node] < time:
                _look(world, node, (time, latest), (job.gpus, job.limit))
                if job.nodes == 1:
                    latest = min(latest, soonest_N[node])
        found, soonest = 0, NEVER
        for node in range(soonest_N.shape[0]):
            found += soonest_N[node] == time
            soonest = min(soonest, soonest_N[node] if soonest_N[node] > time else NEVER)
        if found >= job.nodes:
            for node in range(soonest_N.shape[0]):
                world.trial_N[node] = world.least_N[node] if soonest_N[node] == time else -1
            if choose(world, world.trial_N, j):
                return int(time)
        time = soonest
    return NEVER


@inlined
def _look(world: World, node: int, reach: tuple[int, int], ask: tuple[int, int]) -> None:
    """Write the time from which a node is free for long enough, and its fewest free GPUs then.

    Beyond `reach` it is only marked as later.
    """
    (time, latest), (gpus, limit) = reach, ask
    at, least = 0, NEVER
    while world.begins_SN[at + 1, node] <= time:
        at += 1
    while time <= latest:
        free = world.free_SN[at, node]
        at += 1
        ends = world.begins_SN[at, node]
        if free < gpus:
            time, least = ends, NEVER
        else:
            least = min(least, free)
            if ends == NEVER or ends - time >= limit:
                break
    world.soonest_N[node] = time
    world.least_N[node] = least


@part
def _book(world: World, j: int, begins: int) -> None:
    """Reserve the nodes of `chosen_N` for a job from a time on."""
    job, now = world.job_J[j], world.state_1[0].now
    for have in range(job.nodes):
        node = world.node_N[have].chosen
        first = _cut(world, node, begins) if begins > now else 0
        last = world.node_N[node].spans
        if begins + job.limit < NEVER:
            last = _cut(world, node, begins + job.limit)
        for at in range(first, last):
            world.free_SN[at, node] -= job.gpus
