"""Energy of all GPUs up to a time, for the time series.

Shape legend: F replicas of all types.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.compiled import part
from perfatlas.serving.sequences import batch_energy, batch_time, steps_until
from perfatlas.serving.state import DRAINING, STARTING, UP

if TYPE_CHECKING:
    from perfatlas.serving.state import SimulationState


@part
def energy_until(groups: tuple[SimulationState, ...], now: int) -> float:
    """Return the energy of all GPUs up to now [nJ].

    GPUs draw the power of a board without kernels while their replica is allocated: at all times,
    or with an autoscaler while it starts, serves or drains.

    Args:
        groups: The simulation, by engine type.
        now: Time [ps].
    """
    total = 0.0
    for place in range(groups[0].replica_F.shape[0]):
        owner = groups[groups[0].group_F[place]]
        r = place - owner.first_replica
        on = owner.on_power * owner.ranks * _allocated(owner, r, now)
        total += owner.rank_gpus * (on + owner.replica_R[r].spent + _running(owner, r, now))
    return total


@part
def _allocated(sim: SimulationState, r: int, now: int) -> int:
    """Return the time in which the GPUs of a replica were allocated [ps]."""
    if sim.scaler_1.shape[0] == 0:
        return now
    replica = sim.replica_R[r]
    held = replica.held
    if replica.status in (UP, STARTING, DRAINING):
        held += now - sim.clock_1[0].counted
    return int(held)


@part
def _running(sim: SimulationState, r: int, now: int) -> float:
    """Return the dynamic energy of the running steps of a replica so far [nJ]."""
    replica = sim.replica_R[r]
    passed = now - replica.start
    if replica.steps == 0 or passed <= 0:
        return 0.0
    number = steps_until(replica.base, replica.rise, replica.steps, passed)
    before = 0.0
    if number > 1:
        before = batch_energy(sim, r, number - 1)
    began = batch_time(replica.base, replica.rise, number - 1)
    lasts = batch_time(replica.base, replica.rise, number) - began
    share = min((passed - began) / max(lasts, 1), 1.0)
    return float(before + share * (batch_energy(sim, r, number) - before))
