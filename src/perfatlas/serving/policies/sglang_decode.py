"""The SGLang scheduling policy of decode engines in disaggregated serving.

Retracted sequences come first, in order: their KV caches are in host memory, and each resumes if it
fits in addition to the reserved tokens. While any of them waits, no other KV cache is accepted.
Then arrived KV caches become ready, and prefilled requests are allocated blocks in order of arrival
and their KV caches are transferred, if the prompt plus `reserved_decode_tokens`, and the whole
request less what retracting all others would free, fit into the free blocks less the reserved
tokens of all running or pending sequences and less the remaining need of the longest running one.
Ready requests join the batch as soon as there is a slot, and all sequences decode; if blocks are
missing, sequences are retracted as usual.

Source: sgl-project/sglang 0.5.23, python/sglang/srt/disaggregation/decode.py,
process_decode_queue(), resume_retracted_reqs(), pop_preallocated(), _allocatable_token_budgets(),
get_next_disagg_decode_batch_to_run(); arg_groups/pd_disaggregation_hook.py for the slots.

Limits: Blocks are allocated at the end of the prompt (disaggregation_decode_allocation_policy
prefill_complete); by default SGLang allocates them before its start, so that a full KV cache delays
prompts instead of prefilled requests. Copies to and from the host take no time. Finished sequences
that are still in the batch count as active but not as retractable. If nothing runs, arrived KV
caches become ready even if a retracted sequence waits, as the engine would otherwise deadlock.
There is no prefix cache (no radix cache on decode engines, the default).

Shape legend: N requests, S schedulers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfatlas.compiled import part
from perfatlas.serving.policies.policy import BatchingPolicy
from perfatlas.serving.policies.sglang import (
    MAX_EXPECTED,
    SGLANG,
    decode_batch,
    fits_with_spare_block,
    keep_in_batch,
    output_of,
    reset_ratio,
    slots_of_steps,
)
from perfatlas.serving.sequences import (
    blocks,
    first_output,
    join_one,
    queue_at_socket,
    queue_last,
    receive_at_interval,
    start_transfer,
    steps_to_receiving,
)
from perfatlas.serving.state import NO_INDEX

if TYPE_CHECKING:
    from perfatlas.serving.state import SimulationState

SMALL_BATCH: Final = 32  # sequences, up to which there are extra slots for KV caches
EXTRA_SLOTS: Final = 2  # extra slots per sequence


@part
def schedule_sglang_decode(sim: SimulationState, s: int, now: int) -> None:
    """Schedule the next step.

    Args:
        now: Start of the step [ps].
    """
    scheduler = sim.scheduler_S[s]
    if sim.limits.scheduler_recv_interval > 1:
        receive_at_interval(sim, s)
    size = sim.limits.block_size
    while scheduler.retracted > 0 and _slots(sim, s) > 0:
        retracted = scheduler.retracted_head
        tokens = sim.request_N[retracted].isl + sim.request_N[retracted].generated - 1
        need = blocks.count(sim, tokens) * size + sim.limits.reserved_decode_tokens
        if need > scheduler.free * size - _reserved(sim, s):
            break
        scheduler.retracted_head = sim.request_N[retracted].after
        scheduler.retracted -= 1
        blocks.reference_cached(sim, retracted, 0)
        blocks.extend(sim, retracted, tokens)
        scheduler.away += 1
        _put_ready(sim, s, retracted)
    idle = scheduler.decoding + scheduler.ended + scheduler.ready == 0
    if scheduler.retracted == 0 or idle:
        while scheduler.arrived > 0:  # their KV caches have arrived: they wait only for slots
            arrived = scheduler.arrived_head
            scheduler.arrived_head = sim.request_N[arrived].after
            scheduler.arrived -= 1
            _put_ready(sim, s, arrived)
    if scheduler.retracted == 0 and scheduler.waiting > 0:
        _take(sim, s, now)
    most = sim.limits.max_num_seqs - scheduler.decoding - scheduler.ended
    while scheduler.ready > 0 and scheduler.joiners < most:
        i = scheduler.ready_head
        scheduler.ready_head = sim.request_N[i].after
        scheduler.ready -= 1
        scheduler.away -= 1
        scheduler.joiners += 1
        join_one(sim, i, now)
    decode_batch(sim, s)


@part
def _slots(sim: SimulationState, s: int) -> int:
    """Return how many more requests may be allocated blocks."""
    scheduler = sim.scheduler_S[s]
    most = sim.limits.max_num_seqs
    if most <= SMALL_BATCH:
        most += EXTRA_SLOTS * most
    return int(most - scheduler.running - scheduler.away)


@part
def _reserved(sim: SimulationState, s: int) -> int:
    """Return the tokens reserved for running and pending sequences."""
    scheduler = sim.scheduler_S[s]
    return int(
        sim.limits.reserved_decode_tokens * (scheduler.decoding + scheduler.ended + scheduler.away)
    )


@part
def _put_ready(sim: SimulationState, s: int, i: int) -> None:
    """Mark a request as ready for a slot."""
    scheduler = sim.scheduler_S[s]
    if scheduler.ready == 0:
        scheduler.ready_head = i
    else:
        sim.request_N[scheduler.ready_tail].after = i
    scheduler.ready_tail = i
    sim.request_N[i].after = NO_INDEX
    scheduler.ready += 1


@part
def _take(sim: SimulationState, s: int, now: int) -> None:
    """Allocate blocks to prefilled requests until one does not fit."""
    scheduler = sim.scheduler_S[s]
    size = sim.limits.block_size
    freed = 0
    longest = 0
    i = scheduler.running_tail
    while i != NO_INDEX:
        request = sim.request_N[i]
        freed += request.isl + output_of(sim, i)
        longest = max(longest, request.isl + min(request.osl, MAX_EXPECTED))
        i = request.before
    while scheduler.waiting > 0 and _slots(sim, s) > 0:
        i = scheduler.waiting_head
        request = sim.request_N[i]
        prompt = request.isl + first_output(sim) - 1
        need = blocks.count(sim, prompt) * size + sim.limits.reserved_decode_tokens
        need = max(need, request.isl + min(request.osl, MAX_EXPECTED) - freed)
        if need > scheduler.free * size - max(_reserved(sim, s), longest - freed):
            break
        # blocks for its output are allocated as it decodes
        start_transfer(sim, i, blocks.NOTHING, prompt, now)


@part
def _enqueue(sim: SimulationState, i: int) -> bool:
    """Append a request to the queue or socket; return whether it may be transferred next."""
    scheduler = sim.scheduler_S[sim.request_N[i].scheduler]
    if sim.limits.scheduler_recv_interval > 1:
        opens = scheduler.unread == 0
        queue_at_socket(sim, i)
    else:
        opens = scheduler.waiting == 0
        queue_last(sim, i)
    return bool(opens)


@part
def _steady_steps(sim: SimulationState, s: int) -> int:
    """Return 1 if requests wait, as retractable tokens change in every step."""
    scheduler = sim.scheduler_S[s]
    if scheduler.waiting + scheduler.arrived + scheduler.ready + scheduler.retracted > 0:
        return 1
    return steps_to_receiving(sim, s)


@part
def _can_hold(sim: SimulationState, i: int, tokens: int) -> bool:
    """Return whether a request fits, and could resume if retracted at its end."""
    need = blocks.count(sim, tokens) * sim.limits.block_size + sim.limits.reserved_decode_tokens
    return bool(
        fits_with_spare_block(sim, i, tokens)
        and need <= sim.limits.kv_blocks * sim.limits.block_size
    )


SGLANG_DECODE: Final = BatchingPolicy(
    name=SGLANG.name,
    title=SGLANG.title,
    description=SGLANG.description,
    roles=("decode",),
    reads=frozenset(("new_token_ratio", "reserved_decode_tokens", "scheduler_recv_interval")),
    requires_chunks=True,
    foresees_ends=False,
    idle_passes=3,  # the last sequence may have been retracted for transfers in progress
    schedule=schedule_sglang_decode,
    enqueue=_enqueue,
    steady_steps=_steady_steps,
    on_last_token=keep_in_batch,
    on_idle=reset_ratio,
    decode_slots=slots_of_steps,
    can_hold=_can_hold,
)
