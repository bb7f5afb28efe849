"""Prices of operators and answers about devices, each from the machine of the device's kind.

Shapes are gathered once, and priced at several clocks.

Shape legend: C candidates, O operators, F kernel families, X some candidates.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from perfatlas.hardware import DEFAULT_KIND
from perfatlas.machines.contract.machine import KernelChoice, find_machine
from perfatlas.operators import LibraryKernel, take_candidates, with_fields
from perfatlas.pricing import choose, following_clock, merge, take
from perfatlas.quantities import UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from perfatlas.hardware import Device
    from perfatlas.machines.contract.machine import DeviceColumns, KernelFamily, Machine, Tier
    from perfatlas.operators import FloatArray, IntArray, Operator
    from perfatlas.pricing import PricedOperators


@dataclass(frozen=True, kw_only=True)
class GatheredOperators:
    """Operators whose shapes are gathered, for each kernel family that may run them."""

    families: tuple[KernelFamily, ...]  # The operators with the kernels of each family (F)

    def full(self) -> PricedOperators:
        """Return the prices at the clock of each candidate."""
        return _fastest([family.full for family in self.families])

    def take(self, some_X: IntArray) -> GatheredOperators:
        """Return the operators of some candidates (X,)."""
        return GatheredOperators(families=tuple(family.take(some_X) for family in self.families))

    def at(self, ratio_CO: FloatArray, last: ClockPrices | None = None) -> ClockPrices:
        """Return the prices at other clocks; entries with the clock of the last ones keep theirs.

        Args:
            ratio_CO: Clock of each operator relative to the clock of its candidate (C, O).
            last: Prices at other clocks, None for those at the clock of each candidate.

        Limits: As for `price_operators`; kernels were measured only at the sustained clock.
        """
        if last is None:
            last = ClockPrices(
                np.ones_like(ratio_CO), tuple(family.full for family in self.families)
            )
        pairs = zip(self.families, last.families, strict=True)
        priced = tuple(family.at(ratio_CO, last.ratio_CO, prices) for family, prices in pairs)
        return ClockPrices(ratio_CO, priced)


class ClockPrices(NamedTuple):
    """Prices of operators at clocks."""

    ratio_CO: FloatArray  # Clock of each operator relative to the clock of its candidate (C, O)
    families: tuple[PricedOperators, ...]  # Prices with the kernels of each family (F)

    def fastest(self) -> PricedOperators:
        """Return the prices of the fastest family of each entry."""
        return _fastest(self.families)


def _fastest(priced: Sequence[PricedOperators]) -> PricedOperators:
    """Return the prices of the fastest kernel of each operator and candidate.

    Among equally fast kernels, one measured on the device itself is preferred, then the first. The
    fastest is no slower than any other, so its upper end is the minimum of theirs.
    """
    if len(priced) == 1:
        return priced[0]
    time_FCO = np.stack([p.time_s_CO for p in priced])
    own_FCO = np.stack([np.array([*(m.own for m in p.matches), False])[p.match_CO] for p in priced])
    fastest_FCO = time_FCO == time_FCO.min(axis=0)
    chosen = choose(priced, np.argmax(fastest_FCO * (1 + own_FCO), axis=0))
    return with_fields(chosen, high_s_CO=np.min([p.high_s_CO for p in priced], axis=0))


def price_operators(
    operators: Sequence[Operator],
    devices: DeviceColumns,
    *,
    family: str,
    tier: Tier,
) -> PricedOperators:
    """Return the prices of all operators on the device of each candidate.

    Args:
        operators: Columns over C candidates, without collectives.
        family: As in `KernelChoice`, as the others.

    Raises:
        UnsupportedError: A device does not multiply in a format, or no machine prices its kind.
        MissingDependencyError: Tier measured is used without the measured tables.

    Limits: Assumes cold caches and back-to-back kernels of one CUDA graph.
    """
    return gather_operators(operators, devices, family=family, tier=tier).full()


def _require_libraries(device: Device) -> None:
    """Refuse a machine whose programs are scheduled by a compiler for networks."""
    if device.kind != DEFAULT_KIND:
        raise UnsupportedError(
            f"{device.name} is a {device.kind} machine, for which no library of sorts, joins,"
            " transforms and solvers is known; choose a GPU or a processor"
        )


def gather_operators(
    operators: Sequence[Operator],
    devices: DeviceColumns,
    *,
    family: str,
    tier: Tier,
    silicon_version: str = "",
) -> GatheredOperators:
    """Return operators whose shapes are gathered once, to be priced at several clocks.

    Args:
        operators: As for `price_operators`.
        family: As for `price_operators`.
        tier: As for `price_operators`.
        silicon_version: As for `price_operators`.

    Raises:
        UnsupportedError: A device does not multiply in a format, or no machine prices its kind.
        MissingDependencyError: Tier measured is used without the measured tables.
    """
    calls = [operator for operator in operators if isinstance(operator, LibraryKernel)]
    if any(call.name != "gemm" for call in calls):  # of a product, the format is refused
        for device in devices.devices:
            _require_libraries(device)
    kernels = KernelChoice(family, tier, silicon_version)
    if machine := _only_machine(devices):
        families = machine.gather(operators, devices, kernels)
        return GatheredOperators(families=families)
    every = devices.index_C.size
    groups = [
        (
            some_X,
            find_machine(kind).gather(
                [take_candidates(operator, some_X, every) for operator in operators],
                devices.only(some_X),
                kernels,
            ),
        )
        for kind, some_X in _kinds(devices).items()
    ]
    # a kind with fewer families repeats its last one, which does not change the fastest
    most = max(len(families) for _, families in groups)
    return GatheredOperators(
        families=tuple(
            _Mixed(
                tuple(
                    (some_X, families[min(index, len(families) - 1)]) for some_X, families in groups
                )
            )
            for index in range(most)
        )
    )


def communication_share(devices: DeviceColumns, multiprocessors: float) -> FloatArray:
    """Return the share of a device that kernels of communication take from those beside them (C,).

    Args:
        multiprocessors: Multiprocessors that they occupy on a GPU.
    """
    if machine := _only_machine(devices):
        return machine.communication_share(devices, multiprocessors)
    share_C = np.empty(devices.index_C.size)
    for kind, some_X in _kinds(devices).items():
        machine = find_machine(kind)
        share_C[some_X] = machine.communication_share(devices.only(some_X), multiprocessors)
    return share_C


def issuing_units(device: Device) -> float:
    """Return the units of a device that issue instructions, as SMs of a GPU."""
    return find_machine(device.kind).issuing_units(device)


def spreads_weights(devices: DeviceColumns) -> NDArray[np.bool_]:
    """Return whether weights are spread evenly over all pipeline stages (C,)."""
    spread_D = [find_machine(device.kind).spreads_weights for device in devices.devices]
    spread_C: NDArray[np.bool_] = np.array(spread_D)[devices.index_C]
    return spread_C


def _only_machine(devices: DeviceColumns) -> Machine | None:
    """Return the machine of devices of one kind; None where kinds differ, in use or not."""
    kinds = {device.kind for device in devices.devices}
    return find_machine(kinds.pop()) if len(kinds) == 1 else None


def _kinds(devices: DeviceColumns) -> dict[str, IntArray]:
    """Return the positions of the candidates on each kind of machine."""
    kind_C = np.array([device.kind for device in devices.devices])[devices.index_C]
    return {str(kind): np.flatnonzero(kind_C == kind) for kind in np.unique(kind_C)}


@dataclass(frozen=True)
class _Mixed:
    """Operators with the kernels of one family of each kind of machine."""

    # Positions of the candidates on each kind (X,), and their operators
    parts: tuple[tuple[IntArray, KernelFamily], ...]

    @property
    def full(self) -> PricedOperators:
        """Prices at the clock of each candidate."""
        prices = [family.full for _, family in self.parts]
        return merge(prices, [some_X for some_X, _ in self.parts])

    def take(self, some_X: IntArray) -> _Mixed:
        """Return the operators of some candidates (X,)."""
        parts = []
        for own_X, family in self.parts:
            positions = np.flatnonzero(np.isin(some_X, own_X))
            if positions.size:
                parts.append((positions, family.take(np.searchsorted(own_X, some_X[positions]))))
        return _Mixed(tuple(parts))

    def at(
        self, ratio_CO: FloatArray, last_CO: FloatArray, last: PricedOperators
    ) -> PricedOperators:
        """Return the prices at clocks, from those at the last ones."""
        changed = {name: getattr(last, name).copy() for name in following_clock(last)}
        for some_X, family in self.parts:
            repriced = family.at(ratio_CO[some_X], last_CO[some_X], take(last, some_X))
            for name, values in changed.items():
                values[some_X] = getattr(repriced, name)
        return with_fields(last, **changed)
