"""Steps through several numbers of pipeline stages, from the prices of one of them.

A rank that is charged with all layers runs the same operators whatever the number of its stages; a
step through p stages has p - 1 transfers of the hidden state in addition, and so has each pass of
a drafter. So steps that differ in p alone are priced once, through two stages.

Shape legend: V distinct steps but for their stages, U steps, O operators.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfatlas.energy import StepEnergy, energy_share
from perfatlas.pricing import select
from perfatlas.step.composition import compose_streams, step_energy
from perfatlas.step.gathered import gather_steps
from perfatlas.step.sums import (
    MIN_FLOAT,
    GroupedSums,
    OperatorSums,
    StepClock,
    sums_by_group,
    unlimited_share,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfatlas.operators import FloatArray, IntArray
    from perfatlas.step.context import StepContext
    from perfatlas.step.cost import Step, StepCost

STAGES: Final = 2.0  # of the step that is priced
TRANSFER: Final = "pipeline_send_recv"


class StagedSteps(NamedTuple):
    """Steps through several numbers of stages."""

    priced: StepCost  # The steps that are priced, through two stages at the sustained clock (V)
    place_U: IntArray  # The priced step of each step (U,)
    transfers_U: FloatArray  # Transfers between stages over those of the priced step (U,)
    cost: StepCost  # Cost of all steps, without their operators (U)
    tier_codes: IntArray  # How operators are priced, as `StepCost.tier_codes` (U,)

    def shares(self, some_VO: NDArray[np.bool_]) -> tuple[FloatArray, FloatArray]:
        """Return the shares of some operators in the GPU time and in the dynamic energy, each (U,).

        The energy is that where the TDP lowers no voltage.

        Args:
            some_VO: Which operators, of each priced step or of all (V, O) or (O,).
        """
        prices, count_VO = self.priced.prices, np.where(some_VO, self.priced.count_CO, 0.0)
        moved_O = _transfers(self.priced)

        def summed(values_VO: FloatArray) -> FloatArray:
            each_VO = count_VO * values_VO
            own_V, moved_V = each_VO[:, ~moved_O].sum(axis=1), each_VO[:, moved_O].sum(axis=1)
            total_U: FloatArray = own_V[self.place_U] + self.transfers_U * moved_V[self.place_U]
            return total_U

        time_s_U, chip_j_U = summed(prices.time_s_CO), summed(prices.chip_energy_j_CO)
        memory_j_U = summed(prices.memory_energy_j_CO)
        clock, sums = self.cost.clock, self.cost.sums
        energy_j_U = chip_j_U * clock.energy_share * unlimited_share(clock) + memory_j_U
        return (
            time_s_U / np.maximum(sums.time_s, MIN_FLOAT),
            energy_j_U / np.maximum(sums.unlimited_j, MIN_FLOAT),
        )


def differs_by_transfers(context: StepContext) -> bool:
    """Return whether steps through several numbers of stages differ by their transfers alone.

    Not where two batches alternate, or where power or a lock sets the clock of each step.

    Args:
        context: Engine, systems and plan of the steps.
    """
    alternate = context.profile.batch_overlap.value == "two_batch"
    return not (alternate or context.limits_act())


def staged_steps(
    step: Step, context: StepContext, place_U: IntArray, of_all: StepContext, launch_s: float
) -> StagedSteps:
    """Return the cost of steps through several numbers of stages.

    Args:
        step: One step of each kind, through two stages (V).
        context: Its context (V).
        place_U: The kind of each step (U,).
        of_all: Context of all steps, with their stages (U).
        launch_s: Host time to launch a transfer, 0 with CUDA graphs [s].
    """
    (priced,) = gather_steps((step,), context).full()
    two = compose_streams(priced, context.profile)
    is_transfer_O = _transfers(two)
    transfers_U = of_all.plan.pp - 1.0
    sums = _sums(two, is_transfer_O, place_U, transfers_U)
    number_U = two.count_CO[:, is_transfer_O].sum(axis=1)[place_U]
    work_s_U = two.host_work_s_C[place_U] + (transfers_U - (STAGES - 1.0)) * number_U * launch_s
    host_s_U = work_s_U
    if context.profile.host.overlapped:
        host_s_U = np.maximum(work_s_U - sums.time_s, 0.0)
    whole = step_energy((two,))
    clock = _clock(
        StepEnergy(
            sums.time_s + host_s_U,
            whole.compute_s[0][place_U],
            whole.peak_s[0][place_U],
            sums.chip_j,
            sums.memory_j,
        ),
        of_all,
    )
    cost = replace(
        two,
        operators=(),
        count_CO=np.empty((place_U.size, 0)),
        host_s_C=host_s_U,
        host_work_s_C=work_s_U,
        clock=clock,
        priced_sums=sums.at_voltage(clock),
    )
    alone = _with_operators(two, ~is_transfer_O).tier_codes()
    codes_U = np.where(transfers_U > 0.0, two.tier_codes()[place_U], alone[place_U])
    return StagedSteps(two, place_U, transfers_U, cost, codes_U)


def _transfers(cost: StepCost) -> NDArray[np.bool_]:
    """Return which operators are transfers between stages (O,)."""
    return np.array([op.name.endswith(TRANSFER) for op in cost.operators])


def _with_operators(cost: StepCost, some_O: NDArray[np.bool_]) -> StepCost:
    """Return a step with some of its operators."""
    return replace(cost, count_CO=np.where(some_O, cost.count_CO, 0.0))


def _clock(energy: StepEnergy, context: StepContext) -> StepClock:
    """Return the sustained clock of steps whose power limit does not change it."""
    ones_U, power = np.ones_like(energy.time_s), context.placement.power()
    share_U = energy_share(energy, ones_U, power)
    sustained = StepClock.sustained(energy.time_s)
    return sustained._replace(
        energy_share=share_U, limit_share=share_U, saved_w=power.saved_w(ones_U)
    )


def _sums(
    two: StepCost, is_transfer_O: NDArray[np.bool_], place_U: IntArray, transfers_U: FloatArray
) -> OperatorSums:
    """Return the sums of steps over their operators (U,).

    What deviates together with a transfer adds up with it; all else adds in quadrature.
    """
    others, moved = _grouped(two, ~is_transfer_O), _grouped(two, is_transfer_O)
    both = [OperatorSums(*(column[place_U] for column in part.whole)) for part in (others, moved)]
    plain = OperatorSums(*(a + transfers_U * b for a, b in zip(*both, strict=True)))

    def with_transfers(whole_s: FloatArray, own_XV: FloatArray, added_XV: FloatArray) -> FloatArray:
        """Return a root of squares that grows with what the transfers add to each part (U,)."""
        grown = np.zeros_like(transfers_U)
        for own_V, added_V in zip(own_XV, added_XV, strict=True):
            if added_V.any():
                more = transfers_U * added_V[place_U]
                grown += more * (2.0 * own_V[place_U] + more)
        return np.sqrt(whole_s**2 + grown)

    ends = zip(others.away_s_2GC, moved.away_s_2GC, strict=True)
    below, above = (
        with_transfers(whole_s, *pair)
        for whole_s, pair in zip((both[0].below_s, both[0].above_s), ends, strict=True)
    )
    spread = others.laboratory_s_KC, moved.laboratory_s_KC
    laboratory = with_transfers(both[0].laboratory_s, *spread)
    return plain._replace(below_s=below, above_s=above, laboratory_s=laboratory)


def _grouped(two: StepCost, some_O: NDArray[np.bool_]) -> GroupedSums:
    """Return the sums of steps over some of their operators (V)."""
    columns = np.flatnonzero(some_O)
    count_VX = np.ascontiguousarray(two.count_CO[:, columns])
    return sums_by_group(count_VX, select(two.prices, columns), two.clock)
