"""What a scheduler's steps leave behind when they have happened.

Kept of every request that decodes: what its steps took beyond decoding alone, because prompts ran
in them or instead of them. It is the difference of two readings of its scheduler's sum. Kept of all
requests together: how many gaps between their tokens lie between which borders.

Shape legend: N requests, S schedulers, G borders of gaps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.compiled import part
from perfatlas.serving.sequences import (
    advance_each,
    blocks,
    cell,
    decode_steps,
    last_joined,
    start_decoding,
    stretch_time,
)
from perfatlas.serving.state import NOBODY

if TYPE_CHECKING:
    from perfatlas.serving.state import World


@part
def finish_step(world: World, s: int, steps: int, now: int) -> None:
    """Let the steps of a stretch have happened: contexts grow, ended prompts start to decode.

    Args:
        world: The simulation.
        s: The scheduler.
        steps: Steps taken; 1 where prompts ran.
        now: Their end [ps].
    """
    lane = world.lane_S[s]
    lane.beat += 1
    lane.ran = lane.decodes
    _note_steps(world, s, steps, now)
    if lane.decodes > 0:
        lane.decays += steps - 1
        lane.step += 1
        if world.draft_tokens == 0:
            blocks.grow(world, s, steps - 1)
            lane.step += steps - 1
            lane.context += lane.decoding * steps
        else:
            advance_each(world, s)
    _start_fresh(world, s, now)
    if lane.partial != NOBODY:
        request = world.request_N[lane.partial]
        known = world.preempted_N[lane.partial] > 0
        if known and request.computed >= world.loss_N[lane.partial].mark:
            _end_loss(world, lane.partial, now)


@part
def _end_loss(world: World, i: int, now: int) -> None:
    """Let a request that was thrown out be back where it was."""
    loss = world.loss_N[i]
    if loss.gone > 0:
        world.lost_N[i] += now - (loss.gone - 1)
        loss.gone = 0


@part
def _note_steps(world: World, s: int, steps: int, now: int) -> None:
    """Note the gaps that steps now ending make, and what they take beyond decoding alone."""
    lane = world.lane_S[s]
    replica = world.replica_R[s // world.ranks]
    if lane.decodes > 0:
        lane.delay += replica.extra
        before = 0
        if lane.paused:
            first = now - stretch_time(replica.base, replica.rise, steps) + replica.base
            _end_pause(world, s, first)
            before = 1
        elif lane.joiners > 0:
            _greet(world, s, now - stretch_time(replica.base, replica.rise, steps) + replica.base)
            _count_gaps(world, (replica.base, 0), 1, lane.decoding - lane.joiners)
            before = 1
        base = replica.base + replica.rise * before
        _count_gaps(world, (base, replica.rise), steps - before, lane.decoding)
        lane.last_end = now
    elif lane.decoding > 0:
        lane.paused = 1
        lane.delay += replica.base


@part
def _end_pause(world: World, s: int, now: int) -> None:
    """Note the gaps of sequences whose first token after prompts ran without them is there."""
    lane = world.lane_S[s]
    lane.paused = 0
    fresh = lane.fresh
    i = lane.running_tail
    while i != NOBODY:
        if i != lane.partial:
            if fresh == 0:
                last = max(last_joined(world, i), lane.last_end)
                _count_gaps(world, (now - last, 0), 1, 1)
            else:
                fresh -= 1
        i = world.request_N[i].before


@part
def _greet(world: World, s: int, now: int) -> None:
    """Note the first tokens of sequences that have joined from another engine."""
    lane = world.lane_S[s]
    fresh = lane.fresh
    left = lane.joiners
    i = lane.running_tail
    while left > 0:
        if i == lane.partial:
            pass
        elif fresh > 0:
            fresh -= 1
        else:
            left -= 1
            if world.loss_N[i].gone > 0:  # it was thrown out before
                _return(world, i, now)
                if world.first_token_N[i] == NOBODY:
                    _give_first(world, i, now)
            elif world.first_token_N[i] == NOBODY:
                _give_first(world, i, now)
            else:
                _count_gaps(world, (now - world.first_token_N[i], 0), 1, 1)
        i = world.request_N[i].before


@part
def _count_gaps(world: World, line: tuple[int, int], steps: int, sequences: int) -> None:
    """Count the gaps of sequences in steps that take base + rise j each."""
    base, rise = line
    clock = world.clock_1[0]
    last = world.gaps_G.shape[0] - 1
    j = 0
    while j < steps:
        g = clock.gap  # mostly as the last one
        gap = base + rise * j
        if gap < world.edges_G[g] or gap >= world.edges_G[min(g + 1, last)]:
            g = cell(world.edges_G, gap)
            clock.gap = g
        end = steps
        final = base + rise * (steps - 1)
        if g < last and final >= world.edges_G[g + 1]:
            end = (world.edges_G[g + 1] - base + rise - 1) // rise
        elif final < world.edges_G[g]:  # steps may fall from key to key
            end = (base - world.edges_G[g]) // -rise + 1
        world.gaps_G[g] += (end - j) * sequences
        j = end


@part
def learn_late(world: World, s: int) -> None:
    """Let others find what the prompts that the step now ending computed have in the cache.

    Args:
        world: The simulation.
        s: The scheduler.
    """
    lane = world.lane_S[s]
    for place in range(lane.learning):
        blocks.learn(world, world.learning_SH[s, place])


@part
def _return(world: World, i: int, now: int) -> None:
    """Note that a request that was thrown out decodes again."""
    loss = world.loss_N[i]
    if world.request_N[i].generated > 0:
        _count_gaps(world, (now - loss.since, 0), 1, 1)
    loss.since = now
    _end_loss(world, i, now)


@part
def _give_first(world: World, i: int, now: int) -> None:
    """Note the first token of a request, and when its client has it."""
    world.first_token_N[i] = now
    if world.stream_token > 0:
        world.late_first_N[i] = world.replica_R[world.request_N[i].lane // world.ranks].late


@part
def _start_fresh(world: World, s: int, now: int) -> None:
    """Let the prompts that ended start to decode, in order of admission: the last running ones."""
    lane = world.lane_S[s]
    i = lane.running_tail
    back = lane.fresh - 1
    if lane.partial != NOBODY:
        back += 1
    for _ in range(back):
        i = world.request_N[i].before
    for _ in range(lane.fresh):
        request = world.request_N[i]
        if world.preempted_N[i] > 0:
            _return(world, i, now)
        if world.first_token_N[i] == NOBODY:
            _give_first(world, i, now)
        if world.async_scheduling:
            world.learning_SH[s, lane.learning] = i
            lane.learning += 1
        else:
            blocks.learn(world, i)
        steps = request.osl - request.generated - 1
        if world.draft_tokens > 0:
            request.generated += 1
            steps = decode_steps(world, i, request.generated)
        start_decoding(world, i, steps)
        i = request.after
    lane.fresh = 0
