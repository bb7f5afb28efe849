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
    batch_time,
    blocks,
    cell,
    decode_steps,
    last_joined,
    start_decoding,
)
from perfatlas.serving.state import NO_INDEX

if TYPE_CHECKING:
    from perfatlas.serving.state import SimulationState


@part
def finish_step(sim: SimulationState, s: int, steps: int, now: int) -> None:
    """Apply a batch of steps: contexts grow, finished prompts start to decode.

    Args:
        steps: Number of steps; 1 with prompts.
        now: End of the last step [ps].
    """
    scheduler = sim.scheduler_S[s]
    scheduler.beat += 1
    scheduler.ran = scheduler.decodes
    _note_steps(sim, s, steps, now)
    if scheduler.decodes > 0:
        scheduler.decays += steps - 1
        scheduler.step += 1
        if sim.limits.draft_tokens == 0:
            blocks.allocate_steps(sim, s, steps - 1)
            scheduler.step += steps - 1
            scheduler.context += scheduler.decoding * steps
        else:
            advance_each(sim, s)
    _start_fresh(sim, s, now)
    if scheduler.partial != NO_INDEX:
        request = sim.request_N[scheduler.partial]
        preempted = sim.preempted_N[scheduler.partial] > 0
        if preempted and request.computed >= sim.loss_N[scheduler.partial].mark:
            _end_recompute(sim, scheduler.partial, now)


@part
def _end_recompute(sim: SimulationState, i: int, now: int) -> None:
    """Record that a preempted request has recovered its position."""
    loss = sim.loss_N[i]
    if loss.gone > 0:
        sim.lost_N[i] += now - (loss.gone - 1)
        loss.gone = 0


@part
def _note_steps(sim: SimulationState, s: int, steps: int, now: int) -> None:
    """Record the token gaps of the ending steps, and the time added by prompts."""
    scheduler = sim.scheduler_S[s]
    replica = sim.replica_R[s // sim.ranks]
    if scheduler.decodes > 0:
        scheduler.delay += replica.extra
        before = 0
        if scheduler.paused:
            first = now - batch_time(replica.base, replica.rise, steps) + replica.base
            scheduler.paused = 0
            fresh = scheduler.fresh
            i = scheduler.running_tail
            while i != NO_INDEX:  # gaps of sequences that were paused while prompts ran
                if i != scheduler.partial:
                    if fresh == 0:
                        last = max(last_joined(sim, i), scheduler.last_end)
                        _count_gaps(sim, (first - last, 0), 1, 1)
                    else:
                        fresh -= 1
                i = sim.request_N[i].before
            before = 1
        elif scheduler.joiners > 0:
            _record_first_tokens(
                sim, s, now - batch_time(replica.base, replica.rise, steps) + replica.base
            )
            _count_gaps(sim, (replica.base, 0), 1, scheduler.decoding - scheduler.joiners)
            before = 1
        base = replica.base + replica.rise * before
        _count_gaps(sim, (base, replica.rise), steps - before, scheduler.decoding)
        scheduler.last_end = now
    elif scheduler.decoding > 0:
        scheduler.paused = 1
        scheduler.delay += replica.base


@part
def _record_first_tokens(sim: SimulationState, s: int, now: int) -> None:
    """Record the first tokens of sequences transferred from another engine."""
    scheduler = sim.scheduler_S[s]
    fresh = scheduler.fresh
    left = scheduler.joiners
    i = scheduler.running_tail
    while left > 0:
        if i == scheduler.partial:
            pass
        elif fresh > 0:
            fresh -= 1
        else:
            left -= 1
            if sim.loss_N[i].gone > 0:  # it was preempted before
                _return(sim, i, now)
                if sim.first_token_N[i] == NO_INDEX:
                    _record_first_token(sim, i, now)
            elif sim.first_token_N[i] == NO_INDEX:
                _record_first_token(sim, i, now)
            else:
                _count_gaps(sim, (now - sim.first_token_N[i], 0), 1, 1)
        i = sim.request_N[i].before


@part
def _count_gaps(sim: SimulationState, line: tuple[int, int], steps: int, sequences: int) -> None:
    """Add the gaps of sequences in steps of time base + rise j to the histogram."""
    base, rise = line
    clock = sim.clock_1[0]
    last = sim.gaps_G.shape[0] - 1
    j = 0
    while j < steps:
        g = clock.gap  # usually the same bin
        gap = base + rise * j
        if gap < sim.edges_G[g] or gap >= sim.edges_G[min(g + 1, last)]:
            g = cell(sim.edges_G, gap)
            clock.gap = g
        end = steps
        final = base + rise * (steps - 1)
        if g < last and final >= sim.edges_G[g + 1]:
            end = (sim.edges_G[g + 1] - base + rise - 1) // rise
        elif final < sim.edges_G[g]:  # steps may get shorter with more keys
            end = (base - sim.edges_G[g]) // -rise + 1
        sim.gaps_G[g] += (end - j) * sequences
        j = end


@part
def cache_finished_prompts(sim: SimulationState, s: int) -> None:
    """Register prompt blocks computed by the ending step in the prefix cache."""
    scheduler = sim.scheduler_S[s]
    for index in range(scheduler.learning):
        blocks.cache_prompt(sim, sim.learning_SH[s, index])


@part
def _return(sim: SimulationState, i: int, now: int) -> None:
    """Record that a preempted request decodes again."""
    loss = sim.loss_N[i]
    if sim.request_N[i].generated > 0:
        _count_gaps(sim, (now - loss.since, 0), 1, 1)
    loss.since = now
    _end_recompute(sim, i, now)


@part
def _record_first_token(sim: SimulationState, i: int, now: int) -> None:
    """Record the first token of a request, and when its client receives it."""
    sim.first_token_N[i] = now
    if sim.stream_token > 0:
        sim.late_first_N[i] = sim.replica_R[sim.request_N[i].scheduler // sim.ranks].late


@part
def _start_fresh(sim: SimulationState, s: int, now: int) -> None:
    """Start decoding the finished prompts, the last running ones, in order of admission."""
    scheduler = sim.scheduler_S[s]
    i = scheduler.running_tail
    back = scheduler.fresh - 1
    if scheduler.partial != NO_INDEX:
        back += 1
    for _ in range(back):
        i = sim.request_N[i].before
    for _ in range(scheduler.fresh):
        request = sim.request_N[i]
        if sim.preempted_N[i] > 0:
            _return(sim, i, now)
        if sim.first_token_N[i] == NO_INDEX:
            _record_first_token(sim, i, now)
        if sim.limits.async_scheduling:
            sim.learning_SH[s, scheduler.learning] = i
            scheduler.learning += 1
        else:
            blocks.cache_prompt(sim, i)
        if sim.limits.draft_tokens > 0:
            request.generated += 1
        output = request.generated + (1 if sim.limits.draft_tokens == 0 else 0)
        start_decoding(sim, i, decode_steps(sim, i, output))
        i = request.after
    scheduler.fresh = 0
