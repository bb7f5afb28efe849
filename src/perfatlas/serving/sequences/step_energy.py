"""The dynamic energy of a step from price tables, as a linear function over a batch of steps.

Like its time, the energy of the j-th of equal steps is base + rise j. The power limit of the GPUs
acts on each step: it spends at most the dynamic power that the limit leaves, times its time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from perfatlas.compiled import part

if TYPE_CHECKING:
    from perfatlas.serving.state import SchedulerState, SimulationState


class EnergyLine(NamedTuple):
    """Step j spends base + rise j [nJ] on one GPU of each rank."""

    base: int
    rise: int


@part
def rank_energy(sim: SimulationState, scheduler: SchedulerState, linear: int) -> EnergyLine:
    """Return the dynamic energy of one rank's step, of known time.

    Args:
        linear: Energy of the linear layers of the step [nJ].
    """
    base = (
        linear
        + sim.energy.tables.head_B[
            scheduler.decodes * sim.prices.tokens_per_decode + scheduler.fresh
        ]
    )
    if scheduler.chunks > 0:
        base += scheduler.attention_energy + scheduler.last_energy
    rise = 0
    if scheduler.decodes > 0:
        base += _keyed_energy(sim, scheduler)
        slope = sim.energy.tables.decode_slope_BK[scheduler.decodes, scheduler.cell]
        rise = slope * scheduler.decodes
    return EnergyLine(base, rise)


@part
def decode_energy(sim: SimulationState, scheduler: SchedulerState, linear: int) -> int:
    """Return the dynamic energy of one rank's step without its prompts [nJ].

    Args:
        linear: Energy of the linear layers of the step without prompts [nJ].
    """
    energy = linear + sim.energy.tables.head_B[scheduler.decodes * sim.prices.tokens_per_decode]
    if scheduler.decodes > 0:
        energy += _keyed_energy(sim, scheduler)
    return int(energy)


@part
def _keyed_energy(sim: SimulationState, scheduler: SchedulerState) -> int:
    """Return the energy of decode attention [nJ]."""
    sequences, k = scheduler.decodes, scheduler.cell
    keys = scheduler.context + sequences * sim.prices.tokens_per_decode
    past = keys - sequences * sim.prices.context_K[k]
    base = sim.energy.tables.decode_base_BK[sequences, k]
    return int(base + sim.energy.tables.decode_slope_BK[sequences, k] * past)


@part
def batch_energy(sim: SimulationState, r: int, steps: int) -> float:
    """Return the dynamic energy of the first of a replica's running steps [nJ].

    Args:
        steps: Number of steps, at least 1.
    """
    replica = sim.replica_R[r]
    energy = (replica.energy_base, replica.energy_rise)
    power = sim.energy.dynamic_power * sim.ranks
    return spent_energy(energy, (replica.base, replica.rise), power, steps)


@part
def spent_energy(energy: tuple[int, int], time: tuple[int, int], power: float, steps: int) -> float:
    """Return the energy of the first steps of a batch, each at most its time at a power [nJ].

    Args:
        energy: Energy of the first step, and its increase per step [nJ].
        time: Time of the first step, and its increase per step [ps].
        power: Highest dynamic power [nJ/ps].
        steps: Number of steps, at least 1.
    """
    most, more = power * time[0], power * time[1]
    first = energy[0] - most
    last = first + (energy[1] - more) * (steps - 1)
    if first <= 0.0 and last <= 0.0:
        return line_sum(float(energy[0]), float(energy[1]), steps)
    if first >= 0.0 and last >= 0.0:
        return line_sum(most, more, steps)
    before = min(int(first / (first - last) * (steps - 1)) + 1, steps)  # steps before they cross
    if first < 0.0:
        below = line_sum(float(energy[0]), float(energy[1]), before)
        return below + line_sum(most + more * before, more, steps - before)
    above = line_sum(most, more, before)
    return above + line_sum(energy[0] + energy[1] * before, float(energy[1]), steps - before)


@part
def line_sum(base: float, rise: float, steps: int) -> float:
    """Return the sum of base + rise j over the first steps."""
    return steps * base + rise * (0.5 * steps * (steps - 1))
