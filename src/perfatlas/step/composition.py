"""Compose the priced operators of a step into its cost.

Shape legend: C candidates, O operators, S steps.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.energy import (
    CappedClock,
    StepEnergy,
    capped_clock_ratio,
    energy_share,
    energy_width,
    locked_ratio,
)
from perfatlas.operators import BOUND_COMPUTE, Collective, with_fields
from perfatlas.pricing import exposed, following_clock
from perfatlas.step.contention import exposed_computation, exposed_exchange
from perfatlas.step.cost import StepCost
from perfatlas.step.gathered import gather_steps
from perfatlas.step.sums import OperatorSums, StepClock
from perfatlas.step.two_batches import two_batch_share

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from perfatlas.engines import EngineProfile
    from perfatlas.machines import ClockPrices
    from perfatlas.operators import FloatArray, IntArray, Operator
    from perfatlas.step.context import StepContext
    from perfatlas.step.cost import PricedStep, Step
    from perfatlas.step.gathered import GatheredSteps

TINY: Final = 1e-30  # divides zeros


PREFIX: Final = "_"  # a name that ends with it stands for all names that begin with it


MAX_REPRICED_SHARE: Final = 0.8  # share of the candidates up to which only they are priced again


def exposed_share(step: PricedStep, busy_s_CO: FloatArray, profile: EngineProfile) -> FloatArray:
    """Return the fraction of each operator's time that is not overlapped (C, O).

    Operators on a second stream cost the time by which they exceed the operators beside them, and
    the time by which both slow each other down. In a step of two batches, only the exchanges of
    tokens are overlapped.

    Source: Assumption: kernels side by side share SMs and memory bandwidth (`contention`).
    """
    operators, tokens_C = step.operators, step.step.tokens_C
    share_CO = np.ones(busy_s_CO.shape)
    active = profile.batch_overlap.value
    taken = {o.beside for o in profile.overlaps if o.batch_overlap == active}
    for overlap in profile.overlaps:
        if overlap.batch_overlap not in ("", active) or overlap.prefix in taken:
            continue
        hidden = [i for i, op in enumerate(operators) if op.name.startswith(overlap.prefix)]
        window = _named(operators, overlap.beside)
        hidden_C = busy_s_CO[:, hidden].sum(axis=1)
        if any(operators[i].communicates for i in hidden):
            exposed_C = exposed_exchange(step, busy_s_CO, hidden, window)
        else:
            exposed_C = exposed_computation(step, busy_s_CO, hidden, window)
        part_C = exposed_C / np.maximum(hidden_C, TINY)
        runs_on = [
            not overlap.architectures or d.architecture in overlap.architectures
            for d in step.devices.devices
        ]
        runs_C = (tokens_C <= overlap.max_tokens) & np.array(runs_on)[step.devices.index_C]
        share_CO[:, hidden] = np.where(runs_C, part_C, 1.0)[:, None]
    for index, operator in enumerate(operators):
        if isinstance(operator, Collective) and operator.window:
            share_CO[:, index] = _rotated_share(step, busy_s_CO, index, operator.window)
    batches_C = step.step.batches_C
    if batches_C is not None:
        two_CO = (batches_C > 1.0)[:, None]
        share_CO = np.where(two_CO, two_batch_share(step, busy_s_CO), share_CO)
    return share_CO


def _rotated_share(step: PricedStep, busy_s_CO: FloatArray, moved: int, label: str) -> FloatArray:
    """Return the fraction of transfers that the operator beside them does not hide (C,).

    Source: Assumption: transfers take SMs as an exchange of tokens does (`contention`).
    """
    window = _named(step.operators, label)
    runs_CW = np.minimum(step.count_CO[:, [moved]], step.count_CO[:, window])
    window_s_CO = busy_s_CO.copy()
    window_s_CO[:, window] *= runs_CW / np.maximum(step.count_CO[:, window], TINY)
    exposed_s_C = exposed_exchange(step, window_s_CO, [moved], window)
    share_C: FloatArray = exposed_s_C / np.maximum(busy_s_CO[:, moved], TINY)
    return share_C


def _named(operators: Sequence[Operator], name: str) -> list[int]:
    """Return the positions of operators of a name, or whose name begins with a prefix."""
    if name.endswith(PREFIX):
        return [i for i, op in enumerate(operators) if op.name.startswith(name)]
    return [i for i, op in enumerate(operators) if op.name == name]


def step_costs(
    steps: Sequence[Step], context: StepContext, clocks: Sequence[StepClock] | None = None
) -> tuple[StepCost, ...]:
    """Return the cost of each step on one rank, with the streams of its engine.

    Args:
        steps: Steps of one scenario, such as prefill and decode; shared shapes are priced once.
        context: Engine, systems and tier.
        clocks: Clock of each step; by default what its lock and its power limits leave.
    """
    gathered = gather_steps(steps, context)
    if clocks is not None:
        ratio_SC = np.stack([clock.ratio for clock in clocks])
        return tuple(
            _with_clock(compose_streams(priced, context.profile), clock)
            for priced, clock in zip(_priced_at(gathered, ratio_SC)[0], clocks, strict=True)
        )
    full = tuple(compose_streams(priced, context.profile) for priced in gathered.full())
    return _limited(gathered, full, context)


@dataclass
class _Evaluated:
    """The clocks (S, C) at which steps were priced last, and their costs and operators."""

    ratio_SC: FloatArray
    costs: tuple[StepCost, ...]
    prices: ClockPrices | None = None


def _limited(
    gathered: GatheredSteps, full: tuple[StepCost, ...], context: StepContext
) -> tuple[StepCost, ...]:
    """Return steps at the clocks that locks and power limits leave."""
    placement, power = context.placement, context.placement.power()
    energy, calibrated = step_energy(full), None
    if placement.zeros_C is not None:
        random = gathered.full(random=True)
        calibrated = step_energy(
            [compose_streams(priced_step, context.profile) for priced_step in random]
        )
    last = _Evaluated(np.ones_like(energy.time_s), full)

    def at_ratio(ratio_SC: FloatArray) -> StepEnergy:
        changed_X = np.flatnonzero((ratio_SC != last.ratio_SC).any(axis=0))
        if gathered.one_family and changed_X.size < MAX_REPRICED_SHARE * ratio_SC.shape[1]:
            steps, _ = gathered.take(changed_X).at(ratio_SC[:, changed_X])
            some = [compose_streams(priced, context.profile) for priced in steps]
            costs = tuple(
                _replaced(cost, changed_X, step_cost)
                for cost, step_cost in zip(last.costs, some, strict=True)
            )
        else:
            steps, last.prices = _priced_at(gathered, ratio_SC, last.prices)
            costs = tuple(compose_streams(priced, context.profile) for priced in steps)
        last.ratio_SC, last.costs = ratio_SC, costs
        return step_energy(costs)

    ones_SC = np.ones_like(energy.time_s)
    capped = CappedClock(ones_SC, np.full_like(ones_SC, np.nan), np.zeros_like(ones_SC))
    if context.power_acts():
        capped = capped_clock_ratio(at_ratio, energy, power, calibrated)
    ratio_SC = capped.ratio
    if placement.clock_ratio_C is not None:
        ratio_SC = locked_ratio(ratio_SC, placement.clock_ratio_C)
    if not np.array_equal(ratio_SC, last.ratio_SC):
        at_ratio(ratio_SC)
    sustained = energy if calibrated is None else calibrated
    share_SC = energy_share(sustained, ratio_SC, power)
    limit_SC = energy_share(sustained, ones_SC, power)
    # a lock below the clock that power leaves, not the TDP, decides what work beside a step draws
    limit_SC = np.where(ratio_SC < capped.ratio, 1.0, limit_SC)
    saved_SC = power.saved_w(ratio_SC)
    widths = (
        energy_width(sustained, ratio_SC, power),
        np.where(ratio_SC == capped.ratio, capped.time_width, 0.0),
    )
    limited = zip(ratio_SC, share_SC, capped.lowest_w, limit_SC, saved_SC, *widths, strict=True)
    clocks = (StepClock(*columns) for columns in limited)
    return tuple(_with_clock(cost, clock) for cost, clock in zip(last.costs, clocks, strict=True))


def _priced_at(
    gathered: GatheredSteps, ratio_SC: FloatArray, last: ClockPrices | None = None
) -> tuple[tuple[PricedStep, ...], ClockPrices | None]:
    if np.all(ratio_SC == 1.0):
        return gathered.full(), None
    return gathered.at(ratio_SC, last)


def _replaced(cost: StepCost, some_X: IntArray, repriced: StepCost) -> StepCost:
    """Return the cost of a step with some candidates at another clock."""

    def placed(all_: NDArray[Any], some: NDArray[Any]) -> NDArray[Any]:
        copied = all_.copy()
        copied[some_X] = some
        return copied

    changed = {
        name: placed(getattr(cost.prices, name), getattr(repriced.prices, name))
        for name in following_clock(cost.prices)
    }
    return replace(
        cost,
        prices=with_fields(cost.prices, **changed),
        hidden_s_CO=placed(cost.hidden_s_CO, repriced.hidden_s_CO),
        host_s_C=placed(cost.host_s_C, repriced.host_s_C),
        priced_sums=OperatorSums(*map(placed, cost.sums, repriced.sums)),
    )


def step_energy(costs: Sequence[StepCost]) -> StepEnergy:
    """Return the totals that decide the clocks of steps, each (S, C).

    Args:
        costs: The steps at the sustained clock (S).
    """
    computing = [cost.count_CO * (cost.prices.code_CO == BOUND_COMPUTE) for cost in costs]
    compute_s, peak_s = (
        np.stack(
            [
                np.einsum("co,co->c", some_CO, getattr(cost.prices, name))
                for some_CO, cost in zip(computing, costs, strict=True)
            ]
        )
        for name in ("time_s_CO", "bound_s_CO")
    )
    return StepEnergy(
        np.stack([cost.total_s() for cost in costs]),
        compute_s,
        peak_s,
        np.stack([cost.sums.chip_j for cost in costs]),
        np.stack([cost.sums.memory_j for cost in costs]),
    )


def _with_clock(cost: StepCost, clock: StepClock) -> StepCost:
    """Return a step with the energy of its chip at the voltage of its clock."""
    chip_j_CO = cost.prices.chip_energy_j_CO * clock.energy_share[:, None]
    prices = with_fields(cost.prices, chip_energy_j_CO=chip_j_CO)
    return replace(cost, prices=prices, clock=clock, priced_sums=cost.sums.at_voltage(clock))


def compose_streams(step: PricedStep, profile: EngineProfile) -> StepCost:
    """Return the cost of a step whose operators run back to back, as in a CUDA graph.

    The energy of its chip is that at the voltage of the highest clock.

    Operators on a second stream cost the time that the operators beside them do not hide, and that
    by which they slow them down; overlapped host time costs only the time by which it exceeds that
    of the GPU.

    Args:
        profile: The engine, with its overlaps and host costs.
    """
    prices = step.prices
    busy_s_CO = step.count_CO * prices.time_s_CO
    share_CO = exposed_share(step, busy_s_CO, profile)
    host_s_C = step.step.host_s_C
    if profile.host.overlapped:
        host_s_C = np.maximum(host_s_C - (busy_s_CO * share_CO).sum(axis=1), 0.0)
    return StepCost(
        operators=step.operators,
        count_CO=step.count_CO,
        prices=exposed(prices, share_CO),
        hidden_s_CO=prices.time_s_CO * (1.0 - share_CO),
        host_s_C=host_s_C,
        host_work_s_C=step.step.host_s_C,
        host_factor=profile.host.host_factor if profile.host.overlapped else 1.0,
        clock=StepClock.sustained(host_s_C),
    )
