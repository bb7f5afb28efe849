"""An external scheduling policy: newest request first, one at a time, without chunks."""

from __future__ import annotations

from perfatlas.compiled import part
from perfatlas.serving.policies import BatchingPolicy, register
from perfatlas.serving.sequences import admit_head, blocks, leave_queue, queue_first, run_chunk
from perfatlas.serving.state import SimulationState


@part
def schedule_newest(sim: SimulationState, s: int, now: int) -> None:
    scheduler = sim.scheduler_S[s]
    blocks.allocate_steps(sim, s, 1)
    scheduler.decodes = scheduler.decoding
    if scheduler.running == 0 and scheduler.waiting > 0:
        i = scheduler.waiting_tail
        leave_queue(sim, i)
        queue_first(sim, i)
        admit_head(sim, i, blocks.find_cached(sim, i), now)
        run_chunk(sim, i, sim.request_N[i].isl)


NEWEST_FIRST = BatchingPolicy(
    name="newest_first",
    title="the toy",
    description="the newest request runs alone",
    schedule=schedule_newest,
)


def add_newest_first() -> None:
    register(NEWEST_FIRST)
