"""One step of one scheduler by the rules of vLLM V1, without a look at every sequence.

Sequences run in order of admission. Those past their prompts decode one token per step and have
the first claim on the budget of tokens; prompts take what is left, in chunks.

At most one prompt is partly computed, and it is the last admitted: a chunk is cut short only by the
end of the budget, which ends admission in that step; in later steps the sequences before it take
one token each, it takes the rest, and only a budget that outlasts it reaches the queue. It always
gets a token, since a scheduler runs no more sequences than it has tokens.

A sequence in need of a block throws out the last admitted, possibly itself. Those thrown out come
after it, so they have not been scheduled yet, and the fewest leave that let all others go on.
Counting needs is therefore enough: which sequence needs a block in which step is fixed by its
context modulo the size of a block, relative to the steps of the scheduler.

Source: vllm-project/vllm, vllm/v1/core/sched/scheduler.py, schedule() and update_from_output().

Shape legend: N requests, S schedulers, B places in a cache block.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.serving import blocks
from perfatlas.serving.heap import drop, put
from perfatlas.serving.machine import part
from perfatlas.serving.state import NOBODY
from perfatlas.serving.step_time import prefill_attention

if TYPE_CHECKING:
    from perfatlas.serving.state import Setup, State


@part
def schedule(setup: Setup, state: State, s: int, now: int) -> None:
    """Decide what a scheduler runs in the step that begins now.

    Args:
        setup: What holds during a simulation.
        state: What changes.
        s: The scheduler.
        now: Time [ps].
    """
    lane = state.lane_S[s]
    lane.fresh = 0
    lane.chunks = 0
    lane.tokens = 0
    lane.attention = 0
    lane.preempted = 0
    _keep_decoding(setup, state, s)
    if lane.partial != NOBODY:
        _continue_prompt(setup, state, s)
    if lane.preempted == 0:
        _admit(setup, state, s, now)


@part
def _keep_decoding(setup: Setup, state: State, s: int) -> None:
    """Give decoding sequences their blocks, throwing out the last admitted while one is missing."""
    lane = state.lane_S[s]
    residue = -lane.step % setup.limits.block_size
    while state.growth_SB[s, residue] > lane.free:
        _preempt(setup, state, s)
    blocks.grow(setup, state, s, 1)


@part
def _continue_prompt(setup: Setup, state: State, s: int) -> None:
    """Run the next chunk of the partly computed prompt, or throw it out."""
    lane = state.lane_S[s]
    request = state.request_N[lane.partial]
    budget = setup.limits.max_num_batched_tokens - lane.decoding
    chunk = min(request.isl + request.generated - request.computed, budget)
    size = setup.limits.block_size
    need = (request.computed + chunk + size - 1) // size - (request.computed + size - 1) // size
    if need > lane.free:
        _preempt(setup, state, s)
    else:
        _run_chunk(setup, state, lane.partial, chunk)


@part
def _admit(setup: Setup, state: State, s: int, now: int) -> None:
    """Admit from the head of the queue until it is empty or its head does not fit."""
    lane = state.lane_S[s]
    limits = setup.limits
    budget = limits.max_num_batched_tokens - lane.decoding - lane.tokens
    while lane.waiting > 0 and budget > 0 and lane.running < limits.max_num_seqs:
        i = lane.waiting_head
        request = state.request_N[i]
        total = request.isl + request.generated
        hits, idle_hits = blocks.hits(setup, state, i)
        chunk = min(total - hits * limits.block_size, budget)
        tokens = total if limits.reserve_full_isl else hits * limits.block_size + chunk
        if (tokens + limits.block_size - 1) // limits.block_size - hits + idle_hits > lane.free:
            break
        if request.scheduled == NOBODY:
            request.scheduled = now
            request.cached = hits * limits.block_size
        _start_running(state, s, i)
        blocks.share(setup, state, i, hits)
        _run_chunk(setup, state, i, chunk)
        budget -= chunk


@part
def _start_running(state: State, s: int, i: int) -> None:
    """Move the head of the queue to the end of the running."""
    lane = state.lane_S[s]
    request = state.request_N[i]
    lane.waiting_head = request.after
    lane.waiting -= 1
    if lane.waiting == 0:
        lane.waiting_tail = NOBODY
    request.before = lane.running_tail
    request.after = NOBODY
    if lane.running_tail != NOBODY:
        state.request_N[lane.running_tail].after = i
    lane.running_tail = i
    lane.running += 1
    request.order = lane.admitted
    lane.admitted += 1


@part
def _run_chunk(setup: Setup, state: State, i: int, chunk: int) -> None:
    """Put a chunk of a prompt, for which there are blocks, into the step."""
    request = state.request_N[i]
    s = request.lane
    lane = state.lane_S[s]
    blocks.extend(setup, state, i, request.computed + chunk)
    lane.attention += prefill_attention(setup.prices, chunk, request.computed)
    lane.tokens += chunk
    lane.chunks += 1
    request.computed += chunk
    if request.computed < request.isl + request.generated:
        lane.partial = i
        return
    lane.partial = NOBODY
    lane.fresh += 1
    request.finish = lane.step + request.osl - request.generated
    put(state.finishing_SH[s], state.request_N, lane.heap, (request.finish, request.order, i))
    lane.heap += 1


@part
def _preempt(setup: Setup, state: State, s: int) -> None:
    """Throw out the last admitted; it goes to the head of the queue and starts over."""
    lane = state.lane_S[s]
    i = lane.running_tail
    request = state.request_N[i]
    if i == lane.partial:
        lane.partial = NOBODY
    else:
        request.generated = request.osl - (request.finish - lane.step)
        request.computed = request.isl + request.generated - 1
        drop(state.finishing_SH[s], state.request_N, lane.heap, request.place)
        lane.heap -= 1
        stop_decoding(setup, state, i)
    blocks.keep_known(setup, state, i)
    blocks.release(setup, state, i)
    leave_running(state, i)
    request.computed = 0
    request.preempted += 1
    lane.preempted += 1
    state.clock_1[0].preemptions += 1
    request.after = lane.waiting_head
    lane.waiting_head = i
    if lane.waiting == 0:
        lane.waiting_tail = i
    lane.waiting += 1


@part
def leave_running(state: State, i: int) -> None:
    """Take a request out of the running ones of its scheduler.

    Args:
        state: What changes.
        i: The request.
    """
    request = state.request_N[i]
    lane = state.lane_S[request.lane]
    if request.before != NOBODY:
        state.request_N[request.before].after = request.after
    if request.after != NOBODY:
        state.request_N[request.after].before = request.before
    else:
        lane.running_tail = request.before
    lane.running -= 1


@part
def _start_decoding(setup: Setup, state: State, i: int) -> None:
    """Count a request, whose prompt is computed, among those that decode.

    Args:
        setup: What holds during a simulation.
        state: What changes.
        i: The request; the step counter is past the step that ended its prompt.
    """
    request = state.request_N[i]
    lane = state.lane_S[request.lane]
    lane.decoding += 1
    lane.context += request.computed
    blocks.join_growth(setup, state, i)


@part
def stop_decoding(setup: Setup, state: State, i: int) -> None:
    """Take a request out of those that decode.

    Args:
        setup: What holds during a simulation.
        state: What changes.
        i: The request; `computed` tells its tokens in the cache.
    """
    request = state.request_N[i]
    lane = state.lane_S[request.lane]
    lane.decoding -= 1
    lane.context -= request.computed
    blocks.leave_growth(setup, state, i)


@part
def finish_step(setup: Setup, state: State, s: int, steps: int, now: int) -> None:
    """Let the steps of a stretch have happened: contexts grow, ended prompts start to decode.

    Args:
        setup: What holds during a simulation.
        state: What changes.
        s: The scheduler.
        steps: Steps taken; 1 where prompts ran.
        now: Their end [ps].
    """
    lane = state.lane_S[s]
    lane.step += 1
    blocks.grow(setup, state, s, steps - 1)
    lane.step += steps - 1
    lane.context += lane.decoding * steps
    _start_fresh(setup, state, s, now)


@part
def _start_fresh(setup: Setup, state: State, s: int, now: int) -> None:
    """Let the prompts that ended start to decode, in order of admission: the last running ones."""
    lane = state.lane_S[s]
    i = lane.running_tail
    back = lane.fresh - 1
    if lane.partial != NOBODY:
        back += 1
    for _ in range(back):
        i = state.request_N[i].before
    for _ in range(lane.fresh):
        request = state.request_N[i]
        if request.first_token == NOBODY:
            request.first_token = now
        _start_decoding(setup, state, i)
        i = request.after
    lane.fresh = 0
