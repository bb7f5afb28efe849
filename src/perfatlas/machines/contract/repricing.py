"""Operators of a machine that prices all of them at once, priced again at other clocks.

Shape legend: C candidates, O operators, X some candidates, K distinct clocks.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from perfatlas.operators import take_candidates, with_fields
from perfatlas.pricing import following_clock, take

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from perfatlas.machines.contract.devices import DeviceColumns
    from perfatlas.machines.contract.gathered import KernelFamily
    from perfatlas.machines.contract.row import KernelChoice
    from perfatlas.operators import FloatArray, IntArray, Operator
    from perfatlas.pricing import PricedOperators

    Price = Callable[[Sequence[Operator], DeviceColumns], PricedOperators]
    Gather = Callable[[Sequence[Operator], DeviceColumns, KernelChoice], tuple[KernelFamily, ...]]


def repriced(price: Price, bound: Price) -> Gather:
    """Return the `gather` of a machine that has one way to run each operator.

    Args:
        price: (operators, devices): prices of operators at the clock of each candidate.
        bound: The same in tier bound.
    """

    def gather(
        operators: Sequence[Operator], devices: DeviceColumns, kernels: KernelChoice
    ) -> tuple[KernelFamily, ...]:
        own = bound if kernels.tier == "bound" else price
        full = own(operators, devices)
        return (_Repriced(price=own, operators=operators, devices=devices, full=full),)

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
            own = np.flatnonzero(which_O.reshape(-1) == number)
            ratio_C = self.devices.clock_ratio() * clock_C
            devices = replace(self.devices, clock_ratio_C=ratio_C, gathered={})
            found = self.price([self.operators[index] for index in own.tolist()], devices)
            for name, values in changed.items():
                values[:, own] = getattr(found, name)
        return with_fields(last, **changed)
