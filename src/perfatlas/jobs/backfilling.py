"""Jobs that start out of turn without making those before them wait longer.

Shape legend: as in `state`.
"""

from __future__ import annotations

from perfatlas.jobs.attempts import begin
from perfatlas.jobs.machine import part, small_part
from perfatlas.jobs.placing import choose, fits_by_count
from perfatlas.jobs.queueing import dequeue
from perfatlas.jobs.state import FAIR_SHARE, NEVER, UP, World


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


@small_part
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

    Args:
        world: The schedule.

    Source: conservative backfill of Mualem & Feitelson, IEEE TPDS 12(6), 2001; reservations are
        made anew at each pass, as Slurm does, for `depth` jobs.
    """
    state, depth = world.state_1[0], world.plan_1[0].depth
    rows = _profile(world)
    place, last, first = state.head, min(state.tail, state.head + depth), True
    while place < last:
        j = world.queue_Q[place]
        job = world.job_J[j]
        row = _slot(world, j, rows)
        if row >= 0:
            ends = world.time_T[row] + job.limit if job.limit < NEVER else NEVER
            if first and job.promised == NEVER:
                job.promised = world.time_T[row]
            rows = _book(world, j, row, (rows, ends))
        if row == 0:
            state.backfilled += place > state.head
            dequeue(world, place)
            begin(world, j)
        first = False
        place += 1


@part
def _profile(world: World) -> int:
    """Write what is free from now on as running jobs reach their limits; return the rows."""
    state, gpus = world.state_1[0], world.plan_1[0].gpus
    rows = 1
    world.time_T[0] = state.now
    for node in range(world.open_N.shape[0]):
        world.profile_TN[0, node] = world.open_N[node]
    for place in range(state.runs):
        job = world.job_J[world.run_R[place]]
        if job.kill == NEVER:
            break
        if job.kill > world.time_T[rows - 1]:
            world.time_T[rows] = job.kill
            _copy(world, rows - 1, rows)
            rows += 1
        at = job.first
        while at >= 0:
            node = at // gpus
            if world.node_N[node].up == UP:
                world.profile_TN[rows - 1, node] += job.gpus
            at = world.place_E[at].after
    return rows


@part
def _copy(world: World, row: int, to: int) -> None:
    for node in range(world.profile_TN.shape[1]):
        world.profile_TN[to, node] = world.profile_TN[row, node]


@part
def _slot(world: World, j: int, rows: int) -> int:
    """Return the first row at which a job can start, -1 for none; `chosen_N` holds its nodes."""
    job, seen = world.job_J[j], 0
    for node in range(world.open_N.shape[0]):
        world.node_N[node].since = 0
    for row in range(rows):
        ends = world.time_T[row] + job.limit if job.limit < NEVER else NEVER
        while seen < rows and (seen <= row or world.time_T[seen] < ends):
            for node in range(world.open_N.shape[0]):
                if world.profile_TN[seen, node] < job.gpus:
                    world.node_N[node].since = seen + 1
            seen += 1
        found = 0
        for node in range(world.open_N.shape[0]):
            found += world.node_N[node].since <= row
        if found >= job.nodes and _least(world, j, (row, seen)):
            return row
    return -1


@part
def _least(world: World, j: int, span: tuple[int, int]) -> bool:
    """Choose among nodes that are free all through some rows."""
    for node in range(world.open_N.shape[0]):
        least = -1
        if world.node_N[node].since <= span[0]:
            least = int(world.profile_TN[span[0], node])
            for row in range(span[0] + 1, span[1]):
                least = min(least, int(world.profile_TN[row, node]))
        world.trial_N[node] = least
    return bool(choose(world, world.trial_N, j))


@part
def _book(world: World, j: int, row: int, span: tuple[int, int]) -> int:
    """Take the nodes of `chosen_N` from a row on until a time; return the rows there are then."""
    rows, ends = span
    job = world.job_J[j]
    last = row
    while last < rows and world.time_T[last] < ends:
        last += 1
    if ends < NEVER and (last == rows or world.time_T[last] > ends):
        for after in range(rows, last, -1):
            world.time_T[after] = world.time_T[after - 1]
            _copy(world, after - 1, after)
        world.time_T[last] = ends
        _copy(world, last - 1, last)
        rows += 1
    for at in range(row, last):
        for have in range(job.nodes):
            world.profile_TN[at, world.node_N[have].chosen] -= job.gpus
    return rows
