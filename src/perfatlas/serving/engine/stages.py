"""Batches of a replica on their way through its pipeline stages.

A stage takes its share of the time of a step and runs one batch at a time, in the order in which
they were scheduled. A batch returns when it has passed the last stage, and the next one is
scheduled in its place. Requests that arrive while batches are in flight and nothing else can be
scheduled wait until the first of them returns, as the scheduler waits for it.

Source: of the batches in flight, `serving.sequences.stages`.

Limits: The time of a step without its transfers between stages is divided by layers. Transfers are
part of the stages' times: they do not overlap with the next batch. Host time that a step exposes is
divided as well.

Shape legend: R replicas of a type and their further batches, P stages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.compiled import part
from perfatlas.serving.sequences import first_batch, in_flight

if TYPE_CHECKING:
    from perfatlas.serving.state import SimulationState


@part
def end_of_pass(sim: SimulationState, r: int, now: int) -> int:
    """Return when a scheduled batch has passed all stages, which it occupies from now on [ps].

    Args:
        now: Time [ps].
    """
    home = first_batch(sim, r)
    layers = 0
    for p in range(sim.stages):
        layers += sim.stage_layers_P[p]
    passed = 0
    through = 0
    time = now
    for p in range(sim.stages):
        through += sim.stage_layers_P[p]
        work = sim.replica_R[r].base * through // layers
        time = max(time, sim.stage_free_RP[home, p]) + work - passed
        sim.stage_free_RP[home, p] = time
        passed = work
    return int(time)


@part
def make_ready(sim: SimulationState, r: int) -> None:
    """Mark a replica as ready to start a step at this time, or with stages, its free batches.

    Args:
        r: The replica, or the row of the batch that is scheduled first.
    """
    if sim.stages == 0:
        _list(sim, r)
        return
    home = first_batch(sim, r)
    for slot in range(sim.stages - 1, -1, -1):
        peer = home + slot * sim.stage_free_RP.shape[0]
        if peer != r and sim.replica_R[peer].steps == 0:
            _list(sim, peer)
    _list(sim, r)  # the last one is scheduled first


@part
def make_idle_ready(sim: SimulationState, r: int) -> None:
    """Mark a replica as ready that runs nothing."""
    if sim.stages == 0 and sim.replica_R[r].steps == 0:
        _list(sim, r)
    elif sim.stages > 0 and in_flight(sim, r) == 0:
        make_ready(sim, r)


@part
def _list(sim: SimulationState, r: int) -> None:
    """Add a row to those that start at this time, unless it is among them."""
    if sim.replica_R[r].ready == 0:
        clock = sim.clock_1[0]
        sim.replica_R[r].ready = 1
        sim.ready_F[clock.ready] = sim.first_replica + r
        clock.ready += 1
