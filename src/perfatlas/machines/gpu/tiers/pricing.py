"""Price operators on devices in any tier: time, bound and evidence.

Shape legend: C candidates, O operators, R priced rows (one operator of one candidate), U unique
rows, D shape columns, S silicon fields, P parameters, F kernel families,
G operators of one physics model.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from perfatlas.machines.gpu.shapes import calibration_key
from perfatlas.machines.gpu.tiers.bound import bound_at_clock, price_at_bound
from perfatlas.machines.gpu.tiers.gathering import ModelRows, gather_rows, model_rows
from perfatlas.machines.gpu.tiers.matches import Matches
from perfatlas.machines.gpu.tiers.row_times import write_times
from perfatlas.measurements.calibrations import kernel_families
from perfatlas.operators import with_fields
from perfatlas.pricing import choose, take, write

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfatlas.machines.gpu.devices import DeviceColumns
    from perfatlas.operators import FloatArray, IntArray, Operator
    from perfatlas.pricing import PricedOperators

Tier = Literal["auto", "bound", "physics", "measured"]


def price_operators(
    operators: Sequence[Operator],
    devices: DeviceColumns,
    *,
    family: str,
    tier: Tier,
    silicon_version: str = "",
) -> PricedOperators:
    """Return the prices of all operators on the device of each candidate.

    Args:
        operators: Columns over C candidates, without collectives.
        devices: Device and clock of each candidate.
        family: Kernel family of the engine; "" selects the fastest family for each operator.
        tier: "bound"; "physics" or "auto": physics where the device (or its nearest relative)
            has a calibration for the operator, otherwise bound (see `match_CO`); "measured":
            physics corrected by the residuals on the nearest measured shapes, where there are
            any (see `measured_CO`).
        silicon_version: Engine version whose tables tier measured reads; "" for those that the
            calibrations were fitted on.

    Raises:
        UnsupportedError: A device has no tensor cores for a format.
        MissingDependencyError: Tier measured is used without the measured tables.

    Limits: Assumes cold caches and back-to-back kernels of one CUDA graph.
    """
    return gather_operators(
        operators, devices, family=family, tier=tier, silicon_version=silicon_version
    ).full()


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
        devices: Device and clock of each candidate.
        family: As for `price_operators`.
        tier: As for `price_operators`.
        silicon_version: As for `price_operators`.

    Raises:
        UnsupportedError: A device has no tensor cores for a format.
        MissingDependencyError: Tier measured is used without the measured tables.
    """
    version = silicon_version if tier == "measured" else None
    names: tuple[str, ...] = (family,)
    if not family and tier != "bound":
        names = kernel_families(device.name for device in devices.devices)
    kernels = [_Kernels(name, tier, version) for name in names]
    return GatheredOperators(
        families=tuple(_gather_family(operators, devices, one) for one in kernels)
    )


@dataclass(frozen=True, kw_only=True)
class GatheredOperators:
    """Operators whose shapes are gathered, for each kernel family that may run them.

    Args:
        families: The operators with the kernels of each family (F).
    """

    families: tuple[_Family, ...]

    def full(self) -> PricedOperators:
        """Return the prices at the clock of each candidate."""
        return _fastest([family.full for family in self.families])

    def take(self, some_X: IntArray) -> GatheredOperators:
        """Return the operators of some candidates.

        Args:
            some_X: Positions of the candidates (X,).
        """
        return GatheredOperators(families=tuple(one.take(some_X) for one in self.families))

    def at(self, ratio_CO: FloatArray, last: ClockPrices | None = None) -> ClockPrices:
        """Return the prices at other clocks; entries with the clock of the last ones keep theirs.

        Args:
            ratio_CO: Clock of each operator relative to the clock of its candidate (C, O).
            last: Prices at other clocks, None for those at the clock of each candidate.

        Limits: As for `price_operators`; kernels were measured only at the sustained clock.
        """
        if last is None:
            last = ClockPrices(np.ones_like(ratio_CO), tuple(one.full for one in self.families))
        pairs = zip(self.families, last.families, strict=True)
        found = tuple(family.at(ratio_CO, last.ratio_CO, prices) for family, prices in pairs)
        return ClockPrices(ratio_CO, found)


class ClockPrices(NamedTuple):
    """Prices of operators at clocks.

    Args:
        ratio_CO: Clock of each operator relative to the clock of its candidate (C, O).
        families: Prices with the kernels of each family (F).
    """

    ratio_CO: FloatArray
    families: tuple[PricedOperators, ...]

    def fastest(self) -> PricedOperators:
        """Return the prices of the fastest family of each entry."""
        return _fastest(self.families)


