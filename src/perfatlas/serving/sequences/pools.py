"""Requests that one engine prefills and another decodes, as the decoding side schedules them.

A request whose prompt has ended at a prefill engine is handed to a decode engine, where it waits in
the queue like any other. When its scheduler reaches it and has blocks for the prompt and the token
after it, they are taken and the cache is fetched; until it is there it holds blocks on both sides
and runs on neither. Then it joins those that decode as soon as there is a slot, before others are
admitted, in order of the arrivals of caches. A sequence that is thrown out later starts over on its
decode engine, prompt and all, or its cache waits in host memory: that is up to the scheduler.

Whose first token counts is a matter of the engine: the prefill engine's, given when its step ends;
the same, given when the sequence joins those that decode; or the one that the decode engine
computes again from the last token of the prompt.

Source: vllm-project/vllm, vllm/v1/core/sched/scheduler.py, WAITING_FOR_REMOTE_KVS and
_update_waiting_for_remote_kv(), which leaves the last token to be computed; sgl-project/sglang,
python/sglang/srt/disaggregation/decode.py, get_new_prebuilt_batch(); NVIDIA/TensorRT-LLM,
tensorrt_llm/_torch/pyexecutor/py_executor.py, _handle_first_token_response(): the first token goes
out as the sequence joins the batch.

Limits: nobody joins while a prompt that starts over is partly computed. Blocks found in the cache
of the decode engine are not fetched. Layers are not sent while others are computed.

Shape legend: N requests, S schedulers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.compiled import part
from perfatlas.serving.config import ARRIVAL, DECODE, PREFILL, RECOMPUTED
from perfatlas.serving.sequences import blocks
from perfatlas.serving.sequences.running import leave_running, start_decoding
from perfatlas.serving.state import FETCHED, HANDED, LOCAL, NOBODY, put

if TYPE_CHECKING:
    from perfatlas.serving.state import World


@part
def expect(world: World, i: int, time: int) -> None:
    """Let something happen to a request at a time: it arrives, or goes on to its decode engine.

    Args:
        world: The simulation.
        i: The request.
        time: When [ps].
    """
    clock = world.clock_1[0]
    put(world.coming_C, world.request_N, clock.coming, (time, i, i))
    clock.coming += 1


@part
def goes_on(world: World, i: int) -> bool:
    """Return whether a request that ends at an engine is handed to another.

    Args:
        world: The simulation.
        i: The request.
    """
    return bool(world.role == PREFILL and (world.osl_N[i] > 1 or world.first_from >= ARRIVAL))


@part
def hand_over(world: World, i: int, now: int) -> None:
    """Let a request leave its prefill engine, all but the blocks of its prompt.

    Args:
        world: The simulation.
        i: The request, its prompt computed.
        now: Time [ps].
    """
    request = world.request_N[i]
    travel = world.travel_N[i]
    leave_running(world, i)
    replica = request.lane // world.ranks
    world.replica_R[replica].load -= 1
    travel.stage = HANDED
    travel.handed = now
    travel.home = world.first_replica + replica
    travel.lane = request.lane
    travel.row = request.row
    travel.placed = request.placed
    travel.registered = request.registered
    request.osl = world.osl_N[i]
    request.computed = 0
    request.placed = 0
    request.registered = 0
    if world.first_from >= ARRIVAL:
        world.first_token_N[i] = NOBODY
    expect(world, i, now)


@part
def free_at_home(world: World, i: int) -> None:
    """Give back the blocks a request holds at its prefill engine.

    Args:
        world: That of the prefill engine.
        i: The request, its cache at its decode engine.
    """
    request = world.request_N[i]
    travel = world.travel_N[i]
    lane, row, placed = request.lane, request.row, request.placed
    registered = request.registered
    request.lane = travel.lane
    request.row = travel.row
    request.placed = travel.placed
    request.registered = travel.registered
    blocks.release(world, i)
    request.lane = lane
    request.row = row
    request.placed = placed
    request.registered = registered


@part
def is_handed(world: World, i: int) -> bool:
    """Return whether a request in a queue has its cache at another engine.

    Args:
        world: The simulation.
        i: The request.
    """
    return bool(world.role == DECODE and world.travel_N[i].stage == HANDED)


@part
def places(world: World, i: int) -> int:
    """Return the tokens a handed request has blocks for before it decodes.

    Args:
        world: The simulation.
        i: The request.
    """
    request = world.request_N[i]
    more = 0 if world.first_from == RECOMPUTED else min(request.osl - 1, 1)
    return int(request.isl + more)


@part
def first_output(world: World) -> int:
    """Return the output tokens of a request that has come and not yet decoded.

    Args:
        world: The simulation.
    """
    return 0 if world.first_from == RECOMPUTED else 1


@part
def fetch(world: World, i: int, found: tuple[int, int], tokens: int, now: int) -> None:
    """Take the head of a queue and blocks for its cache, which is fetched from now on.

    Args:
        world: The simulation.
        i: The request at the head; there are blocks enough.
        found: Leading blocks found in the cache, and those of them nobody holds.
        tokens: That it gets blocks for.
        now: When the step begins [ps].
    """
    request = world.request_N[i]
    travel = world.travel_N[i]
    lane = world.lane_S[request.lane]
    lane.waiting_head = request.after
    lane.waiting -= 1
    if lane.waiting == 0:
        lane.waiting_tail = NOBODY
    hits, idle = found
    if world.reserves_blocks:
        lane.spare -= blocks.promised(world, i) - hits + idle
    blocks.share(world, i, hits)
    blocks.extend(world, i, tokens)
    travel.tokens = request.isl - hits * world.block_size
    travel.stage = FETCHED
    lane.away += 1
    expect(world, i, now)


@part
def join(world: World, s: int, most: int, now: int) -> None:
    """Let sequences whose caches are there decode from the step on, the first ones there first.

    Args:
        world: The simulation.
        s: The scheduler, which has given those that decode their blocks.
        most: How many at most.
        now: When the step begins [ps].
    """
    lane = world.lane_S[s]
    while lane.arrived > 0 and lane.joiners < most:
        i = lane.arrived_head
        lane.arrived_head = world.request_N[i].after
        lane.arrived -= 1
        lane.away -= 1
        lane.joiners += 1
        first = world.travel_N[i].stage != LOCAL
        join_one(world, s, i, now)
        if first:
            blocks.keep_known(world, i, world.request_N[i].isl)


@part
def join_one(world: World, s: int, i: int, now: int) -> None:
    """Let a sequence whose cache is there decode from the step on.

    Args:
        world: The simulation.
        s: The scheduler.
        i: The request, one that comes back from host memory with what it has generated.
        now: When the step begins [ps].
    """
    request = world.request_N[i]
    travel = world.travel_N[i]
    first = travel.stage != LOCAL
    _run_last(world, s, i)
    if first:
        request.generated = first_output(world)
    request.computed = request.isl + request.generated - 1
    start_decoding(world, i, request.osl - request.generated)
    request.joined += 1  # not in the step that runs
    if first:
        travel.stage = LOCAL
        travel.resumed = now
        if world.first_from == ARRIVAL:
            world.first_token_N[i] = now


@part
def _run_last(world: World, s: int, i: int) -> None:
    """Put a request at the end of the running ones of a scheduler."""
    lane = world.lane_S[s]
    request = world.request_N[i]
    request.before = lane.running_tail
    request.after = NOBODY
    if lane.running_tail != NOBODY:
        world.request_N[lane.running_tail].after = i
    lane.running_tail = i
    lane.running += 1
    request.order = lane.admitted
    lane.admitted += 1
