"""What latencies and energies read of one step of each candidate.

Shape legend: C candidates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from perfatlas.operators import FloatArray, IntArray
    from perfatlas.step import StepCost


class StepTimes(Protocol):
    """Time of one step of each candidate, with its interval."""

    def total_s(self) -> FloatArray:
        """Return the time (C,) [s]."""

    def low_s(self) -> FloatArray:
        """Return the lower end of its interval (C,) [s]."""

    def high_s(self) -> FloatArray:
        """Return the upper end of its interval (C,) [s]."""

    def least_s(self) -> FloatArray:
        """Return the roofline time (C,) [s]."""

    def laboratory_s(self) -> FloatArray:
        """Return its standard deviation by operators on other machines (C,) [s]."""

    def clock_width(self) -> FloatArray:
        """Return the half-width of ln(time) by the clock that a power limit leaves (C,)."""


class StepTotals(StepTimes, Protocol):
    """Totals of one step of each candidate, such as those of `step.StepCost`."""

    def exposed_host_s(self) -> FloatArray:
        """Return the host time that the GPU does not hide (C,) [s]."""

    def host_work_s(self) -> FloatArray:
        """Return the host time, exposed or not (C,) [s]."""

    def bound_share(self) -> FloatArray:
        """Return the fraction of the time priced at the roofline for lack of calibrations (C,)."""

    def energy_j(self) -> FloatArray:
        """Return the dynamic energy at full clock (C,) [J]."""

    def unlimited_energy_j(self) -> FloatArray:
        """Return the dynamic energy where the TDP lowers no voltage (C,) [J]."""

    def energy_width_j(self) -> FloatArray:
        """Return the half-width of the energy by the interval of the voltage curve (C,) [J]."""


class TotalColumns(NamedTuple):
    """Totals of one step of each candidate, or of each distinct step, as `StepTotals`."""

    time_s: FloatArray
    exposed_s: FloatArray
    work_s: FloatArray
    fast_s: FloatArray
    slow_s: FloatArray
    bound_s: FloatArray
    deviation_s: FloatArray
    at_bound: FloatArray
    dynamic_j: FloatArray
    free_j: FloatArray
    of_clock: FloatArray
    of_voltage_j: FloatArray

    @classmethod
    def of(cls, cost: StepCost) -> TotalColumns:
        """Return the totals of steps, each added up once."""
        return cls(
            cost.total_s(),
            cost.exposed_host_s(),
            cost.host_work_s(),
            cost.low_s(),
            cost.high_s(),
            cost.least_s(),
            cost.laboratory_s(),
            cost.bound_share(),
            cost.energy_j(),
            cost.unlimited_energy_j(),
            cost.clock_width(),
            cost.energy_width_j(),
        )

    def at(self, index_C: IntArray) -> TotalColumns:
        """Return the totals at the given positions."""
        return TotalColumns(*(values[index_C] for values in self))

    def total_s(self) -> FloatArray:
        """Return the time (C,) [s]."""
        return self.time_s

    def exposed_host_s(self) -> FloatArray:
        """Return the host time that the GPU does not hide (C,) [s]."""
        return self.exposed_s

    def host_work_s(self) -> FloatArray:
        """Return the host time, exposed or not (C,) [s]."""
        return self.work_s

    def low_s(self) -> FloatArray:
        """Return the lower end of its interval (C,) [s]."""
        return self.fast_s

    def high_s(self) -> FloatArray:
        """Return the upper end of its interval (C,) [s]."""
        return self.slow_s

    def least_s(self) -> FloatArray:
        """Return the roofline time (C,) [s]."""
        return self.bound_s

    def laboratory_s(self) -> FloatArray:
        """Return its standard deviation by operators on other machines (C,) [s]."""
        return self.deviation_s

    def bound_share(self) -> FloatArray:
        """Return the fraction of the time priced at the roofline for lack of calibrations (C,)."""
        return self.at_bound

    def energy_j(self) -> FloatArray:
        """Return the dynamic energy at full clock (C,) [J]."""
        return self.dynamic_j

    def unlimited_energy_j(self) -> FloatArray:
        """Return the dynamic energy where the TDP lowers no voltage (C,) [J]."""
        return self.free_j

    def clock_width(self) -> FloatArray:
        """Return the half-width of ln(time) by the clock that a power limit leaves (C,)."""
        return self.of_clock

    def energy_width_j(self) -> FloatArray:
        """Return the half-width of the energy by the interval of the voltage curve (C,) [J]."""
        return self.of_voltage_j
