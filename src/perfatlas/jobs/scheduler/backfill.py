"""Jobs that start out of turn without making those before them wait longer.

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
    """Start jobs behind the head of the queue that leave it its nodes when it is due.

    The head is promised certain nodes at the earliest time at which, by their limits, enough jobs
    have ended. Another job may start if its own limit ends it by then, or where it leaves the
    promised GPUs alone. The promise is made anew when GPUs became free, nodes went or came, or
    another job leads; in between only jobs are looked at that came in, or came within the depth:
    what did not fit before fits no more.

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
    """Tell whether as many nodes were refused before in this pass: less is free since."""
    nodes, gpus = world.ask_J3[j, 0], world.ask_J3[j, 1]
    return bool(
        nodes >= world.free_F[gpus].refused[0]
        or (beside and nodes >= world.free_F[gpus].refused[1])
    )


@part
def _promise(world: World, head: int) -> int:
    """Return when the head is due; `kept_N` and `future_N` then say what it is promised."""
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
    """Choose nodes for a job that keep the promise; tell whether there are any."""
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
    """Give the first jobs of the queue reservations in order; start those whose turn is now.

    Only what decides who starts now is worked out: the last jobs are passed over as long as they
    could not start even if no more reservations were made. The head of the queue always gets its
    reservation, which is told as its promise.

    The reservations of the last pass stay where nothing became free, no node went or came, and the
    queue is the same as far as they reach. Made anew they would be the same. Before a reservation
    begins, its job did not fit and does not now: no more is free, and a start later within the same
    span of time reaches at least as far. Where it begins, its nodes are still free: jobs that
    started meanwhile left them alone. And a choice of the first nodes that fit stays the same when
    others are taken away. A choice of the fullest nodes or of the roomiest domains does not: then
    a start makes all reservations anew.

    Args:
        world: The schedule.

    Source: conservative backfill of Mualem & Feitelson, IEEE TPDS 12(6), 2001; reservations are
        made anew at each pass, as Slurm does, for `depth` jobs.
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
                state.stale = 1  # others may be chosen now
        place += 1
    state.planned, state.fresh = place, NEVER


@inlined
def _starts(world: World, j: int) -> bool:
    """Tell whether a job could start now, if no more reservations were made."""
    return bool(fits_by_count(world, j) and _slot(world, j, world.state_1[0].now) < NEVER)


@part
def _foresee(world: World) -> None:
    """Write what is free of each node from now on as running jobs reach their limits."""
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
    """Return the span of a node that begins at a time; the one it lies in is cut if need be."""
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
    """Return when a job can start, NEVER if later than a time; `chosen_N` holds its nodes.

    Time goes on to where the next node becomes free for long enough: in between none comes in.
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
    """Write from when on a node is free for long enough, and the least it then has free.

    Beyond `reach` it only says that it is later.
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
    """Take the nodes of `chosen_N` for a job from a time on."""
    job, now = world.job_J[j], world.state_1[0].now
    for have in range(job.nodes):
        node = world.node_N[have].chosen
        first = _cut(world, node, begins) if begins > now else 0
        last = world.node_N[node].spans
        if begins + job.limit < NEVER:
            last = _cut(world, node, begins + job.limit)
        for at in range(first, last):
            world.free_SN[at, node] -= job.gpus
