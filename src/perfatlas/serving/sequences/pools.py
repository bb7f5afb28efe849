"""Scheduling of prefilled requests at decode engines in disaggregated serving.

A request whose prompt has finished at a prefill engine is handed over to a decode engine, where it
waits in the queue like any other. When it reaches the head and there are blocks for the prompt and
the next token, they are allocated and the KV cache is transferred; until it arrives, the request
holds blocks on both engines and runs on neither. It then joins the decode batch as soon as there is
a slot, before others are admitted, in order of arrival of the KV caches. Depending on the
scheduler, a sequence preempted later restarts on its decode engine including the prompt, or its KV
cache is kept in host memory.

The first token depends on the engine: the prefill engine's, returned at the end of its step; the
same, returned when the sequence joins the decode batch; or the one that the decode engine
recomputes from the last token of the prompt.

Source: vllm-project/vllm, vllm/v1/core/sched/scheduler.py, WAITING_FOR_REMOTE_KVS and
_update_waiting_for_remote_kv(), which leaves the last token to be computed; sgl-project/sglang,
python/sglang/srt/disaggregation/decode.py, get_new_prebuilt_batch(); NVIDIA/TensorRT-LLM,
tensorrt_llm/_torch/pyexecutor/py_executor.py, _handle_first_token_response(): the first token is
returned when the sequence joins the batch.

Limits: No sequence joins while a restarted prompt is partially computed. Blocks in the prefix cache
of the decode engine are not transferred. Transfers do not overlap with the prefill.

Shape legend: N requests, S schedulers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.compiled import part
from perfatlas.serving.config import ARRIVAL, DECODE, PREFILL, RECOMPUTED
from perfatlas.serving.sequences import blocks
from perfatlas.serving.sequences.running import leave_running, run_last, start_decoding
from perfatlas.serving.sequences.speculation import decode_steps
from perfatlas.serving.sequences.stages import first_batch, queue_owner
from perfatlas.serving.state import FETCHED, HANDED, LOCAL, NO_INDEX, put

if TYPE_CHECKING:
    from perfatlas.serving.state import SimulationState


@part
def schedule_arrival(sim: SimulationState, i: int, time: int) -> None:
    """Schedule an event of a request: its arrival, or its handover to a decode engine.

    Args:
        time: Time of the event [ps].
    """
    clock = sim.clock_1[0]
    put(sim.coming_C, sim.request_N, clock.coming, (time, i, i))
    clock.coming += 1


@part
def continues_elsewhere(sim: SimulationState, i: int) -> bool:
    """Return whether a request that ends at an engine continues at another."""
    return bool(sim.role == PREFILL and (sim.requests.osl_N[i] > 1 or sim.first_from >= ARRIVAL))


@part
def hand_over(sim: SimulationState, i: int, now: int) -> None:
    """Remove a request from its prefill engine, except for the blocks of its prompt.

    Args:
        i: The request, with its prompt computed.
        now: Time [ps].
    """
    request = sim.request_N[i]
    travel = sim.travel_N[i]
    leave_running(sim, i)
    replica = request.scheduler // sim.ranks
    home = sim.replica_R[first_batch(sim, replica)]
    home.load -= 1
    home.sending += 1
    travel.stage = HANDED
    travel.handed = now
    travel.home = sim.first_replica + replica
    travel.scheduler = request.scheduler
    travel.row = request.row
    travel.placed = request.placed
    travel.registered = request.registered
    request.osl = sim.requests.osl_N[i]
    request.generated = 0
    request.computed = 0
    request.placed = 0
    request.registered = 0
    if sim.first_from >= ARRIVAL:
        sim.first_token_N[i] = NO_INDEX
    schedule_arrival(sim, i, now)


@part
def cancel_transfer(sim: SimulationState, i: int) -> None:
    """Free the blocks that a request has at its decode engine before its KV cache arrives."""
    request = sim.request_N[i]
    scheduler = sim.scheduler_S[request.scheduler]
    if sim.reserves_blocks:
        scheduler.spare += blocks.reserved_at_end(sim, i) - blocks.count(sim, request.placed)
    blocks.release(sim, i)
    scheduler.away -= 1


@part
def free_prefill_blocks(sim: SimulationState, i: int) -> None:
    """Free the blocks of a request at its prefill engine.

    Args:
        i: The request, with its KV cache at its decode engine.
    """
    request = sim.request_N[i]
    travel = sim.travel_N[i]
    scheduler, row, placed = request.scheduler, request.row, request.placed
    registered = request.registered
    sim.replica_R[first_batch(sim, travel.scheduler // sim.ranks)].sending -= 1
    request.scheduler = travel.scheduler
    request.row = travel.row
    request.placed = travel.placed
    request.registered = travel.registered
    blocks.release(sim, i)
    request.scheduler = scheduler
    request.row = row
    request.placed = placed
    request.registered = registered


@part
def is_handed(sim: SimulationState, i: int) -> bool:
    """Return whether the KV cache of a queued request is at another engine."""
    return bool(sim.role == DECODE and sim.travel_N[i].stage == HANDED)


@part
def tokens_to_allocate(sim: SimulationState, i: int) -> int:
    """Return the tokens for which a prefilled request is allocated blocks before it decodes."""
    request = sim.request_N[i]
    more = 0 if sim.first_from == RECOMPUTED else min(request.osl - 1, 1)
    return int(request.isl + more + sim.decode_slots - 1)


@part
def first_output(sim: SimulationState) -> int:
    """Return the output tokens of a prefilled request that has not decoded yet."""
    return 0 if sim.first_from == RECOMPUTED else 1


@part
def start_transfer(
    sim: SimulationState, i: int, cached: blocks.Cached, tokens: int, now: int
) -> None:
    """Dequeue the head of a queue, allocate its blocks and start its KV cache transfer.

    Args:
        i: The request at the head; there are enough blocks.
        cached: Leading blocks in the prefix cache.
        tokens: Tokens for which blocks are allocated.
        now: Start of the step [ps].
    """
    request = sim.request_N[i]
    request.scheduler = queue_owner(sim, request.scheduler)
    travel = sim.travel_N[i]
    scheduler = sim.scheduler_S[request.scheduler]
    scheduler.waiting_head = request.after
    scheduler.waiting -= 1
    if scheduler.waiting == 0:
        scheduler.waiting_tail = NO_INDEX
    if sim.reserves_blocks:
        scheduler.spare -= blocks.reserved_at_end(sim, i) - cached.hits + cached.idle
    blocks.reference_cached(sim, i, cached.hits)
    blocks.extend(sim, i, tokens)
    travel.tokens = request.isl - cached.hits * sim.limits.block_size
    travel.stage = FETCHED
    scheduler.away += 1
    schedule_arrival(sim, i, now)


@part
def join(sim: SimulationState, s: int, most: int, now: int) -> None:
    """Add sequences with arrived KV caches to the decode batch, in order of arrival.

    Args:
        s: The scheduler, after allocating blocks to decoding sequences.
        most: Maximum number of sequences.
        now: Start of the step [ps].
    """
    scheduler = sim.scheduler_S[s]
    while scheduler.arrived > 0 and scheduler.joiners < most:
        i = scheduler.arrived_head
        scheduler.arrived_head = sim.request_N[i].after
        scheduler.arrived -= 1
        scheduler.away -= 1
        scheduler.joiners += 1
        first = sim.travel_N[i].stage != LOCAL
        join_one(sim, i, now)
        if first:
            blocks.cache_tokens(sim, i, sim.request_N[i].isl)


@part
def join_one(sim: SimulationState, i: int, now: int) -> None:
    """Add a sequence with an arrived KV cache to the decode batch.

    Args:
        i: The request; one resumed from host memory keeps its generated tokens.
        now: Start of the step [ps].
    """
    request = sim.request_N[i]
    travel = sim.travel_N[i]
    first = travel.stage != LOCAL
    run_last(sim, i)
    if first:
        request.generated = first_output(sim)
    request.computed = request.isl + request.generated - 1
    start_decoding(sim, i, decode_steps(sim, i, request.generated))
    request.joined += 1  # not in the running step
    if first:
        travel.stage = LOCAL
        travel.resumed = now
        if sim.first_from == ARRIVAL:
            sim.first_token_N[i] = now
