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
from perfatlas.serving.policies.policy import Policy
from perfatlas.serving.policies.sglang import (
    MOST_EXPECTED,
    SGLANG,
    decode_batch,
    forget_ratio,
    keep_in_batch,
    output_of,
    starts_alone,
)
from perfatlas.serving.sequences import (
    MANY,
    blocks,
    fetch,
    first_output,
    join_one,
    queue_last,
)
from perfatlas.serving.state import NOBODY

if TYPE_CHECKING:
    from perfatlas.serving.state import World

SMALL_BATCH: Final = 32  # sequences, up to which there are extra slots for KV caches
EXTRA_SLOTS: Final = 2  # extra slots per sequence


@part
def schedule_sglang_decode(world: World, s: int, now: int) -> None:
    """Schedule the next step.

    Args:
        world: The simulation.
        s: The scheduler of a decode engine.
        now: Start of the step [ps].
    """
    lane = world.lane_S[s]
    _resume(world, s)
    idle = lane.decoding + lane.ended + lane.ready == 0
    if lane.retracted == 0 or idle:
        _make_ready(world, s)
    if lane.retracted == 0 and lane.waiting > 0:
        _take(world, s, now)
    most = world.max_num_seqs - lane.decoding - lane.ended
    while lane.ready > 0 and lane.joiners < most:
        i = lane.ready_head
        lane.ready_head = world.request_N[i].after
        lane.ready -= 1
        lane.away -= 1
        lane.joiners += 1
        join_one(world, s, i, now)
    decode_batch(world, s)


@part
def _slots(world: World, s: int) -> int:
    """Return how many more requests may be allocated blocks."""
    lane = world.lane_S[s]
    most = world.max_num_seqs
    if most <= SMALL_BATCH:
        most += EXTRA_SLOTS * most
    return int(most - lane.running - lane.away)


@part
def _reserved(world: World, s: int) -> int:
    """Return the tokens reserved for running and pending sequences."""
    lane = world.lane_S[s]
    return int(world.reserved_decode_tokens * (lane.decoding + lane.ended + lane.away))


@part
def _put_ready(world: World, s: int, i: int) -> None:
    """Mark a request as ready for a slot."""
    lane = world.lane_S[s]
    if lane.ready == 0:
        lane.ready_head = i
    else:
        world.request_N[lane.ready_tail].after = i
    lane.ready_tail = i
    world.request_N[i].after = NOBODY
    lane.ready += 1


@part
def _resume(world: World, s: int) -> None:
    """Resume retracted sequences in order."""
    lane = world.lane_S[s]
    size = world.block_size
    while lane.retracted > 0 and _slots(world, s) > 0:
        i = lane.retracted_head
        tokens = world.request_N[i].isl + world.request_N[i].generated - 1
        need = blocks.count(world, tokens) * size + world.reserved_decode_tokens
        if need > lane.free * size - _reserved(world, s):
            break
        lane.retracted_head = world.request_N[i].after
        lane.retracted -= 1
        blocks.share(world, i, 0)
        blocks.extend(world, i, tokens)
        lane.away += 1
        _put_ready(world, s, i)


@part
def _make_ready(world: World, s: int) -> None:
    """Mark requests with arrived KV caches as ready for slots."""
    lane = world.lane_S[s]
    while lane.arrived > 0:
        i = lane.arrived_head
        lane.arrived_head = world.request_N[i].after
        lane.arrived -= 1
        _put_ready(world, s, i)


@part
def _take(world: World, s: int, now: int) -> None:
    """Allocate blocks to prefilled requests until one does not fit."""
    lane = world.lane_S[s]
    size = world.block_size
    freed = 0
    longest = 0
    i = lane.running_tail
    while i != NOBODY:
        request = world.request_N[i]
        freed += request.isl + output_of(world, i)
        longest = max(longest, request.isl + min(request.osl, MOST_EXPECTED))
        i = request.before
    while lane.waiting > 0 and _slots(world, s) > 0:
        i = lane.waiting_head
        request = world.request_N[i]
        prompt = request.isl + first_output(world) - 1
        need = blocks.count(world, prompt) * size + world.reserved_decode_tokens
        need = max(need, request.isl + min(request.osl, MOST_EXPECTED) - freed)
        if need > lane.free * size - max(_reserved(world, s), longest - freed):
            break
        # blocks for its output are allocated as it decodes
        fetch(world, i, (0, 0), prompt, now)


@part
def _enqueue(world: World, i: int) -> bool:
    """Append a request to the queue; return whether its KV cache may be transferred next."""
    opens = world.lane_S[world.request_N[i].lane].waiting == 0
    queue_last(world, i)
    return bool(opens)


@part
def _steady_steps(world: World, s: int) -> int:
    """Return 1 if requests wait, as retractable tokens change in every step."""
    lane = world.lane_S[s]
    return 1 if lane.waiting + lane.arrived + lane.ready + lane.retracted > 0 else MANY


@part
def _can_hold(world: World, i: int, tokens: int) -> bool:
    """Return whether a request fits, and could resume if retracted at its end."""
    need = blocks.count(world, tokens) * world.block_size + world.reserved_decode_tokens
    return bool(starts_alone(world, i, tokens) and need <= world.kv_blocks * world.block_size)


SGLANG_DECODE: Final = Policy(
    name=SGLANG.name,
    title=SGLANG.title,
    description=SGLANG.description,
    roles=("decode",),
    reads=frozenset(("new_token_ratio", "reserved_decode_tokens")),
    fixed={"decode": {"scheduler_recv_interval": 1}},
    requires_chunks=True,
    foresees_ends=False,
    idle_passes=3,  # the last sequence may have been retracted for transfers in progress
    schedule=schedule_sglang_decode,
    enqueue=_enqueue,
    steady_steps=_steady_steps,
    on_last_token=keep_in_batch,
    on_idle=forget_ratio,
    can_hold=_can_hold,
)
