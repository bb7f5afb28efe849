"""Steps of one replica: how many happen alike, how long they take, what they leave behind.

A stretch of decode steps is taken at once. It ends before a sequence finishes, a block is missing,
the mean context leaves its cell of the price table or another rank's line becomes the longest; an
arrival that may be admitted cuts it at the next border of steps. Nothing else can change a step:
free blocks only shrink in it, so that a queue whose head does not fit stays where it is.

Shape legend: N requests, S schedulers, R replicas.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from perfatlas.serving import blocks
from perfatlas.serving.limits import SGLANG, VLLM
from perfatlas.serving.machine import part
from perfatlas.serving.rules_sglang import forget_ratio, schedule_sglang
from perfatlas.serving.rules_trtllm import schedule_trtllm
from perfatlas.serving.rules_vllm import schedule_vllm
from perfatlas.serving.running import clear_step, finish_step
from perfatlas.serving.state import NEVER, NOBODY
from perfatlas.serving.step_time import (
    MANY,
    Line,
    host_work,
    longest,
    rank_line,
    steps_until,
    stretch_time,
)

if TYPE_CHECKING:
    from perfatlas.serving.state import World

LONGEST_STRETCH: Final = 1e18  # ps: far from the end of 64 bits


@part
def begin(world: World, r: int, now: int) -> None:
    """Begin the next stretch of a replica, or leave it idle.

    Args:
        world: The simulation.
        r: The replica, between steps.
        now: Time [ps].
    """
    plan(world, r, now)
    run_planned(world, r, now)
    replica = world.replica_R[r]
    if replica.steps == 0:
        world.end_R[r] = NEVER
    else:
        world.end_R[r] = now + stretch_time(replica.base, replica.rise, replica.steps)


@part
def plan(world: World, r: int, start: int) -> None:
    """Schedule the next stretch of a replica, none where nothing can run.

    Args:
        world: The simulation.
        r: The replica.
        start: When the stretch begins [ps].
    """
    replica = world.replica_R[r]
    first = r * world.ranks
    busy = _schedule_ranks(world, first, start)
    if busy == 0 and replica.steps == 0 and world.rules == SGLANG:
        # an idle batch has let those leave that had ended
        busy = _schedule_ranks(world, first, start)
    replica.next_steps = 0
    if busy > 0:
        line = _replica_line(world, first)
        replica.next_steps = _alike(world, first, line)
        replica.next_base = line.base
        replica.next_rise = line.rise


@part
def _schedule_ranks(world: World, first: int, start: int) -> int:
    """Schedule all ranks of a replica; return how many sequences and chunks run."""
    busy = 0
    for s in range(first, first + world.ranks):
        clear_step(world, s)
        if world.rules == VLLM:
            schedule_vllm(world, s, start)
        elif world.rules == SGLANG:
            schedule_sglang(world, s, start)
        else:
            schedule_trtllm(world, s, start)
        busy += world.lane_S[s].decodes + world.lane_S[s].chunks
    if busy == 0 and world.replica_R[first // world.ranks].steps == 0:
        for s in range(first, first + world.ranks):
            forget_ratio(world, s)
    return int(busy)


@part
def run_planned(world: World, r: int, now: int) -> None:
    """Let what is scheduled run.

    Args:
        world: The simulation.
        r: The replica, between steps.
        now: Time [ps].
    """
    replica = world.replica_R[r]
    replica.start = now
    replica.steps = replica.next_steps
    replica.base = replica.next_base
    replica.rise = replica.next_rise
    replica.next_steps = 0


@part
def _replica_line(world: World, first: int) -> Line:
    """Return the time of the replica's next steps."""
    tokens = 0
    chunks = 0
    for s in range(first, first + world.ranks):
        lane = world.lane_S[s]
        tokens = max(tokens, lane.decodes + lane.tokens)
        chunks += lane.chunks
    linear = world.mixed_linear_T[tokens] if chunks > 0 else world.decode_linear_B[tokens]
    line: Line = rank_line(world, world.lane_S[first], linear)
    for s in range(first + 1, first + world.ranks):
        line = longest(line, rank_line(world, world.lane_S[s], linear))
    if world.host_overlapped:
        for s in range(first, first + world.ranks):
            line = longest(line, Line(host_work(world, world.lane_S[s]), 0, MANY))
    return line


@part
def _alike(world: World, first: int, line: Line) -> int:
    """Return how many of the next steps differ from the one scheduled in nothing but contexts."""
    if not world.coalesce:
        return 1
    steps = line.steps
    for s in range(first, first + world.ranks):
        lane = world.lane_S[s]
        if lane.chunks > 0 or lane.preempted > 0 or _may_open(world, lane):
            return 1
        if lane.decodes > 0:  # one that has ended already decodes once more
            steps = min(steps, max(1, world.finishing_SH[s, 0].key - lane.step))
    last = float(line.base) + float(line.rise) * steps + 1.0
    steps = min(steps, max(1, int(LONGEST_STRETCH / last)))
    for s in range(first, first + world.ranks):
        steps = 1 + blocks.affordable(world, s, steps - 1)
    return steps


@part
def _may_open(world: World, lane: Any) -> bool:  # noqa: ANN401 - a row of lanes
    """Return whether the head of a queue might fit later though it does not fit now.

    By the rules of vLLM, where its whole prompt must fit, an evicted block that it would have found
    takes as much from the free ones as from its need. A chunk alone can start earlier in a prompt
    and need less. By those of SGLang it has not been told to wait, or the step had no tokens left.
    """
    if world.rules == SGLANG:
        return bool(lane.partial != NOBODY or (lane.waiting > 0 and not lane.full))
    return bool(
        world.rules == VLLM
        and world.prefix_caching
        and not world.reserve_full_isl
        and lane.waiting > 0
    )


@part
def end(world: World, r: int, now: int) -> None:
    """Let the stretch of a replica have happened, all but what finishes at its end.

    Args:
        world: The simulation.
        r: The replica.
        now: End of the stretch [ps].
    """
    replica = world.replica_R[r]
    world.clock_1[0].steps += replica.steps
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
