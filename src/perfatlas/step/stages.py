"""Steps through several numbers of pipeline stages, from the prices of one of them.

A rank that is charged with all layers runs the same operators whatever the number of its stages; a
step through p stages has p - 1 transfers of the hidden state in addition. So steps that differ in p
alone are priced once, with one transfer.

Shape legend: V distinct steps but for their stages, U steps, O operators.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfatlas.energy import StepEnergy, energy_share
from perfatlas.step.composition import compose_streams, step_energy
from perfatlas.step.cost import StepCost, gather_steps
from perfatlas.step.sums import (
    TINY,
    OperatorSums,
    StepClock,
    deviating_groups,
    operator_sums,
    unlimited_share,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from perfatlas.operators import FloatArray, IntArray
    from perfatlas.step.context import StepContext
    from perfatlas.step.cost import Step

STAGES: Final = 2.0  # of the step that is priced
TRANSFER: Final = "pipeline_send_recv"


class StagedSteps(NamedTuple):
    """Steps through several numbers of stages.

    Args:
        priced: The steps that are priced, through two stages at the sustained clock (V).
        place_U: The priced step of each step (U,).
        cost: Cost of all steps, without their operators (U).
        tier_codes: How operators are priced, as `StepCost.tier_codes` (U,).
    """

    priced: StepCost
    place_U: IntArray
    cost: StepCost
    tier_codes: IntArray

    def shares(self, some: Sequence[int]) -> tuple[FloatArray, FloatArray]:
        """Return the shares of some operators in the GPU time and in the dynamic energy, each (U,).

        The energy is that where the TDP lowers no voltage.

        Args:
            some: Positions of operators that are no transfers.
        """
        prices, count_VO = self.priced.prices, self.priced.count_CO[:, some]
        time_s_U, chip_j_U, memory_j_U = (
            (count_VO * values_VO[:, some]).sum(axis=1)[self.place_U]
            for values_VO in (prices.time_s_CO, prices.chip_energy_j_CO, prices.memory_energy_j_CO)
        )
        clock, sums = self.cost.clock, self.cost.sums
        energy_j_U = chip_j_U * clock.energy_share * unlimited_share(clock) + memory_j_U
        return (
            time_s_U / np.maximum(sums.time_s, TINY),
            energy_j_U / np.maximum(sums.unlimited_j, TINY),
        )


def differs_by_transfers(context: StepContext) -> bool:
    """Return whether steps through several numbers of stages differ by their transfers alone.

    Not with drafts, which have stages of their own, nor where two batches alternate, or power or a
    lock sets the clock of each step.

    Args:
        context: Engine, systems and plan of the steps.
    """
    alternate = context.profile.batch_overlap.value == "two_batch"
    return not (context.drafts or alternate or context.limits_act())


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
    is_transfer_O = np.array([op.name == TRANSFER for op in two.operators])
    transfers_U = of_all.plan.pp - 1.0
    sums = _sums(two, is_transfer_O, place_U, transfers_U)
    work_s_U = two.host_work_s_C[place_U] + (transfers_U - (STAGES - 1.0)) * launch_s
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
    alone, moved = (
        _with_operators(two, some_O).tier_codes() for some_O in (~is_transfer_O, is_transfer_O)
    )
    codes_U = alone[place_U] | np.where(transfers_U > 0.0, moved[place_U], 0)
    return StagedSteps(two, place_U, cost, codes_U)


def _with_operators(cost: StepCost, some_O: NDArray[np.bool_]) -> StepCost:
    """Return a step with some of its operators."""
    return replace(cost, count_CO=np.where(some_O, cost.count_CO, 0.0))


def _clock(energy: StepEnergy, context: StepContext) -> StepClock:
    """Return the sustained clock of steps whose power limit does not change it."""
    ones_U, power = np.ones_like(energy.time_s), context.placement.power()
    share_U = energy_share(energy, ones_U, power)
    return StepClock(ones_U, share_U, np.full_like(ones_U, np.nan), share_U, power.saved_w(ones_U))


def _sums(
    two: StepCost, is_transfer_O: NDArray[np.bool_], place_U: IntArray, transfers_U: FloatArray
) -> OperatorSums:
    """Return the sums of steps over their operators (U,).

    What deviates together with a transfer adds up with it; all else adds in quadrature.
    """
    prices, groups = two.prices, deviating_groups(two.prices)
    match_VO = np.where(prices.match_CO < 0, groups.group_M.size - 1, prices.match_CO)
    others_VO = np.where(is_transfer_O, 0.0, two.count_CO)

    def summed(count_VO: FloatArray) -> OperatorSums:
        found = operator_sums(count_VO, prices, two.clock)
        return OperatorSums(*(values_V[place_U] for values_V in found))

    def beside(kind_M: IntArray) -> OperatorSums:
        kind_VO = kind_M[match_VO]
        own_V = kind_VO[:, is_transfer_O].max(axis=1)
        return summed(np.where(kind_VO == own_V[:, None], others_VO, 0.0))

    without, one = summed(others_VO), summed(two.count_CO - others_VO)
    same = beside(groups.group_M), beside(groups.class_M)
    ends = {}
    for name, own in (("below_s", same[0]), ("above_s", same[0]), ("laboratory_s", same[1])):
        rest, part, each = (getattr(found, name) for found in (without, own, one))
        apart = np.maximum(rest * rest - part * part, 0.0)
        ends[name] = np.sqrt(apart + (part + transfers_U * each) ** 2)
    plain = (a + transfers_U * b for a, b in zip(without, one, strict=True))
    return OperatorSums(*plain)._replace(**ends)
