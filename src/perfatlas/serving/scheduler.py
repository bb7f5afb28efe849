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
from perfatlas.serving.step_time import NEVER, chunk_time

if TYPE_CHECKING:
    from perfatlas.serving.state import World


@part
def schedule(world: World, s: int, now: int) -> None:
    """Decide what a scheduler runs in its next step.

    Args:
        world: The simulation.
        s: The scheduler.
        now: When the step begins [ps].
    """
    lane = world.lane_S[s]
    lane.fresh = 0
    lane.chunks = 0
    lane.tokens = 0
    lane.attention = 0
    lane.last = NEVER
    lane.preempted = 0
    _keep_decoding(world, s)
    if lane.partial != NOBODY:
        _continue_prompt(world, s)
    if lane.preempted == 0:
        _admit(world, s, now)


@part
def _keep_decoding(world: World, s: int) -> None:
    """Give decoding sequences their blocks, throwing out the last admitted while one is missing."""
    lane = world.lane_S[s]
    residue = -lane.step % world.block_size
    while world.growth_SB[s, residue] > lane.free:
        _preempt(world, s)
    blocks.grow(world, s, 1)


@part
def _continue_prompt(world: World, s: int) -> None:
    """Run the next chunk of the partly computed prompt, or throw it out."""
    lane = world.lane_S[s]
    request = world.request_N[lane.partial]
    budget = world.max_num_batched_tokens - lane.decoding
    chunk = min(request.isl + request.generated - request.computed, budget)
    size = world.block_size
    need = (request.computed + chunk + size - 1) // size - (request.computed + size - 1) // size
    if need > lane.free:
        _preempt(world, s)
    else:
        _run_chunk(world, lane.partial, chunk)


@part
def _admit(world: World, s: int, now: int) -> None:
    """Admit from the head of the queue until it is empty or its head does not fit."""
    lane = world.lane_S[s]
    budget = world.max_num_batched_tokens - lane.decoding - lane.tokens
    while lane.waiting > 0 and budget > 0 and lane.running < world.max_num_seqs:
        i = lane.waiting_head
        request = world.request_N[i]
        total = request.isl + request.generated
        hits, idle_hits = blocks.hits(world, i)
        chunk = min(total - hits * world.block_size, budget)
        tokens = total if world.reserve_full_isl else hits * world.block_size + chunk
        if (tokens + world.block_size - 1) // world.block_size - hits + idle_hits > lane.free:
            break
        if request.scheduled == NOBODY:
            request.scheduled = now
            request.cached = hits * world.block_size
        _start_running(world, s, i)
        blocks.share(world, i, hits)
        _run_chunk(world, i, chunk)
        budget -= chunk


@part
def _start_running(world: World, s: int, i: int) -> None:
    """Move the head of the queue to the end of the running."""
    lane = world.lane_S[s]
    request = world.request_N[i]
    lane.waiting_head = request.after
    lane.waiting -= 1
    if lane.waiting == 0:
        lane.waiting_tail = NOBODY
    request.before = lane.running_tail
    request.after = NOBODY
    if lane.running_tail != NOBODY:
        world.request_N[lane.running_tail].after = i
    lane.running_tail = i
    lane.running += 1
    request.order = lane.admitted
    lane.admitted += 1


@part
def _run_chunk(world: World, i: int, chunk: int) -> None:
    """Put a chunk of a prompt, for which there are blocks, into the step."""
    request = world.request_N[i]
    s = request.lane
    lane = world.lane_S[s]
    blocks.extend(world, i, request.computed + chunk)
    lane.attention += chunk_time(world, world.prefill_added_QP, chunk, request.computed)
    lane.last = max(lane.last, chunk_time(world, world.prefill_last_QP, chunk, request.computed))
    lane.tokens += chunk
    lane.chunks += 1
    request.computed += chunk
    if request.computed < request.isl + request.generated:
        lane.partial = i
        return
    lane.partial = NOBODY
    lane.fresh += 1
    request.finish = lane.step + request.osl - request.generated
    put(world.finishing_SH[s], world.request_N, lane.heap, (request.finish, request.order, i))
    lane.heap += 1


