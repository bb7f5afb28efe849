"""Position of a job in its schedule of work, verification and checkpoints, in closed form.

A segment is work, then verification, then the checkpoint of the highest level due. A position is
the failure-free time from the start of the schedule; it maps to completed segments by a mixed-radix
number with one digit per checkpoint level.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.compiled import inlined, part
from perfatlas.reliability.fleet.laws import CHECKPOINT, DEGRADED, LOST_WORK, NEVER, PRODUCTIVE

if TYPE_CHECKING:
    from perfatlas.reliability.fleet.laws import JobPlan, JobState


@part
def set_lengths(plan: JobPlan, job: JobState) -> None:
    """Set the lengths of blocks of segments at the current speed of the job."""
    job.slow_work = plan.work
    if job.slowdown > 1.0:
        job.slow_work = int(plan.work * job.slowdown + 0.5)
    job.length[0] = job.slow_work + plan.verify + plan.level[0].write
    for high in range(1, plan.levels):
        blocks = plan.level[high].every // plan.level[high - 1].every
        more = plan.level[high].write - plan.level[high - 1].write
        job.length[high] = blocks * job.length[high - 1] + more


@inlined
def end_of(plan: JobPlan, job: JobState, index: int) -> int:
    """Return the position at which a number of segments is complete [ticks]."""
    if plan.levels == 1:
        return int(index * job.length[0])
    position = 0
    for high in range(plan.levels - 1, -1, -1):
        every = plan.level[high].every
        blocks = index // every
        index -= blocks * every
        position += blocks * job.length[high]
    return position


@inlined
def segments_at(plan: JobPlan, job: JobState, position: int) -> int:
    """Return the number of segments complete at a position.

    Args:
        position: Position in the schedule [ticks].
    """
    if plan.levels == 1:
        return int(position // job.length[0])
    index = 0
    most = NEVER
    for high in range(plan.levels - 1, -1, -1):
        blocks = min(position // job.length[high], most)
        position -= blocks * job.length[high]
        index += blocks * plan.level[high].every
        if high > 0:
            most = plan.level[high].every // plan.level[high - 1].every - 1
    return index


@inlined
def begin(plan: JobPlan, job: JobState) -> None:
    """Start a running period now."""
    job.since = job.now
    into = _slowed(plan, job, job.offset)
    job.position = end_of(plan, job, job.index) + into
    job.worked = job.index * job.slow_work + min(into, job.slow_work)


@inlined
def _slowed(plan: JobPlan, job: JobState, offset: int) -> int:
    """Return the ticks into a segment at the current speed, from those at full speed."""
    if job.slow_work == plan.work:
        return int(offset)
    if offset >= plan.work:
        return int(job.slow_work + offset - plan.work)
    slowed = int(offset * (job.slow_work / plan.work))
    while _at_full_speed(plan, job, slowed) < offset:
        slowed += 1
    return int(slowed)


@inlined
def _at_full_speed(plan: JobPlan, job: JobState, worked: int) -> int:
    """Return the work done in a segment, from the ticks at the current speed."""
    return int(min(worked / (job.slow_work / plan.work), plan.work))


@inlined
def settle(plan: JobPlan, job: JobState) -> None:
    """Account for the running period until now and update the durable checkpoints."""
    ran = job.now - job.since
    position = job.position + ran
    job.index = segments_at(plan, job, position)
    into = position - end_of(plan, job, job.index)
    worked = min(into, job.slow_work)
    stretched = job.index * job.slow_work + worked - job.worked
    job.worked += stretched
    if job.slow_work != plan.work:
        worked = _at_full_speed(plan, job, worked)
        into = worked if into < job.slow_work else plan.work + into - job.slow_work
    job.offset = into
    done = job.index * plan.work + worked
    job.bucket[PRODUCTIVE] += done - job.done
    job.bucket[DEGRADED] += stretched - (done - job.done)
    job.bucket[CHECKPOINT] += ran - stretched
    job.done = done
    job.since = job.now
    job.position = position
    # the last durable checkpoint that covers each level
    if plan.levels == 1 and plan.level[0].lag == 0:
        job.bank[0] = max(job.bank[0], job.index)
        return
    serves = 0
    for level in range(plan.levels - 1, -1, -1):
        lag = plan.level[level].lag
        last = job.index
        if lag > 0:
            if job.last == 1:  # the position was advanced past work that does not exist
                lag += job.slow_work - _slowed(plan, job, plan.last_work)
            last = segments_at(plan, job, max(position - lag, 0))
        last -= last % plan.level[level].every
        if last > job.base:
            job.bank[level] = max(job.bank[level], last)
        serves = max(serves, job.bank[level])
        job.bank[level] = serves


@inlined
def roll_back(plan: JobPlan, job: JobState, depth: int) -> None:
    """Roll back to the last checkpoint of a level, or by one step where peers hold the state.

    Args:
        depth: Level the failure needs, -1 for none.
    """
    if depth < 0 and job.stepped == 1:
        return
    undo_end(plan, job)
    if depth < 0:
        job.stepped = 1
        worked = min(job.offset, plan.work)
        retained = max(worked - plan.step, 0)
        job.offset = retained
        lost = worked - retained
        job.base = job.index
    else:
        target = job.bank[depth]
        lost = job.done - target * plan.work
        go_to(job, target)
        for level in range(depth):
            job.bank[level] = target
        if job.corrupt == 1 and target <= job.clean:
            job.corrupt = 0
            job.detected = NEVER
    job.done -= lost
    job.bucket[PRODUCTIVE] -= lost
    job.bucket[LOST_WORK] += lost


@inlined
def work_ends_at(plan: JobPlan, job: JobState) -> int:
    """Return the position at which the work is done, or saved where it is done [ticks]."""
    if job.last == 1 or plan.last_work == plan.work:
        return int(end_of(plan, job, plan.segments))
    return int(end_of(plan, job, plan.segments - 1) + _slowed(plan, job, plan.last_work))


@inlined
def end_work(plan: JobPlan, job: JobState) -> bool:
    """Return whether the last, short segment must still be verified and saved, and start that."""
    if job.last == 1 or plan.last_work == plan.work:
        return False
    job.last = 1
    job.offset = plan.work
    job.done += plan.work - plan.last_work
    begin(plan, job)
    return True


@inlined
def undo_end(plan: JobPlan, job: JobState) -> None:
    """Restore the remaining work of a job that must redo work after its end."""
    if job.last == 1:
        job.last = 0
        job.offset = plan.last_work
        job.done -= plan.work - plan.last_work


@inlined
def go_to(job: JobState, index: int) -> None:
    """Move to a checkpoint."""
    job.index = index
    job.offset = 0
    job.base = index
