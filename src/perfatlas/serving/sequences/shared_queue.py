"""The queue and the free blocks that the batches in flight of a replica share: see `stages`.

Shape legend: N requests, S schedulers, R replicas of a type and their further batches.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.compiled import part
from perfatlas.serving.sequences.running import leave_running, run_last
from perfatlas.serving.state import NO_INDEX

if TYPE_CHECKING:
    from perfatlas.serving.state import SimulationState


@part
def take_shared(sim: SimulationState, r: int) -> None:
    """Give the free blocks and the queue of a replica to the batch that is scheduled.

    Args:
        sim: The simulation, with pipeline stages.
    """
    replicas = sim.stage_free_RP.shape[0]
    home = r % replicas
    before = home + sim.replica_R[home].slot * replicas
    for rank in range(sim.ranks):
        s = r * sim.ranks + rank
        scheduler = sim.scheduler_S[s]
        if before != r:
            _take_queue(sim, s, before * sim.ranks + rank)
        scheduler.elsewhere = 0
        for slot in range(sim.stages):
            peer = home + slot * replicas
            if peer != r:
                other = sim.scheduler_S[peer * sim.ranks + rank]
                scheduler.elsewhere += other.running
                scheduler.free += other.free
                scheduler.spare += other.spare
                other.free = 0
                other.spare = 0
    sim.replica_R[home].slot = r // replicas


@part
def _take_queue(sim: SimulationState, s: int, before: int) -> None:
    """Move the waiting requests, and a prompt whose next chunk may start, between batches."""
    scheduler = sim.scheduler_S[s]
    other = sim.scheduler_S[before]
    scheduler.waiting = other.waiting
    scheduler.waiting_head = other.waiting_head
    scheduler.waiting_tail = other.waiting_tail
    scheduler.unread = other.unread
    scheduler.unread_head = other.unread_head
    scheduler.unread_tail = other.unread_tail
    scheduler.batch_waits = other.batch_waits
    other.waiting = 0
    other.waiting_head = NO_INDEX
    other.waiting_tail = NO_INDEX
    other.unread = 0
    i = other.partial
    room = scheduler.partial == NO_INDEX and scheduler.running < sim.limits.max_num_seqs
    if sim.chunks_overlap and i != NO_INDEX and room:
        other.partial = NO_INDEX
        leave_running(sim, i)
        sim.request_N[i].scheduler = s
        run_last(sim, i)
        scheduler.partial = i
