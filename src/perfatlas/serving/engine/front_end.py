"""The front end of a replica: tokenization before its queue, detokenization after its steps.

One thread tokenizes prompts sequentially; requests are assigned to front ends in turn. One process
detokenizes the tokens of a step and sends them to their clients sequentially, after the remaining
ones of previous steps. The engine does not wait for it: if steps produce tokens faster than it
sends them, clients lag behind.

Every client gets its token when half of the tokens of its step are sent, as the order within a step
is not simulated.

Source: one thread that tokenizes: vllm-project/vllm issue 25301, vllm/entrypoints/openai
serving_engine.py, ThreadPoolExecutor(max_workers=1); sgl-project/sglang issue 6553: one process
receives requests, tokenizes them and streams results.

Limits: The client side of the connection is not modelled separately. Tokens that SGLang computes
for finished sequences are sent like others; with speculative decoding, the mean number of accepted
tokens is sent. With stream_interval, each token takes its share of the time and does not wait for
the others. A prompt may be tokenized at another replica than it runs on. Front ends do not fail
with their replicas; with an autoscaler, there is one for each replica of the maximum.

Shape legend: N requests, F replicas of all types, R replicas of a type, S schedulers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.compiled import part
from perfatlas.serving.sequences import batch_time, first_batch, schedule_arrival
from perfatlas.serving.state import NO_INDEX

if TYPE_CHECKING:
    from perfatlas.serving.state import SimulationState


@part
def is_read(sim: SimulationState, i: int, now: int) -> bool:
    """Return whether the prompt of an arrived request is tokenized; start tokenization if not.

    Args:
        sim: The simulation, with front-end times above 0.
        now: Time [ps].
    """
    if sim.read_N[i] != NO_INDEX:
        return True  # it was retried
    if sim.came_N[i] != NO_INDEX:
        sim.read_N[i] = now
        return True
    sim.came_N[i] = now
    clock = sim.clock_1[0]
    work = sim.read_token * sim.request_N[i].isl
    readers = sim.free_F.shape[0]
    if readers == 0:
        schedule_arrival(sim, i, now + work)
        return False
    free = max(sim.free_F[clock.reader], now) + work
    sim.free_F[clock.reader] = free
    clock.reader = (clock.reader + 1) % readers
    schedule_arrival(sim, i, free)
    return False


@part
def stream(sim: SimulationState, r: int, steps: int, end: int) -> None:
    """Pass the tokens of a batch of steps to the front end, before its requests finish.

    The backlog shrinks while a step runs and grows by its tokens when it ends. Over equal batches
    whose steps change linearly, the backlog before the last step's tokens is that of the first step
    plus all changes since, or the growth since its minimum. Front ends whose times are those of
    another engine have no backlog, as it would limit the rate.

    Args:
        end: End of the last step [ps].
    """
    work = 0
    for s in range(r * sim.ranks, (r + 1) * sim.ranks):
        scheduler = sim.scheduler_S[s]
        work += sim.stream_token * scheduler.fresh + sim.stream_step * scheduler.decodes
    replica = sim.replica_R[r]
    front = sim.replica_R[first_batch(sim, r)]
    base = replica.base
    rise = replica.rise
    first = end - batch_time(base, rise, steps) + base
    left = max(front.unsent - (first - front.sent), 0)
    more = steps - 1
    if more > 0:
        change = more * work - (end - first)
        least = min(change, 0)
        if rise < 0:  # steps get shorter: the backlog may shrink before it grows
            falls = min(max((base + rise - work) // -rise + 1, 0), more)
            least = min(least, falls * work - batch_time(base + rise, rise, falls))
        left = max(left + change, change - least)
    if not sim.stream_backlog:
        left = 0
    replica.late = left + (work + sim.stream_token) // 2
    front.unsent = left + work
    front.sent = end
