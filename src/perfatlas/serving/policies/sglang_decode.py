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
from perfatlas.serving.policies.sglang import MOST_EXPECTED, decode_batch, output_of
from perfatlas.serving.sequences import blocks, fetch, first_output, join_one
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
        fetch(world, i, (0, 0), now)
