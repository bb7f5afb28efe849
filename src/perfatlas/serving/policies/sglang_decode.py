"""One step of one SGLang scheduler that decodes what prefill engines hand over.

First come the sequences that were retracted, in that order: their caches wait in host memory, and
each comes back where it fits with what is reserved. While one of them waits no other cache is
taken. Then caches that have arrived become ready, and handed requests are given blocks, in order of
their coming, and their caches are fetched: where the prompt with `reserved_decode_tokens` more,
and the whole request less what retracting all others would free, fit into what is free less as
many reserved tokens for every sequence that runs or is to run, and less what the longest of those
that run may still need. What is ready joins the batch as soon as it has a slot, and all decode;
where a block is missing, sequences are retracted as elsewhere.

Source: sgl-project/sglang 0.5.23, python/sglang/srt/disaggregation/decode.py,
process_decode_queue(), resume_retracted_reqs(), pop_preallocated(), _allocatable_token_budgets(),
get_next_disagg_decode_batch_to_run(); arg_groups/pd_disaggregation_hook.py for the slots.

Limits: blocks are taken when the prompt has ended (disaggregation_decode_allocation_policy
prefill_complete); by default an engine takes them before it begins, so that a full cache holds up
prompts instead of prefilled requests. Copies to the host and back take no time. Sequences that have
ended and not left the batch count as active ones and not among what may be retracted. Where nothing
runs, arrived caches become ready though one that was retracted waits: the engine would stand still.
Nothing is found in the cache (no radix cache on decode engines, the default).

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

SMALL_BATCH: Final = 32  # sequences, up to which there are slots for caches besides
EXTRA_SLOTS: Final = 2  # of those, for every sequence


@part
def schedule_sglang_decode(world: World, s: int, now: int) -> None:
    """Decide what a scheduler runs in its next step.

    Args:
        world: The simulation.
        s: The scheduler, of a decode engine.
        now: When the step begins [ps].
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
    """Return how many more requests may hold blocks."""
    lane = world.lane_S[s]
    most = world.max_num_seqs
    if most <= SMALL_BATCH:
        most += EXTRA_SLOTS * most
    return int(most - lane.running - lane.away)


@part
def _reserved(world: World, s: int) -> int:
    """Return the tokens that stay free for sequences that run or are to run."""
    lane = world.lane_S[s]
    return int(world.reserved_decode_tokens * (lane.decoding + lane.ended + lane.away))


@part
def _put_ready(world: World, s: int, i: int) -> None:
    """Let a request wait for a slot alone."""
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
    """Give sequences that were retracted their blocks back, the first ones first."""
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
    """Let the requests whose caches have arrived wait for slots."""
    lane = world.lane_S[s]
    while lane.arrived > 0:
        i = lane.arrived_head
        lane.arrived_head = world.request_N[i].after
        lane.arrived -= 1
        _put_ready(world, s, i)


@part
def _take(world: World, s: int, now: int) -> None:
    """Give handed requests blocks for their caches until one does not fit."""
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
        # blocks for what it decodes are taken when it does
        fetch(world, i, (0, 0), prompt, now)


@part
def _enqueue(world: World, i: int) -> bool:
    """Put a request at the end of the queue; return whether its cache may be fetched next."""
    opens = world.lane_S[world.request_N[i].lane].waiting == 0
    queue_last(world, i)
    return bool(opens)


@part
def _steady_steps(world: World, s: int) -> int:
    """Return 1 where requests wait: what may be retracted for them grows with every step."""
    lane = world.lane_S[s]
    return 1 if lane.waiting + lane.arrived + lane.ready + lane.retracted > 0 else MANY


@part
def _can_hold(world: World, i: int, tokens: int) -> bool:
    """Return whether a request fits, and comes back when it is retracted at its end."""
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
    idle_passes=3,  # the last sequence may have been retracted for caches that are on their way
    schedule=schedule_sglang_decode,
    enqueue=_enqueue,
    steady_steps=_steady_steps,
    on_last_token=keep_in_batch,
    on_idle=forget_ratio,
    can_hold=_can_hold,
)