@part
def _preempt(world: World, s: int) -> None:
    """Throw out the last admitted; it goes to the head of the queue and starts over."""
    lane = world.lane_S[s]
    i = lane.running_tail
    request = world.request_N[i]
    if i == lane.partial:
        lane.partial = NOBODY
    elif request.finish > lane.step:  # not one that ends in the step now running
        request.generated = request.osl - (request.finish - lane.step)
        request.computed = request.isl + request.generated - 1
        drop(world.finishing_SH[s], world.request_N, lane.heap, request.place)
        lane.heap -= 1
        stop_decoding(world, i)
    blocks.keep_known(world, i)
    blocks.release(world, i)
    leave_running(world, i)
    request.computed = 0
    request.preempted += 1
    lane.preempted += 1
    world.clock_1[0].preemptions += 1
    request.after = lane.waiting_head
    lane.waiting_head = i
    if lane.waiting == 0:
        lane.waiting_tail = i
    lane.waiting += 1


@part
def leave_running(world: World, i: int) -> None:
    """Take a request out of the running ones of its scheduler.

    Args:
        world: The simulation.
        i: The request.
    """
    request = world.request_N[i]
    lane = world.lane_S[request.lane]
    if request.before != NOBODY:
        world.request_N[request.before].after = request.after
    if request.after != NOBODY:
        world.request_N[request.after].before = request.before
    else:
        lane.running_tail = request.before
    lane.running -= 1


@part
def leave_queue(world: World, i: int) -> None:
    """Take a request that was thrown out from the queue of its scheduler.

    Args:
        world: The simulation.
        i: The request, near the head.
    """
    lane = world.lane_S[world.request_N[i].lane]
    before = NOBODY
    at = lane.waiting_head
    while at != i:
        before = at
        at = world.request_N[at].after
    after = world.request_N[i].after
    lane.waiting -= 1
    if before == NOBODY:
        lane.waiting_head = after
    else:
        world.request_N[before].after = after
    if lane.waiting_tail == i:
        lane.waiting_tail = before


@part
def take_finishing(world: World, s: int) -> int:
    """Return a request that has its last token, taken from those that decode; NOBODY if none has.

    Args:
        world: The simulation.
        s: Its scheduler.
    """
    lane = world.lane_S[s]
    if lane.heap == 0 or world.finishing_SH[s, 0].key != lane.step:
        return NOBODY
    i = world.finishing_SH[s, 0].item
    drop(world.finishing_SH[s], world.request_N, lane.heap, 0)
    lane.heap -= 1
    request = world.request_N[i]
    request.computed = request.isl + request.osl - 1
    stop_decoding(world, i)
    return int(i)


@part
def _start_decoding(world: World, i: int) -> None:
    """Count a request, whose prompt is computed, among those that decode.

    Args:
        world: The simulation.
        i: The request; the step counter is past the step that ended its prompt.
    """
    request = world.request_N[i]
    lane = world.lane_S[request.lane]
    lane.decoding += 1
    lane.context += request.computed
    blocks.join_growth(world, i)


@part
def stop_decoding(world: World, i: int) -> None:
    """Take a request out of those that decode.

    Args:
        world: The simulation.
        i: The request; `computed` tells its tokens in the cache.
    """
    request = world.request_N[i]
    lane = world.lane_S[request.lane]
    lane.decoding -= 1
    lane.context -= request.computed
    blocks.leave_growth(world, i)


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
    lane.step += 1
    blocks.grow(world, s, steps - 1)
    lane.step += steps - 1
    lane.context += lane.decoding * steps
    _start_fresh(world, s, now)


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
        if request.first_token == NOBODY:
            request.first_token = now
        _start_decoding(world, i)
        i = request.after
    lane.fresh = 0
