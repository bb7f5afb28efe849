"""Effects of finished steps on a scheduler and its requests.

Recorded per decoding request: the time that prompts added to its steps or took instead of them, as
the difference of two readings of its scheduler's total. Recorded over all requests: a histogram of
the gaps between tokens.

Shape legend: N requests, S schedulers, G edges of the histogram.
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
    """Apply a batch of steps: contexts grow, finished prompts start to decode.

    Args:
        world: The simulation.
        s: The scheduler.
        steps: Number of steps; 1 with prompts.
        now: End of the last step [ps].
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
    """Record that a preempted request has recovered its position."""
    loss = world.loss_N[i]
    if loss.gone > 0:
        world.lost_N[i] += now - (loss.gone - 1)
        loss.gone = 0


@part
def _note_steps(world: World, s: int, steps: int, now: int) -> None:
    """Record the token gaps of the ending steps, and the time added by prompts."""
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
    """Record the gaps of sequences that were paused while prompts ran."""
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
    """Record the first tokens of sequences transferred from another engine."""
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
            if world.loss_N[i].gone > 0:  # it was preempted before
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
    """Add the gaps of sequences in steps of time base + rise j to the histogram."""
    base, rise = line
    clock = world.clock_1[0]
    last = world.gaps_G.shape[0] - 1
    j = 0
    while j < steps:
        g = clock.gap  # usually the same bin
        gap = base + rise * j
        if gap < world.edges_G[g] or gap >= world.edges_G[min(g + 1, last)]:
            g = cell(world.edges_G, gap)
            clock.gap = g
        end = steps
        final = base + rise * (steps - 1)
        if g < last and final >= world.edges_G[g + 1]:
            end = (world.edges_G[g + 1] - base + rise - 1) // rise
        elif final < world.edges_G[g]:  # steps may get shorter with more keys
            end = (base - world.edges_G[g]) // -rise + 1
        world.gaps_G[g] += (end - j) * sequences
        j = end


@part
def learn_late(world: World, s: int) -> None:
    """Register prompt blocks computed by the ending step in the prefix cache.

    Args:
        world: The simulation.
        s: The scheduler.
    """
    lane = world.lane_S[s]
    for place in range(lane.learning):
        blocks.learn(world, world.learning_SH[s, place])


@part
def _return(world: World, i: int, now: int) -> None:
    """Record that a preempted request decodes again."""
    loss = world.loss_N[i]
    if world.request_N[i].generated > 0:
        _count_gaps(world, (now - loss.since, 0), 1, 1)
    loss.since = now
    _end_loss(world, i, now)


@part
def _give_first(world: World, i: int, now: int) -> None:
    """Record the first token of a request, and when its client receives it."""
    world.first_token_N[i] = now
    if world.stream_token > 0:
        world.late_first_N[i] = world.replica_R[world.request_N[i].lane // world.ranks].late


@part
def _start_fresh(world: World, s: int, now: int) -> None:
    """Start decoding the finished prompts, the last running ones, in order of admission."""
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
