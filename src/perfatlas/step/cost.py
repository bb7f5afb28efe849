"""One step of one rank: the prices of its operators, and its total cost.

Shape legend: C candidates, O operators, S steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

import numpy as np

from perfatlas.operators import take_candidates
from perfatlas.pricing import TIERS, take, total
from perfatlas.step.sums import MIN_FLOAT, operator_sums, unlimited_share

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from perfatlas.machines import DeviceColumns
    from perfatlas.operators import FloatArray, IntArray, Operator
    from perfatlas.pricing import PricedOperators
    from perfatlas.step.sums import OperatorSums, StepClock

    Column = TypeVar("Column", bound=NDArray[Any])


@dataclass(frozen=True, kw_only=True)
class Step:
    """One step of one rank, before it is priced."""

    operators: Sequence[Operator]  # Operators, including collectives, with fusions applied
    tokens_C: FloatArray  # Tokens of the step (C,)
    host_s_C: FloatArray  # Host time of the step (C,) [s]
    batches_C: FloatArray | None = None  # Batches whose layers alternate, 1 or 2 (C,); None for 1


@dataclass(frozen=True, kw_only=True)
class PricedStep:
    """One step whose operators are priced individually."""

    operators: tuple[Operator, ...]  # Operators, collectives last (O)
    count_CO: FloatArray  # Number of executions (C, O)
    prices: PricedOperators  # Prices of one execution each (C, O)
    step: Step  # The step before it was priced
    devices: DeviceColumns  # Device of each candidate
    contends: bool  # Whether streams slow each other down; in tier bound they do not


@dataclass(frozen=True, kw_only=True)
class StepCost:
    """The cost of one step, operator by operator."""

    operators: tuple[Operator, ...]  # Operators, collectives last (O)
    count_CO: FloatArray  # Number of executions (C, O)
    prices: PricedOperators  # Prices of one execution each (C, O); times exclude overlapped parts
    hidden_s_CO: FloatArray  # Overlapped part of one execution of each (C, O) [s]
    host_s_C: FloatArray  # Host time exposed by the step (C,) [s]
    host_work_s_C: FloatArray  # Host time of the step, of which `host_s_C` is exposed (C,) [s]
    clock: StepClock
    # 90% interval of host work that the GPU overlaps: over and times this factor
    host_factor: float = 1.0
    # Sums over all operators where they are known, None to add them up
    priced_sums: OperatorSums | None = None

    def total(self, name: str, some_O: NDArray[np.bool_] | None = None) -> FloatArray:
        """Return the total of a column over the step, without host time (C,).

        Args:
            name: A summable column of `prices`, such as "flop_CO".
            some_O: Mask of the operators to include (O,), None for all.
        """
        return total(self.prices, name, self.count_CO, some_O)

    @cached_property
    def sums(self) -> OperatorSums:
        """Sums over the executions of all operators, without host time."""
        if self.priced_sums is not None:
            return self.priced_sums
        return operator_sums(self.count_CO, self.prices, self.clock)

    def total_s(self) -> FloatArray:
        """Return the time of the step (C,) [s]."""
        return self.sums.time_s + self.host_s_C

    def exposed_host_s(self) -> FloatArray:
        """Return the host time that the GPU does not hide (C,) [s]."""
        return self.host_s_C

    def host_work_s(self) -> FloatArray:
        """Return the host time, exposed or not (C,) [s]."""
        return self.host_work_s_C

    def _gpu_ends_s(self) -> tuple[FloatArray, FloatArray]:
        """Return the ends of the 90% interval by errors of kernels, host time as it is (C,) [s]."""
        total_s = self.total_s()
        width = self.clock.time_width
        below_s = np.hypot(self.sums.below_s, -np.expm1(-width) * total_s)
        return total_s - below_s, total_s + np.hypot(self.sums.above_s, np.expm1(width) * total_s)

    def low_s(self) -> FloatArray:
        """Return the lower end of the 90% interval by errors of kernels and the host (C,) [s]."""
        gpu_s = self._gpu_ends_s()[0]
        if self.host_factor == 1.0:
            return gpu_s
        return np.maximum(gpu_s - self.host_s_C, self.host_work_s_C / self.host_factor)

    def least_s(self) -> FloatArray:
        """Return the roofline time of the step at the highest clock of its interval (C,) [s]."""
        rise_C = np.maximum(
            np.exp(-self.clock.time_width), self.clock.ratio
        )  # to the sustained one
        bound_s = self.sums.bound_s * rise_C
        if self.host_factor == 1.0:
            return bound_s + self.host_s_C
        return np.maximum(bound_s, self.host_work_s_C / self.host_factor)

    def high_s(self) -> FloatArray:
        """Return the upper end of the 90% interval by errors of kernels and the host (C,) [s]."""
        gpu_s = self._gpu_ends_s()[1]
        if self.host_factor == 1.0:
            return gpu_s
        return np.maximum(gpu_s, self.host_work_s_C * self.host_factor)

    def clock_width(self) -> FloatArray:
        """Return the half-width of ln(time) by the clock that a power limit leaves (C,)."""
        return self.clock.time_width

    def laboratory_s(self) -> FloatArray:
        """Return the standard deviation of the step by operators on other machines (C,) [s]."""
        return self.sums.laboratory_s

    def operator_energy_j(self) -> FloatArray:
        """Return the dynamic energy of all executions of each operator (C, O) [J]."""
        each_CO = self.prices.chip_energy_j_CO + self.prices.memory_energy_j_CO
        energy_CO: FloatArray = self.count_CO * each_CO
        return energy_CO

    def energy_j(self) -> FloatArray:
        """Return the dynamic energy of the step (C,) [J].

        Hidden operators count; the power drawn between kernels does not, but what a lower clock of
        the step saves of it does.
        """
        return self.sums.chip_j + self.sums.memory_j - self._saved_j()

    def energy_width_j(self) -> FloatArray:
        """Return the half-width of the energy by the interval of the voltage curve (C,) [J]."""
        return self.sums.chip_j * self.clock.energy_width

    def _saved_j(self) -> FloatArray:
        return self.clock.saved_w * self.total_s()

    def unlimited_operator_energy_j(self) -> FloatArray:
        """Return the dynamic energy of each operator where the TDP lowers no voltage (C, O) [J].

        A step that other work shares has more time under the limit than it would have alone.
        """
        more_C = unlimited_share(self.clock)
        each_CO = self.prices.chip_energy_j_CO * more_C[:, None] + self.prices.memory_energy_j_CO
        energy_CO: FloatArray = self.count_CO * each_CO
        return energy_CO

    def unlimited_energy_j(self) -> FloatArray:
        """Return the dynamic energy of the step where the TDP lowers no voltage (C,) [J]."""
        return self.sums.unlimited_j - self._saved_j()

    def bound_share(self) -> FloatArray:
        """Return the fraction of the step priced at the roofline for lack of calibrations (C,)."""
        share_C: FloatArray = self.sums.at_bound_s / np.maximum(self.total_s(), MIN_FLOAT)
        return share_C

    def runs(self) -> NDArray[np.bool_]:
        """Return which operators take time (C, O)."""
        runs_CO: NDArray[np.bool_] = (self.count_CO > 0) & (self.prices.time_s_CO > 0)
        return runs_CO

    def is_calibrated(self) -> NDArray[np.bool_]:
        """Return which steps run an operator that is calibrated or measured (C,)."""
        known_CO = (self.prices.match_CO >= 0) | self.prices.measured_CO
        calibrated_C: NDArray[np.bool_] = np.any(self.runs() & known_CO, axis=1)
        return calibrated_C

    def exceeds_bound(self) -> NDArray[np.bool_]:
        """Return which steps run an operator slower than its roofline (C,)."""
        above_C: NDArray[np.bool_] = np.any(self.runs() & self.prices.exceeds_bound(), axis=1)
        return above_C

    def take(self, index: IntArray) -> StepCost:
        """Return the steps at the given positions."""
        every = self.host_s_C.size
        return StepCost(
            operators=tuple(take_candidates(op, index, every) for op in self.operators),
            count_CO=self.count_CO[index],
            prices=take(self.prices, index),
            hidden_s_CO=self.hidden_s_CO[index],
            host_s_C=self.host_s_C[index],
            host_work_s_C=self.host_work_s_C[index],
            host_factor=self.host_factor,
            clock=type(self.clock)(*(column[index] for column in self.clock)),
            priced_sums=type(self.sums)(*(column[index] for column in self.sums)),
        )

    def tier_codes(self) -> IntArray:
        """Return how operators that take time are priced, the sum of the codes in `TIERS` (C,)."""
        runs_CO, prices, own_CO = self.runs(), self.prices, self.prices.measured_CO
        known_CO = (prices.match_CO >= 0) | prices.exceeds_bound()
        known_CO |= (self.exceeds_bound() & ~self.is_calibrated())[:, None]
        parts = {"physics": known_CO & ~own_CO, "measured": known_CO & own_CO, "bound": ~known_CO}
        codes_C = np.zeros(runs_CO.shape[0], np.int64)
        for name, code in TIERS.items():
            codes_C += code * (runs_CO & parts[name]).any(axis=1)
        return codes_C


class SharedSteps(NamedTuple):
    """Distinct steps (U) of candidates, and the step of each."""

    cost: StepCost
    index_C: IntArray  # Step of each candidate (C,)

    @classmethod
    def one(cls, cost: StepCost) -> SharedSteps:
        """Return the step of a single candidate."""
        return cls(cost, np.zeros(1, np.int64))

    def of(self, column: Callable[[StepCost], Column]) -> Column:
        """Return a column of the steps (U,) for each candidate (C,)."""
        return cast("Column", column(self.cost)[self.index_C])

    def at(self, index: IntArray) -> SharedSteps:
        """Return the steps of the candidates at the given positions."""
        return SharedSteps(self.cost, self.index_C[index])

    def each(self) -> StepCost:
        """Return the step of each candidate, with its operators."""
        alone = self.index_C.size == self.cost.host_s_C.size == 1
        return self.cost if alone else self.cost.take(self.index_C)


def assumes_losses(steps: Sequence[SharedSteps]) -> NDArray[np.bool_]:
    """Return which steps have losses but no calibration: estimates without an upper end (C,).

    Args:
        steps: Steps of the same candidates.
    """
    calibrated_C = np.logical_or.reduce([shared.of(StepCost.is_calibrated) for shared in steps])
    above_C = np.logical_or.reduce([shared.of(StepCost.exceeds_bound) for shared in steps])
    losses_C: NDArray[np.bool_] = above_C & ~calibrated_C
    return losses_C
