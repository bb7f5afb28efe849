"""Transfer of a request from its prefill engine to its decode engine.

The decode engine is selected when the prompt ends. A transfer occupies the links of both engines
for the time of the slower one; transfers over a link are served in order of request. The duration
depends only on the size of the KV cache. After a latency the KV cache arrives, and the prefill
engine frees its blocks.

Limits: SGLang selects both engines, and allocates the blocks at the decode engine, before the
prompt runs.

Shape legend: N requests, S schedulers, R replicas of a type, F of all types, M pieces of a link.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfatlas.compiled import part
from perfatlas.serving.config import RECOMPUTED
from perfatlas.serving.engine.async_scheduling import truncate_overlapped
from perfatlas.serving.engine.stages import make_idle_ready
from perfatlas.serving.engine.step_batching import truncate_batch
from perfatlas.serving.sequences import blocks, free_prefill_blocks, schedule_arrival
from perfatlas.serving.state import FETCHED, LOCAL, NO_INDEX, TRAVELLING

if TYPE_CHECKING:
    from perfatlas.serving.state import SimulationState


BEYOND: Final = 8_000_000_000_000_000_000  # ps: beyond the end of the clock, within 64 bits


@part
def look_again(sim: SimulationState, r: int, now: int) -> None:
    """Let a replica reschedule at its next step boundary, after arrivals or freed blocks.

    Args:
        sim: The simulation.
        r: The replica.
        now: Time [ps].
    """
    replica = sim.replica_R[r]
    make_idle_ready(sim, r)
    if sim.async_scheduling:
        truncate_overlapped(sim, r, now)
    elif replica.steps > 0:
        truncate_batch(sim, r, now)


@part
def send_kv(groups: tuple[SimulationState, ...], i: int, now: int) -> None:
    """Start a KV cache transfer as soon as both links are free.

    Args:
        groups: The simulation, by engine type.
        i: The request, with blocks allocated at both engines.
        now: Time [ps].
    """
    travel = groups[0].travel_N[i]
    here = groups[groups[0].group_F[travel.home]]
    there = groups[groups[0].group_F[travel.replica]]
    home, scheduler = travel.scheduler, groups[0].request_N[i].scheduler
    start = min(max(now, here.link_S[home], there.link_S[scheduler]), BEYOND)
    end = start + max(_link_time(here, travel.tokens), _link_time(there, travel.tokens))
    here.link_S[home] = end
    there.link_S[scheduler] = end
    travel.stage = TRAVELLING
    schedule_arrival(groups[0], i, end + groups[0].latency)


@part
def _link_time(sim: SimulationState, tokens: int) -> int:
    """Return the transfer time of a KV cache over one engine's link [ps]."""
    piece = 0
    while piece + 1 < sim.link_M3.shape[0] and sim.link_M3[piece + 1, 0] <= tokens:
        piece += 1
    beyond = tokens - sim.link_M3[piece, 0]
    return int(sim.link_M3[piece, 1] + beyond * sim.link_M3[piece, 2])


@part
def receive_kv(groups: tuple[SimulationState, ...], i: int, now: int) -> bool:
    """Complete a KV cache transfer; return whether its request is finished.

    Args:
        groups: The simulation, by engine type.
        i: The request.
        now: Time [ps].
    """
    travel = groups[0].travel_N[i]
    travel.arrived = now
    here = groups[groups[0].group_F[travel.home]]
    free_prefill_blocks(here, i)
    look_again(here, travel.home - here.first_replica, now)
    sim = groups[groups[0].group_F[travel.replica]]
    request = sim.request_N[i]
    scheduler = sim.scheduler_S[request.scheduler]
    r = travel.replica - sim.first_replica
    ends = request.osl == 1 and sim.first_from != RECOMPUTED
    if ends:
        if sim.reserves_blocks:
            scheduler.spare += blocks.reserved_at_end(sim, i) - blocks.count(sim, request.placed)
        blocks.cache_tokens(sim, i, request.isl)
        blocks.release(sim, i)
        scheduler.away -= 1
        sim.replica_R[r].load -= 1
        travel.stage = LOCAL
        travel.resumed = now
        sim.first_token_N[i] = now
        sim.finished_N[i] = now
    else:
        if scheduler.arrived == 0:
            scheduler.arrived_head = i
        else:
            sim.request_N[scheduler.arrived_tail].after = i
        scheduler.arrived_tail = i
        request.after = NO_INDEX
        scheduler.arrived += 1
    look_again(sim, r, now)
    return bool(ends)


@part
def is_in_transfer(sim: SimulationState, i: int) -> bool:
    """Return whether a request waits for its KV cache transfer.

    Args:
        sim: The simulation.
        i: The request.
    """
    return bool(sim.travel_N[i].stage == FETCHED)
