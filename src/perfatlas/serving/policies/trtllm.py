"""The TensorRT-LLM scheduling policies: in-flight batching.

Scheduling has two parts. Capacity: with `trtllm_guaranteed_no_evict` a request starts if all blocks
it will ever need are neither used nor reserved by running requests, so that requests are never
preempted; with `trtllm_max_utilization` it starts if its prompt fits, and when a decoding sequence
finds no block, the last started request is paused and restarts from the head of the queue.
Tokens: decoding sequences take one each, prompts the rest, in order. Without chunked prefill the
first prompt that does not fit ends the step's prompts; with it, the prompt is truncated to a
multiple of a block, possibly 0. A prompt is allocated blocks for all its tokens when it starts.

With batch waiting, prompts that fit are waits while sequences decode until the step is full
enough or they have waited long enough; attention-data-parallel ranks never wait.

A sequence that gets its last token in the running step neither occupies a slot nor is paused.

Source: NVIDIA/TensorRT-LLM, cpp/tensorrt_llm/batch_manager/capacityScheduler.cpp,
GuaranteedNoEvictScheduler::impl() and MaxUtilizationScheduler::operator();
microBatchScheduler.cpp, MicroBatchScheduler::operator() and setCtxRequestsChunkSize() of
FIRST_COME_FIRST_SERVED; tensorrt_llm/_torch/pyexecutor/py_executor.py, which schedules the next
step while one runs and skips requests known to complete in it, and _waiting_requests().

Limits: Nothing starts after a truncated prompt in the same step. Cached tokens do not count against
the budget. Requests do not wait for a prefix that another one computes in the same step. A paused
request larger than the budget resumes in chunks. A paused request keeps the token of the running
step.

Shape legend: S schedulers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfatlas.compiled import part
from perfatlas.serving.policies.policy import BatchingPolicy
from perfatlas.serving.sequences import (
    UNLIMITED_STEPS,
    admit_head,
    allocate_decodes,
    blocks,
    decode_blocks,
    has_ended,
    is_handed,
    join,
    preempt,
    queue_first,
    run_chunk,
    start_transfer,
    tokens_to_allocate,
)
from perfatlas.serving.state import NO_INDEX

if TYPE_CHECKING:
    from perfatlas.serving.state import SimulationState


@part
def schedule_trtllm(sim: SimulationState, s: int, now: int) -> None:
    """Schedule the next step.

    Args:
        now: Start of the step [ps].
    """
    decode_all(sim, s, now)
    if sim.scheduler_S[s].preempted == 0:
        run_prompts(sim, s, now)


@part
def decode_all(sim: SimulationState, s: int, now: int) -> None:
    """Decode all sequences past their prompts, pausing the last started while blocks are missing.

    Args:
        now: Start of the step [ps].
    """
    scheduler = sim.scheduler_S[s]
    while decode_blocks(sim, s) > scheduler.free:
        i = scheduler.running_tail
        while has_ended(sim, i):  # the last started request that is not ending is paused
            i = sim.request_N[i].before
        preempt(sim, i)
        queue_first(sim, i)
    allocate_decodes(sim, s)
    if scheduler.arrived > 0 and scheduler.preempted == 0 and scheduler.partial == NO_INDEX:
        join(sim, s, sim.limits.max_num_seqs - (scheduler.running - scheduler.leaving), now)
    scheduler.decodes = scheduler.decoding


@part
def run_prompts(sim: SimulationState, s: int, now: int) -> None:
    """Add prompts to the step, or let them wait for more prompts.

    Args:
        now: Start of the step [ps].
    """
    scheduler = sim.scheduler_S[s]
    budget = sim.limits.max_num_batched_tokens - scheduler.decoding * sim.prices.tokens_per_decode
    if sim.limits.rank_balance_iters > 0 and sim.replica_R[s // sim.ranks].holds > 0:
        return
    if sim.limits.batch_wait_timeout_iters > 0 and _wait(sim, s, budget):
        return
    if scheduler.partial != NO_INDEX:
        request = sim.request_N[scheduler.partial]
        chunk = _chunk_tokens(sim, request.isl + request.generated - request.computed, budget)
        if chunk > 0:
            run_chunk(sim, scheduler.partial, chunk)
        budget -= scheduler.tokens
    if scheduler.partial == NO_INDEX:
        _start(sim, s, budget, now)


@part
def _chunk_tokens(sim: SimulationState, wanted: int, budget: int) -> int:
    """Return the tokens of a chunk: all of them, or whole blocks within the budget."""
    if wanted <= budget:
        return wanted
    return int(budget // sim.limits.block_size * sim.limits.block_size)


@part
def _wait(sim: SimulationState, s: int, budget: int) -> bool:
    """Return whether fitting prompts wait for more prompts, and count the step."""
    scheduler = sim.scheduler_S[s]
    tokens = _fitting(sim, s, budget)
    if scheduler.decodes == 0 or tokens == 0 or sim.ranks > 1:
        return False
    if (
        scheduler.batch_waits >= sim.limits.batch_wait_timeout_iters
        or tokens + scheduler.decodes * sim.prices.tokens_per_decode
        >= sim.limits.batch_wait_max_tokens
    ):
        scheduler.batch_waits = 0
        return False
    scheduler.batch_waits += 1
    return True


@part
def _fitting(sim: SimulationState, s: int, budget: int) -> int:
    """Return the total tokens of the prompts that would run in the next step."""
    scheduler = sim.scheduler_S[s]
    tokens = 0
    if scheduler.partial != NO_INDEX:
        request = sim.request_N[scheduler.partial]
        total = request.isl + request.generated
        chunk = _chunk_tokens(sim, total - request.computed, budget)
        budget -= chunk
        tokens = total if chunk > 0 else 0
        if chunk < total - request.computed:
            return int(tokens)
    left = scheduler.spare if sim.reserves_blocks else scheduler.free
    running = scheduler.running - scheduler.leaving
    i = scheduler.waiting_head
    for _ in range(scheduler.waiting):
        request = sim.request_N[i]
        total = request.isl + request.generated
        if sim.reserves_blocks:
            left -= blocks.reserved_at_end(sim, i)
        else:
            left -= blocks.count(sim, total)
        wanted = total - blocks.find_cached(sim, i).found * sim.limits.block_size
        chunk = _chunk_tokens(sim, wanted, budget)
        if left < 0 or running >= sim.limits.max_num_seqs or chunk <= 0:
            break
        if (
            chunk < wanted
            and not sim.limits.chunked_prefill
            and total <= sim.limits.max_num_batched_tokens
        ):
            break
        tokens += total
        running += 1
        budget -= chunk
        if chunk < wanted or budget <= 0:
            break
        i = request.after
    return int(tokens)


@part
def _start(sim: SimulationState, s: int, budget: int, now: int) -> None:
    """Start requests from the head of the queue while they fit."""
    scheduler = sim.scheduler_S[s]
    left = scheduler.spare if sim.reserves_blocks else scheduler.free
    while scheduler.waiting > 0 and budget > 0 and scheduler.partial == NO_INDEX:
        i = scheduler.waiting_head
        request = sim.request_N[i]
        total = request.isl + request.generated
        if sim.reserves_blocks:
            left -= blocks.reserved_at_end(sim, i)
        else:
            left -= blocks.count(sim, total)
        cached = blocks.find_cached(sim, i)
        if is_handed(sim, i):
            if left < 0 or scheduler.running - scheduler.leaving >= sim.limits.max_num_seqs:
                break
            start_transfer(sim, i, cached, tokens_to_allocate(sim, i), now)
            left = scheduler.spare
            continue
        wanted = total - cached.found * sim.limits.block_size
        chunk = _chunk_tokens(sim, wanted, budget)
        cut = chunk < wanted
        if (
            left < 0
            or scheduler.running - scheduler.leaving >= sim.limits.max_num_seqs
            or chunk == 0
        ):
            break
        if cut and not sim.limits.chunked_prefill and total <= sim.limits.max_num_batched_tokens:
            break
        admit_head(sim, i, cached, now)
        blocks.extend(sim, i, total)
        run_chunk(sim, i, chunk)
        budget -= chunk


@part
def check_while_waiting(sim: SimulationState, s: int) -> int:
    """Return 1 if prompts wait for more prompts, here or on other ranks, as every step counts."""
    scheduler = sim.scheduler_S[s]
    waits = scheduler.batch_waits > 0
    if sim.limits.rank_balance_iters > 0:
        waits = waits or sim.replica_R[s // sim.ranks].holds > 0
    stuck = waits and (scheduler.waiting > 0 or scheduler.partial != NO_INDEX)
    return 1 if stuck else UNLIMITED_STEPS


READS: Final = frozenset(("batch_wait_timeout_iters", "batch_wait_max_tokens"))
BALANCING: Final = READS | {"rank_balance_iters"}
GUARANTEED_NO_EVICT: Final = BatchingPolicy(
    name="trtllm_guaranteed_no_evict",
    title="TensorRT-LLM",
    description=(
        "requests are scheduled as in TensorRT-LLM's in-flight batching: a request starts if all"
        " blocks up to its last token can be reserved; requests are never preempted"
    ),
    roles=("both", "prefill", "decode"),
    reads=BALANCING,
    fixed={"decode": {"batch_wait_timeout_iters": 0, "rank_balance_iters": 0}},
    chunks_whole_blocks=True,
    reserves_blocks=True,
    schedule=schedule_trtllm,
    steady_steps=check_while_waiting,
)
MAX_UTILIZATION: Final = BatchingPolicy(
    name="trtllm_max_utilization",
    title="TensorRT-LLM",
    description=(
        "requests are scheduled as in TensorRT-LLM's in-flight batching: a request starts if its"
        " prompt fits; without a free block the last started request is paused and restarts"
    ),
    roles=("both", "prefill"),
    reads=BALANCING,
    chunks_whole_blocks=True,
    schedule=schedule_trtllm,
    steady_steps=check_while_waiting,
)
