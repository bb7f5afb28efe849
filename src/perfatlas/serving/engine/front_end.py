"""The front end of a replica: text becomes tokens before its queue, tokens text after its steps.

One thread tokenizes prompts, one after the other; requests go to the front ends in turn. One
process turns the tokens of a step into text and sends them to their clients, one after the other,
those of a step behind what is left of the steps before. The engine does not wait for it: where
steps give tokens faster than it sends them, clients fall behind.

A client gets its token when half of those of its step are sent, the middle one: which of them is
whose is not told.

Source: one thread that tokenizes: vllm-project/vllm issue 25301, vllm/entrypoints/openai
serving_engine.py, ThreadPoolExecutor(max_workers=1); sgl-project/sglang issue 6553: one process
receives requests, tokenizes them and streams results.

Limits: what a client's end of the line takes is not told apart. A token that SGLang computes for a
sequence that has ended is sent like the others; of drafted tokens, as many as are accepted on
average. Of several tokens that are sent at a time every one bears its part, and none waits for the
others. A prompt may be tokenized at another replica than it runs at. Front ends do not fail with
their replicas, and are as many with an autoscaler as it has replicas at most.

Shape legend: N requests, F replicas of all kinds, R replicas of a kind, S schedulers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.compiled import part
from perfatlas.serving.sequences import expect, stretch_time
from perfatlas.serving.state import NOBODY

if TYPE_CHECKING:
    from perfatlas.serving.state import World


@part
def is_read(world: World, i: int, now: int) -> bool:
    """Return whether the prompt of a request that has come is tokenized; let it be, where not.

    Args:
        world: The simulation, of front ends that take time.
        i: The request.
        now: Time [ps].
    """
    if world.read_N[i] != NOBODY:
        return True  # it was sent again
    if world.came_N[i] != NOBODY:
        world.read_N[i] = now
        return True
    world.came_N[i] = now
    clock = world.clock_1[0]
    work = world.read_token * world.request_N[i].isl
    readers = world.free_F.shape[0]
    if readers == 0:
        expect(world, i, now + work)
        return False
    free = max(world.free_F[clock.reader], now) + work
    world.free_F[clock.reader] = free
    clock.reader = (clock.reader + 1) % readers
    expect(world, i, free)
    return False


@part
def stream(world: World, r: int, steps: int, end: int) -> None:
    """Hand the tokens of a stretch to the front end of a replica, before its requests finish.

    What is left to send shrinks while a step runs and grows by its tokens when it ends. Over equal
    batches whose steps change evenly, what is left before the last step's tokens is the first
    step's rest, plus all changes since, or as much as they grew since they were least.

    Args:
        world: The simulation.
        r: The replica.
        steps: Steps of the stretch.
        end: Its end [ps].
    """
    work = 0
    for s in range(r * world.ranks, (r + 1) * world.ranks):
        lane = world.lane_S[s]
        work += world.stream_token * lane.fresh + world.stream_step * lane.decodes
    replica = world.replica_R[r]
    base = replica.base
    rise = replica.rise
    first = end - stretch_time(base, rise, steps) + base
    left = max(replica.unsent - (first - replica.sent), 0)
    more = steps - 1
    if more > 0:
        change = more * work - (end - first)
        least = min(change, 0)
        if rise < 0:  # steps that grow shorter: it may shrink before it grows
            falls = min(max((base + rise - work) // -rise + 1, 0), more)
            least = min(least, falls * work - stretch_time(base + rise, rise, falls))
        left = max(left + change, change - least)
    replica.late = left + (work + world.stream_token) // 2
    replica.unsent = left + work
    replica.sent = end
