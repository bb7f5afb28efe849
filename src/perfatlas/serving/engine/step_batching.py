"""Batches of equal steps of a replica: their number, their time and their effects.

Successive decode steps are simulated as one batch. It ends before a sequence finishes, before
blocks run out, before the mean context leaves its cell of the price table, or before another rank
becomes the slowest; an arrival that may be admitted truncates it at the next step boundary. Nothing
else changes a step: free blocks only decrease, so a queue whose head does not fit stays blocked.

A step with prompts of one rank makes all ranks wait. TensorRT-LLM can hold prompts back while all
ranks decode, so that they run in the same steps; after a number of steps they run in any case.

Source: NVIDIA/TensorRT-LLM tensorrt_llm/_torch/pyexecutor/py_executor.py, `_balance_adp_requests`
with `attention_dp_config.enable_balance` and `timeout_iters`; `batching_wait_iters` is 0.

Shape legend: N requests, S schedulers, R replicas.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfatlas.compiled import part
from perfatlas.serving.engine.async_scheduling import note_done, plan_ahead
from perfatlas.serving.engine.front_end import stream
from perfatlas.serving.engine.stages import end_of_pass
from perfatlas.serving.engine.step_end import finish_step
from perfatlas.serving.policies import on_idle, schedule, steady_steps
from perfatlas.serving.sequences import (
    UNLIMITED_STEPS,
    Line,
    RankTokens,
    batch_time,
    blocks,
    clear_step,
    decode_energy,
    decode_kernels,
    decode_linear_energy,
    decode_linear_time,
    decode_time,
    first_batch,
    host_work,
    linear_energy,
    linear_time,
    longest,
    rank_energy,
    rank_line,
    rank_tokens,
    split_line,
    steps_until,
    take_shared,
)
from perfatlas.serving.state import NEVER, NO_INDEX

if TYPE_CHECKING:
    from perfatlas.serving.state import SchedulerState, SimulationState


@part
def hold_prompts(sim: SimulationState, first: int) -> None:
    """Decide whether prompts wait in the next step of a replica.

    Limits: A prompt is ready if its rank has a free sequence slot; blocks that are missing are not
        looked at.
    """
    replica = sim.replica_R[first // sim.ranks]
    ready = 0
    decoding = 0
    for s in range(first, first + sim.ranks):
        scheduler = sim.scheduler_S[s]
        begun = scheduler.partial != NO_INDEX
        room = scheduler.running - scheduler.leaving < sim.limits.max_num_seqs
        if begun or (scheduler.waiting > 0 and room):
            ready += 1
        if scheduler.decoding > 0:
            decoding += 1
    step = sim.scheduler_S[first].step
    waits = step - replica.prompted < sim.limits.rank_balance_iters
    replica.holds = 0
    if 0 < ready < sim.ranks and decoding == sim.ranks and waits:
        replica.holds = 1
    elif ready > 0:
        replica.prompted = step


MAX_BATCH: Final = 1e18  # ps: well within 64 bits


@part
def begin(sim: SimulationState, r: int, now: int) -> None:
    """Start the next batch of steps of a replica, or leave it idle.

    With asynchronous scheduling, the scheduled steps start; when the last one has started, the next
    ones are scheduled.

    Args:
        now: Time [ps].
    """
    if sim.varies and sim.stages > 0 and sim.replica_R[first_batch(sim, r)].doomed:
        return  # it stops when the batches in flight have returned
    replica = sim.replica_R[r]
    if replica.steps == 0 and replica.next_steps > 0:
        if replica.stale:
            replica.next_steps = 1
        _run_planned(sim, r, now)
    while replica.decided == 0:
        start = now
        if replica.steps > 0:
            last = replica.start + batch_time(replica.base, replica.rise, replica.steps - 1)
            start = replica.start + batch_time(replica.base, replica.rise, replica.steps)
            sim.end_R[r] = start
            if sim.stages > 0:
                sim.end_R[r] = end_of_pass(sim, r, now)
            if not sim.limits.async_scheduling:
                break
            if last > now:
                sim.end_R[r] = last
                break
            plan_ahead(sim, r, start)
            replica.decided = 1
        _plan(sim, r, start)
        if replica.steps == 0:
            _run_planned(sim, r, now)
        if replica.steps == 0:
            sim.end_R[r] = NEVER
            break


@part
def _plan(sim: SimulationState, r: int, start: int) -> None:
    """Schedule the next batch of steps of a replica, if anything can run."""
    replica = sim.replica_R[r]
    first = r * sim.ranks
    busy = 0
    tries = sim.idle_passes if replica.steps == 0 else 1
    while busy == 0 and tries > 0:
        busy = _schedule_ranks(sim, first, start)
        tries -= 1
    replica.next_steps = 0
    if busy > 0:
        step = rank_tokens(sim, first)
        line, kernels = _replica_lines(sim, first, step)
        replica.next_steps = _equal_steps(sim, first, line)
        replica.next_base = line.base
        replica.next_rise = line.rise
        replica.next_wait_base = line.base - kernels.base
        replica.next_wait_rise = line.rise - kernels.rise
        added = _added_by_prompts(sim, first, step, (line.base, kernels.base))
        replica.next_extra = added[0]
        replica.next_prompt_time = 0
        replica.next_prompt_wait = added[1]
        if step.chunks > 0:
            replica.next_prompt_time = added[0] if step.decodes > 0 else line.base
        if sim.energy.rank_gpus > 0:
            _plan_energy(sim, r, step)


@part
def _schedule_ranks(sim: SimulationState, first: int, start: int) -> int:
    """Schedule all ranks of a replica; return the number of running sequences and chunks."""
    busy = 0
    if sim.stages > 0:
        take_shared(sim, first // sim.ranks)
    if sim.limits.rank_balance_iters > 0 and sim.ranks > 1:
        hold_prompts(sim, first)
    for s in range(first, first + sim.ranks):
        clear_step(sim, s, start)
        schedule(sim, s, start)
        busy += sim.scheduler_S[s].decodes + sim.scheduler_S[s].chunks
    if busy == 0 and sim.replica_R[first // sim.ranks].steps == 0:
        for s in range(first, first + sim.ranks):
            on_idle(sim, s)
    return int(busy)


@part
def _run_planned(sim: SimulationState, r: int, now: int) -> None:
    """Start the scheduled steps."""
    replica = sim.replica_R[r]
    replica.stale = 0
    replica.start = now
    replica.steps = replica.next_steps
    replica.base = replica.next_base
    replica.rise = replica.next_rise
    replica.extra = replica.next_extra
    replica.energy_base = replica.next_energy_base
    replica.energy_rise = replica.next_energy_rise
    replica.prompt_time = replica.next_prompt_time
    replica.prompt_energy = replica.next_prompt_energy
    replica.wait_base = replica.next_wait_base
    replica.wait_rise = replica.next_wait_rise
    replica.prompt_wait = replica.next_prompt_wait
    replica.next_steps = 0


@part
def _replica_lines(sim: SimulationState, first: int, step: RankTokens) -> tuple[Line, Line]:
    """Return the times of the replica's next steps, and those in which its GPUs run kernels.

    GPUs that wait for another rank run the kernel of a collective.
    """
    line: Line = _rank_line(sim, sim.scheduler_S[first], step)
    for s in range(first + 1, first + sim.ranks):
        line = longest(line, _rank_line(sim, sim.scheduler_S[s], step))
    kernels = line
    if sim.prices.host_overlapped:
        for s in range(first, first + sim.ranks):
            line = longest(line, Line(host_work(sim, sim.scheduler_S[s]), 0, UNLIMITED_STEPS))
        return line, kernels
    host = 0
    for s in range(first, first + sim.ranks):
        host += host_work(sim, sim.scheduler_S[s])
    return line, Line(line.base - host // sim.ranks, line.rise, line.steps)


@part
def _rank_line(sim: SimulationState, scheduler: SchedulerState, step: RankTokens) -> Line:
    """Return the time of the next steps of a rank."""
    line: Line = rank_line(sim, scheduler, linear_time(sim, step, scheduler))
    if sim.prices.micro_batches > 1:
        mean = -(-step.all_decodes // sim.ranks)
        return split_line(sim, scheduler, line, (step.chunks, mean))
    return line


@part
def _added_by_prompts(
    sim: SimulationState, first: int, step: RankTokens, times: tuple[int, int]
) -> tuple[int, int]:
    """Return the time that prompts add to a step, and its part without a kernel [ps].

    Without decodes, prompts add no time to any, and all of the time without a kernel is theirs.
    """
    time, kernels = times
    if step.chunks == 0:
        return 0, 0
    if step.decodes == 0:
        return 0, int(time - kernels)
    alone = 0
    if sim.prices.micro_batches > 1:
        alone = sim.prices.decode_away_B[-(-step.all_decodes // sim.ranks)]
    alone_kernels = alone
    for s in range(first, first + sim.ranks):
        scheduler = sim.scheduler_S[s]
        linear = decode_linear_time(sim, step, scheduler)
        alone = max(alone, decode_time(sim, scheduler, linear))
        alone_kernels = max(alone_kernels, decode_kernels(sim, scheduler, linear))
    return int(time - alone), int(max(time - kernels - (alone - alone_kernels), 0))


@part
def _plan_energy(sim: SimulationState, r: int, step: RankTokens) -> None:
    """Price the energy of the replica's next steps, whose time is known.

    Prompts spend what a step with prompts spends beyond its decodes alone.
    """
    replica = sim.replica_R[r]
    first = r * sim.ranks
    replica.next_energy_base = 0
    replica.next_energy_rise = 0
    for s in range(first, first + sim.ranks):
        scheduler = sim.scheduler_S[s]
        line = rank_energy(sim, scheduler, linear_energy(sim, step, scheduler))
        replica.next_energy_base += line.base
        replica.next_energy_rise += line.rise
    replica.next_prompt_energy = 0
    if step.chunks > 0:
        power = sim.energy.dynamic_power * sim.ranks
        spent = min(float(replica.next_energy_base), power * replica.next_base)
        if step.decodes > 0:
            alone = 0
            for s in range(first, first + sim.ranks):
                scheduler = sim.scheduler_S[s]
                alone += decode_energy(sim, scheduler, decode_linear_energy(sim, step, scheduler))
            spent -= min(float(alone), power * (replica.next_base - replica.next_extra))
        replica.next_prompt_energy = int(max(spent, 0.0))


@part
def _equal_steps(sim: SimulationState, first: int, line: Line) -> int:
    """Return the number of next steps that differ only in contexts."""
    if not sim.coalesce or sim.limits.draft_tokens > 0 or sim.stages > 0:
        return 1
    steps = line.steps
    for s in range(first, first + sim.ranks):
        scheduler = sim.scheduler_S[s]
        if scheduler.chunks > 0 or scheduler.preempted > 0:
            return 1
        steps = min(steps, steady_steps(sim, s))
        if scheduler.decodes > 0:  # a finished sequence decodes once more
            steps = min(steps, max(1, sim.finishing_SH[s, 0].key - scheduler.step))
    last = float(line.base) + float(line.rise) * steps + 1.0
    steps = min(steps, max(1, int(MAX_BATCH / last)))
    for s in range(first, first + sim.ranks):
        steps = 1 + blocks.steps_with_blocks(sim, s, steps - 1)
    return steps


@part
def end(sim: SimulationState, r: int, now: int) -> None:
    """Apply a finished batch of steps, except for finishing requests.

    Args:
        now: End of the last step [ps].
    """
    replica = sim.replica_R[r]
    note_done(sim, r)
    if sim.stages > 0:  # from here on, the time of a step is that since the token before
        replica.base = now - replica.start
    if sim.stream_token > 0:
        stream(sim, r, replica.steps, now)
    for s in range(r * sim.ranks, (r + 1) * sim.ranks):
        finish_step(sim, s, replica.steps, now)
    replica.steps = 0
    sim.end_R[r] = NEVER


@part
def truncate_batch(sim: SimulationState, r: int, now: int) -> None:
    """Truncate the batch of steps of a replica at the next step boundary.

    Args:
        now: Time [ps].
    """
    replica = sim.replica_R[r]
    delay = now - replica.start
    replica.steps = steps_until(replica.base, replica.rise, replica.steps, delay)
    sim.end_R[r] = replica.start + batch_time(replica.base, replica.rise, replica.steps)
