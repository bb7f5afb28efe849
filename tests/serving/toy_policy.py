"""A scheduler that perfatlas does not have: the newest request first, one at a time, never cut."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.compiled import part
from perfatlas.serving.policies import Policy, register
from perfatlas.serving.sequences import admit_head, blocks, leave_queue, queue_first, run_chunk

if TYPE_CHECKING:
    from perfatlas.serving.state import World


@part
def schedule_newest(world: World, s: int, now: int) -> None:
    lane = world.lane_S[s]
    blocks.grow(world, s, 1)
    lane.decodes = lane.decoding
    if lane.running == 0 and lane.waiting > 0:
        i = lane.waiting_tail
        leave_queue(world, i)
        queue_first(world, i)
        admit_head(world, i, (0, 0), now)
        run_chunk(world, i, world.request_N[i].isl)


NEWEST_FIRST = Policy(
    name="newest_first",
    title="the toy",
    description="the newest request runs alone",
    schedule=schedule_newest,
)


def add_newest_first() -> None:
    register(NEWEST_FIRST)
