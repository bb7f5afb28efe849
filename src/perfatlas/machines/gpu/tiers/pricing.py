"""Price operators on devices in any tier: time, bound and evidence.

Shape legend: C candidates, O operators, R priced rows (one operator of one candidate), U unique
rows, D shape columns, S silicon fields, P parameters, G operators of one physics model.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from perfatlas.machines.gpu.shapes import calibration_key
from perfatlas.machines.gpu.tiers.bound import bound_at_clock, price_at_bound
from perfatlas.machines.gpu.tiers.gathering import ModelRows, gather_rows, model_rows
from perfatlas.machines.gpu.tiers.matches import Matches
from perfatlas.machines.gpu.tiers.row_times import write_times
from perfatlas.measurements.calibrations import kernel_families
from perfatlas.operators import with_fields
from perfatlas.pricing import take, write

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfatlas.machines.contract import DeviceColumns, KernelChoice, KernelFamily
    from perfatlas.operators import FloatArray, IntArray, Operator
    from perfatlas.pricing import PricedOperators


def gather_families(
    operators: Sequence[Operator], devices: DeviceColumns, kernels: KernelChoice
) -> tuple[KernelFamily, ...]:
    """Return operators whose shapes are gathered, for each kernel family that may run them.

    Args:
        operators: Columns over C candidates, without collectives.
        devices: Device and clock of each candidate.
        kernels: Kernel family, tier, and version of the measured tables. Tier physics needs a
            calibration for the operator on the device or its nearest relative, otherwise it is
            priced in tier bound (see `match_CO`); tier measured corrects it by the residuals on the
            nearest measured shapes, where there are any (see `measured_CO`).

    Raises:
        UnsupportedError: A device has no tensor cores for a format.
        MissingDependencyError: Tier measured is used without the measured tables.
    """
    names: tuple[str, ...] = (kernels.family,)
    if not kernels.family and kernels.tier != "bound":
        names = kernel_families(device.name for device in devices.devices)
    return tuple(
        _gather_family(operators, devices, kernels._replace(family=name)) for name in names
    )


@dataclass(frozen=True, kw_only=True)
class _Family:
    """Operators with the kernels of one engine."""

    operators: Sequence[Operator]  # The operators (O)
    devices: DeviceColumns  # Device and clock of each candidate
    full: PricedOperators  # Prices at the clock of each candidate
    models: tuple[ModelRows, ...]  # Rows of each physics model

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
    operators: Sequence[Operator], devices: DeviceColumns, kernels: KernelChoice
) -> _Family:
    """Return operators with the kernels of one engine, priced at the clock of each candidate."""
    prices = price_at_bound(operators, devices)
    found: list[ModelRows] = []
    if kernels.tier == "bound":
        return _Family(operators=operators, devices=devices, full=prices, models=())
    version = kernels.silicon_version if kernels.tier == "measured" else None
    catalog = Matches(devices, kernels.family, version)
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
