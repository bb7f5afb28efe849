"""What latencies and energies read of one step of each candidate.

Shape legend: C candidates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from perfatlas.operators import FloatArray


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
