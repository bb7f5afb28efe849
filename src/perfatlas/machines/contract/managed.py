"""Machines that price all operators at once: memory that software manages, one calibration.

Shape legend: C candidates, O operators, X some candidates, K distinct clocks.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from perfatlas.operators import BOUND_COMPUTE, BOUND_MEMORY, take_candidates, with_fields
from perfatlas.pricing import PricedOperators, following_clock, take, unpriced

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from perfatlas.machines.contract.machine import DeviceColumns, KernelChoice, KernelFamily
    from perfatlas.measurements.calibrations import Schedules
    from perfatlas.operators import FloatArray, IntArray, Operator

    Price = Callable[[Sequence[Operator], DeviceColumns], PricedOperators]
    Gather = Callable[[Sequence[Operator], DeviceColumns, KernelChoice], tuple[KernelFamily, ...]]
    Traffic = Callable[[FloatArray, FloatArray, DeviceColumns], FloatArray]


def repriced(price: Price, bound: Price) -> Gather:
    """Return the `gather` of a machine that has one way to run each operator.

    Args:
        price: (operators, devices): prices of operators at the clock of each candidate.
        bound: The same in tier bound.
    """

    def gather(
        operators: Sequence[Operator], devices: DeviceColumns, kernels: KernelChoice
    ) -> tuple[KernelFamily, ...]:
        price_at_tier = bound if kernels.tier == "bound" else price
        full = price_at_tier(operators, devices)
        return (_Repriced(price=price_at_tier, operators=operators, devices=devices, full=full),)

    return gather


@dataclass(frozen=True, kw_only=True)
class _Repriced:
    """Operators, the function that prices them, and their prices."""

    price: Price  # (operators, devices): prices at the clock of each candidate
    operators: Sequence[Operator]  # The operators (O)
    devices: DeviceColumns  # Device and clock of each candidate
    full: PricedOperators  # Prices at the clock of each candidate

    def take(self, some_X: IntArray) -> _Repriced:
        """Return the operators of some candidates."""
        every = self.devices.index_C.size
        return replace(
            self,
            operators=[take_candidates(operator, some_X, every) for operator in self.operators],
            devices=self.devices.take(some_X),
            full=take(self.full, some_X),
        )

    def at(
        self, ratio_CO: FloatArray, last_CO: FloatArray, last: PricedOperators
    ) -> PricedOperators:
        """Return the prices at clocks; operators with the same clocks are priced together."""
        del last_CO
        changed = {name: getattr(last, name).copy() for name in following_clock(last)}
        clock_CK, which_O = np.unique(ratio_CO, axis=1, return_inverse=True)
        for number, clock_C in enumerate(clock_CK.T):
            same_clock_O = np.flatnonzero(which_O.reshape(-1) == number)
            ratio_C = self.devices.clock_ratio() * clock_C
            devices = replace(self.devices, clock_ratio_C=ratio_C, gathered={})
            repriced = self.price(
                [self.operators[index] for index in same_clock_O.tolist()], devices
            )
            for name, values in changed.items():
                values[:, same_clock_O] = getattr(repriced, name)
        return with_fields(last, **changed)


def managed_roofline(
    operators: Sequence[Operator], devices: DeviceColumns, traffic: Traffic
) -> PricedOperators:
    """Return prices in tier bound: memory at its bandwidth, or arithmetic at its peak (C, O).

    Args:
        operators: Columns over candidates (O).
        devices: Device and clock of each candidate (C,).
        traffic: (cold bytes, activation bytes, devices): bytes to and from memory (C, O).

    Raises:
        UnsupportedError: A device does not multiply in a format.

    Source: roofline, Williams, Waterman, Patterson, CACM 52(4), 2009.
    """
    shape = (devices.index_C.size, len(operators))
    flop_CO, cold_CO, activation_CO, compute_s_CO = np.zeros((4, *shape))
    for index, operator in enumerate(operators):
        work = operator.work()
        flop_CO[:, index] = work.flop
        cold_CO[:, index] = work.cold_bytes
        activation_CO[:, index] = work.activation_bytes
        if np.any(work.flop):
            compute_s_CO[:, index] = work.flop / devices.peak_flop_per_s(operator.compute_format)
    memory_bytes_CO = traffic(cold_CO, activation_CO, devices)
    memory_s_CO = memory_bytes_CO / devices.gather("memory_bandwidth")[:, None]
    bound_s_CO = np.maximum(compute_s_CO, memory_s_CO)
    return unpriced(
        PricedOperators,
        shape,
        time_s_CO=bound_s_CO.copy(),
        low_s_CO=bound_s_CO.copy(),
        high_s_CO=bound_s_CO.copy(),
        bound_s_CO=bound_s_CO,
        code_CO=np.where(compute_s_CO >= memory_s_CO, BOUND_COMPUTE, BOUND_MEMORY).astype(np.int8),
        flop_CO=flop_CO,
        memory_bytes_CO=memory_bytes_CO,
        chip_bytes_CO=cold_CO + activation_CO,
    )


def with_step_errors(
    prices: PricedOperators, fitted: Schedules, index_C: IntArray
) -> PricedOperators:
    """Return prices with the errors of the calibration of each device (C, O).

    Without a calibration, a time with assumed losses is no limit: its interval begins at the
    roofline, and its upper end is unknown.

    Args:
        index_C: Device of each candidate (C,).
    """
    low_C1, high_C1 = np.exp(fitted.tails_D2)[index_C].T[..., None]
    low_C1 = np.where(fitted.match_D[index_C][:, None] < 0, 0.0, low_C1)
    least_CO = np.maximum(prices.time_s_CO * low_C1, prices.bound_s_CO)
    return with_fields(
        prices,
        low_s_CO=np.minimum(least_CO, prices.time_s_CO),
        high_s_CO=prices.time_s_CO * high_C1,
        match_CO=np.repeat(fitted.match_D[index_C][:, None], prices.time_s_CO.shape[1], axis=1),
        matches=fitted.matches,
        notes=(
            *prices.notes,
            *(note for calibration_match in fitted.matches for note in calibration_match.notes),
        ),
    )


def synchronisations(operator: Operator) -> float:
    """Return the synchronisation points of an operator: two of a dense layer.

    Args:
        operator: Columns over candidates.

    Products whose sums are needed whole before the next operator have one: the output of attention
    and that of the feed-forward. Routed experts have two, since their inputs are gathered by a
    choice that no compiler knows.

    Source: assumption; published decode steps of mixtures of experts take 1.5 times as long per
        layer as those of dense models.
    """
    if operator.routed:
        return 2.0
    return 1.0 if operator.multiplies and operator.shard == "row" else 0.0
