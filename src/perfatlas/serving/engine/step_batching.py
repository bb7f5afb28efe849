"""Steps of one replica: how many happen alike, how long they take, what they leave behind.

A stretch of decode steps is taken at once. It ends before a sequence finishes, a block is missing,
the mean context leaves its cell of the price table or another rank's line becomes the longest; an
arrival that may be admitted cuts it at the next border of steps. Nothing else can change a step:
free blocks only shrink in it, so that a queue whose head does not fit stays where it is.

Shape legend: N requests, S schedulers, R replicas.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfatlas.compiled import part
from perfatlas.serving.engine.async_scheduling import foresee, note_done
from perfatlas.serving.engine.front_end import stream
from perfatlas.serving.engine.step_end import finish_step
from perfatlas.serving.policies import on_idle, schedule, steady_steps
from perfatlas.serving.sequences import (
    MANY,
    Line,
    blocks,
    clear_step,
    decode_time,
    host_work,
    longest,
    rank_line,
    steps_until,
    stretch_time,
)
from perfatlas.serving.state import NEVER

if TYPE_CHECKING:
    from perfatlas.serving.state import World

LONGEST_STRETCH: Final = 1e18  # ps: far from the end of 64 bits


@part
def begin(world: World, r: int, now: int) -> None:
    """Let the next stretch of a replica begin, or leave it idle.

    Where steps are scheduled ahead, what was scheduled begins; once its last step has begun, what
    follows is scheduled.

    Args:
        world: The simulation.
        r: The replica, between steps.
        now: Time [ps].
    """
    replica = world.replica_R[r]
    if replica.steps == 0 and replica.next_steps > 0:
        if replica.stale:
            replica.next_steps = 1
        _run_planned(world, r, now)
    while replica.decided == 0:
        start = now
        if replica.steps > 0:
            last = replica.start + stretch_time(replica.base, replica.rise, replica.steps - 1)
            start = replica.start + stretch_time(replica.base, replica.rise, replica.steps)
            world.end_R[r] = start
            if not world.async_scheduling:
                break
            if last > now:
                world.end_R[r] = last
                break
            foresee(world, r, start)
            replica.decided = 1
        _plan(world, r, start)
        if replica.steps == 0:
            _run_planned(world, r, now)
        if replica.steps == 0:
            world.end_R[r] = NEVER
            break


@part
def _plan(world: World, r: int, start: int) -> None:
    """Schedule the next stretch of a replica, none where nothing can run."""
    replica = world.replica_R[r]
    first = r * world.ranks
    busy = 0
    tries = world.idle_passes if replica.steps == 0 else 1
    while busy == 0 and tries > 0:
        busy = _schedule_ranks(world, first, start)
        tries -= 1
    replica.next_steps = 0
    if busy > 0:
        line = _replica_line(world, first)
        replica.next_steps = _alike(world, first, line)
        replica.next_base = line.base
        replica.next_rise = line.rise
        replica.next_extra = _beyond_decoding(world, first, line.base)


@part
def _schedule_ranks(world: World, first: int, start: int) -> int:
    """Schedule all ranks of a replica; return how many sequences and chunks run."""
    busy = 0
    for s in range(first, first + world.ranks):
        clear_step(world, s, start)
        schedule(world, s, start)
        busy += world.lane_S[s].decodes + world.lane_S[s].chunks
    if busy == 0 and world.replica_R[first // world.ranks].steps == 0:
        for s in range(first, first + world.ranks):
            on_idle(world, s)
    return int(busy)


@part
def _run_planned(world: World, r: int, now: int) -> None:
    """Let what is scheduled run."""
    replica = world.replica_R[r]
    replica.stale = 0
    replica.start = now
    replica.steps = replica.next_steps
    replica.base = replica.next_base
    replica.rise = replica.next_rise
    replica.extra = replica.next_extra
    replica.next_steps = 0


@part
def _replica_line(world: World, first: int) -> Line:
    """Return the time of the replica's next steps."""
    most = 0
    tokens = 0
    chunks = 0
    for s in range(first, first + world.ranks):
        lane = world.lane_S[s]
        most = max(most, lane.decodes)
        tokens = max(tokens, lane.decodes * world.tokens_per_decode + lane.tokens)
        chunks += lane.chunks
    linear = world.mixed_linear_T[tokens] if chunks > 0 else world.decode_linear_B[most]
    line: Line = rank_line(world, world.lane_S[first], linear)
    for s in range(first + 1, first + world.ranks):
        line = longest(line, rank_line(world, world.lane_S[s], linear))
    if world.host_overlapped:
        for s in range(first, first + world.ranks):
            line = longest(line, Line(host_work(world, world.lane_S[s]), 0, MANY))
    return line


@part
def _beyond_decoding(world: World, first: int, time: int) -> int:
    """Return what a step takes beyond the time it would take without its prompts [ps]."""
    decodes = 0
    chunks = 0
    for s in range(first, first + world.ranks):
        decodes = max(decodes, world.lane_S[s].decodes)
        chunks += world.lane_S[s].chunks
    if chunks == 0 or decodes == 0:
        return 0
    alone = 0
    for s in range(first, first + world.ranks):
        alone = max(alone, decode_time(world, world.lane_S[s], world.decode_linear_B[decodes]))
    return int(time - alone)


@part
def _alike(world: World, first: int, line: Line) -> int:
    """Return how many of the next steps differ from the one scheduled in nothing but contexts."""
    if not world.coalesce or world.draft_tokens > 0:
        return 1
    steps = line.steps
    for s in range(first, first + world.ranks):
        lane = world.lane_S[s]
        if lane.chunks > 0 or lane.preempted > 0:
            return 1
        steps = min(steps, steady_steps(world, s))
        if lane.decodes > 0:  # one that has ended already decodes once more
            steps = min(steps, max(1, world.finishing_SH[s, 0].key - lane.step))
    last = float(line.base) + float(line.rise) * steps + 1.0
    steps = min(steps, max(1, int(LONGEST_STRETCH / last)))
    for s in range(first, first + world.ranks):
        steps = 1 + blocks.affordable(world, s, steps - 1)
    return steps


@part
def end(world: World, r: int, now: int) -> None:
    """Let the stretch of a replica have happened, all but what finishes at its end.

    Args:
        world: The simulation.
        r: The replica.
        now: End of the stretch [ps].
    """
    replica = world.replica_R[r]
    note_done(world, r)
    if world.stream_token > 0:
        stream(world, r, replica.steps, now)
    for s in range(r * world.ranks, (r + 1) * world.ranks):
        finish_step(world, s, replica.steps, now)
    replica.steps = 0
    world.end_R[r] = NEVER


@part
def cut(world: World, r: int, now: int) -> None:
    """End the stretch of a replica at the first border of steps from now on.

    Args:
        world: The simulation.
        r: The replica, running.
        now: Time [ps].
    """
    replica = world.replica_R[r]
    delay = now - replica.start
    replica.steps = steps_until(replica.base, replica.rise, replica.steps, delay)
    world.end_R[r] = replica.start + stretch_time(replica.base, replica.rise, replica.steps)
