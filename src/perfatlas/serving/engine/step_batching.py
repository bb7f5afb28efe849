"""Batches of equal steps of a replica: their number, their time and their effects.

Successive decode steps are simulated as one batch. It ends before a sequence finishes, before
blocks run out, before the mean context leaves its cell of the price table, or before another rank
becomes the slowest; an arrival that may be admitted truncates it at the next step boundary. Nothing
else changes a step: free blocks only decrease, so a queue whose head does not fit stays blocked.

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

LONGEST_STRETCH: Final = 1e18  # ps: well within 64 bits


@part
def begin(world: World, r: int, now: int) -> None:
    """Start the next batch of steps of a replica, or leave it idle.

    With asynchronous scheduling, the scheduled steps start; when the last one has started, the next
    ones are scheduled.

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
    """Schedule the next batch of steps of a replica, if anything can run."""
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
    """Schedule all ranks of a replica; return the number of running sequences and chunks."""
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
    """Start the scheduled steps."""
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
    """Return the times of the replica's next steps."""
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
    """Return the time that prompts add to a step [ps]."""
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
    """Return the number of next steps that differ only in contexts."""
    if not world.coalesce or world.draft_tokens > 0:
        return 1
    steps = line.steps
    for s in range(first, first + world.ranks):
        lane = world.lane_S[s]
        if lane.chunks > 0 or lane.preempted > 0:
            return 1
        steps = min(steps, steady_steps(world, s))
        if lane.decodes > 0:  # a finished sequence decodes once more
            steps = min(steps, max(1, world.finishing_SH[s, 0].key - lane.step))
    last = float(line.base) + float(line.rise) * steps + 1.0
    steps = min(steps, max(1, int(LONGEST_STRETCH / last)))
    for s in range(first, first + world.ranks):
        steps = 1 + blocks.affordable(world, s, steps - 1)
    return steps


@part
def end(world: World, r: int, now: int) -> None:
    """Apply a finished batch of steps, except for finishing requests.

    Args:
        world: The simulation.
        r: The replica.
        now: End of the last step [ps].
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
    """Truncate the batch of steps of a replica at the next step boundary.

    Args:
        world: The simulation.
        r: The running replica.
        now: Time [ps].
    """
    replica = world.replica_R[r]
    delay = now - replica.start
    replica.steps = steps_until(replica.base, replica.rise, replica.steps, delay)
    world.end_R[r] = replica.start + stretch_time(replica.base, replica.rise, replica.steps)