class _Kernels(NamedTuple):
    """Kernel family, tier, and engine version of the tables of tier measured."""

    family: str
    tier: Tier
    version: str | None


@dataclass(frozen=True, kw_only=True)
class _Family:
    """Operators with the kernels of one engine.

    Args:
        operators: The operators (O).
        devices: Device and clock of each candidate.
        full: Prices at the clock of each candidate.
        models: Rows of each physics model.
    """

    operators: Sequence[Operator]
    devices: DeviceColumns
    full: PricedOperators
    models: tuple[ModelRows, ...]

    def take(self, some_X: IntArray) -> _Family:
        """Return the operators of some candidates, of which only formats are read from here on."""
        every = self.devices.index_C.size
        return _Family(
            operators=self.operators,
            devices=self.devices.take(some_X),
            full=take(self.full, some_X),
            models=tuple(rows.take(some_X, every) for rows in self.models),
        )

    def at(
        self, ratio_CO: FloatArray, last_CO: FloatArray, last: PricedOperators
    ) -> PricedOperators:
        """Return the prices at clocks, from those at the last ones.

        Rooflines are those of the datasheet at clocks above its own.
        """
        same_CO = ratio_CO == last_CO
        peak_CO = np.minimum(ratio_CO, 1.0)
        bound_CO, code_CO = bound_at_clock(self.operators, self.devices, last, peak_CO)
        prices = with_fields(
            last,
            time_s_CO=np.where(same_CO, last.time_s_CO, bound_CO),
            low_s_CO=np.where(same_CO, last.low_s_CO, bound_CO),
            high_s_CO=np.where(same_CO, last.high_s_CO, bound_CO),
            bound_s_CO=bound_CO,
            code_CO=np.where(same_CO, last.code_CO, code_CO),
        )
        for rows in self.models:
            table = rows.table
            ratio_R = ratio_CO[table.candidate_R, table.operator_R]
            changed_W = np.flatnonzero(~same_CO[table.candidate_R, table.operator_R])
            if not changed_W.size:
                continue
            at = (table.candidate_R[changed_W], table.operator_R[changed_W])
            place_W = rows.inverse_R[changed_W]
            found = rows.prices(place_W, ratio_R[changed_W])
            write_times(prices, at, np.arange(place_W.size), found)
        return prices


def _gather_family(
    operators: Sequence[Operator], devices: DeviceColumns, kernels: _Kernels
) -> _Family:
    """Return operators with the kernels of one engine, priced at the clock of each candidate."""
    prices = price_at_bound(operators, devices)
    found: list[ModelRows] = []
    if kernels.tier == "bound":
        return _Family(operators=operators, devices=devices, full=prices, models=())
    catalog = Matches(devices, kernels.family, kernels.version)
    for name, (columns_O, formats_O) in _by_model(operators).items():
        chosen = [operators[position] for position in columns_O]
        match_GC = catalog.rows(name, chosen, formats_O)
        table = gather_rows(chosen, columns_O, match_GC, catalog, name)
        if table is None:
            continue
        rows = model_rows(table, catalog)
        _write_physics(prices, rows)
        distinct_O = prices.distinct_O
        distinct_O += np.bincount(table.operator_R[rows.first_U], minlength=distinct_O.size)
        found.append(rows)
    full = with_fields(
        prices,
        matches=tuple(catalog.matches),
        rows_O=(prices.match_CO >= 0).sum(axis=0),
    )
    return _Family(operators=operators, devices=devices, full=full, models=tuple(found))


def _write_physics(prices: PricedOperators, rows: ModelRows) -> None:
    """Overwrite the bounds of the rows of one physics model with their prices."""
    table, place_R = rows.table, rows.inverse_R
    at = (table.candidate_R, table.operator_R)
    every_U = np.arange(rows.first_U.size)
    write_times(prices, at, place_R, rows.prices(every_U, np.ones(every_U.size)))
    write(prices, at, match_CO=table.match_R, outside_CO=rows.outside_U[place_R])
    if rows.near is not None:
        write(prices, at, measured_CO=rows.near.measured_U[place_R])


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


def _by_model(
    operators: Sequence[Operator],
) -> dict[str, tuple[list[int], list[tuple[str, ...]]]]:
    """Return positions and calibration formats of the operators of each physics model."""
    groups: dict[str, tuple[list[int], list[tuple[str, ...]]]] = {}
    for position, operator in enumerate(operators):
        key = calibration_key(operator)
        if key is not None:
            positions, formats = groups.setdefault(key[0], ([], []))
            positions.append(position)
            formats.append(key[1])
    return groups
