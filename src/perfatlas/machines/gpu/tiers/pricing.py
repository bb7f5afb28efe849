"""Price operators on devices in any tier: time, bound and evidence.

Shape legend: C candidates, O operators, R priced rows (one operator of one candidate), U unique
rows, G operators of one physics model.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from perfatlas.compiled import compiled
from perfatlas.machines.gpu.shapes import calibration_key
from perfatlas.machines.gpu.tiers.bound import bound_at_clock, price_at_bound
from perfatlas.machines.gpu.tiers.gathering import Matches, ModelRows, RowPrices, gather_rows
from perfatlas.measurements.calibrations import kernel_families
from perfatlas.operators import (
    BOUND_COMPUTE,
    BOUND_LATENCY,
    BOUND_MEMORY,
    BOUND_PADDING,
    with_fields,
)
from perfatlas.pricing import take, write

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

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
            ratio_R = ratio_CO[rows.candidate_R, rows.operator_R]
            changed_W = np.flatnonzero(~same_CO[rows.candidate_R, rows.operator_R])
            if not changed_W.size:
                continue
            positions = (rows.candidate_R[changed_W], rows.operator_R[changed_W])
            place_W = rows.inverse_R[changed_W]
            repriced = rows.prices(place_W, ratio_R[changed_W])
            write_times(prices, positions, np.arange(place_W.size), repriced)
        return prices


def _gather_family(
    operators: Sequence[Operator], devices: DeviceColumns, kernels: KernelChoice
) -> _Family:
    """Return operators with the kernels of one engine, priced at the clock of each candidate."""
    prices = price_at_bound(operators, devices)
    models: list[ModelRows] = []
    if kernels.tier == "bound":
        return _Family(operators=operators, devices=devices, full=prices, models=())
    version = kernels.silicon_version if kernels.tier == "measured" else None
    catalog = Matches(devices, kernels.family, version)
    for name, (position_G, formats_G) in _by_model(operators).items():
        chosen = [operators[position] for position in position_G]
        match_GC = catalog.rows(name, chosen, formats_G)
        rows = gather_rows(name, chosen, position_G, match_GC, catalog)
        if rows is None:
            continue
        positions, every_U = (rows.candidate_R, rows.operator_R), np.arange(rows.first_U.size)
        write_times(prices, positions, rows.inverse_R, rows.prices(every_U, np.ones(every_U.size)))
        write(prices, positions, match_CO=rows.match_R, outside_CO=rows.outside_U[rows.inverse_R])
        if rows.near is not None:
            write(prices, positions, measured_CO=rows.near.measured_U[rows.inverse_R])
        distinct_O = prices.distinct_O
        distinct_O += np.bincount(rows.operator_R[rows.first_U], minlength=distinct_O.size)
        models.append(rows)
    full = with_fields(
        prices,
        matches=tuple(catalog.matches),
        rows_O=(prices.match_CO >= 0).sum(axis=0),
    )
    return _Family(operators=operators, devices=devices, full=full, models=tuple(models))


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


def write_times(
    prices: PricedOperators,
    positions: tuple[IntArray, IntArray],
    place_R: IntArray,
    shape_prices: RowPrices,
) -> None:
    """Overwrite the rooflines of some operators with their prices, none below its roofline.

    A product whose roofline is memory-bound, but which is limited by issuing its tiles, does not
    fill the device: it is latency-bound. Experts whose tiles fill it compute padded rows.

    `positions` holds candidate and operator of each row (R,), `place_R` its shape.
    """
    columns = _Columns(*(getattr(prices, name) for name in _Columns._fields))
    shapes = RowPrices(*map(np.ascontiguousarray, shape_prices))
    place_R, candidate_R, operator_R = map(np.ascontiguousarray, (place_R, *positions))
    _write(place_R, candidate_R, operator_R, shapes, columns)


class _Columns(NamedTuple):
    """Columns of `PricedOperators` that are read and written, each (C, O)."""

    bound_s_CO: FloatArray
    time_s_CO: FloatArray
    low_s_CO: FloatArray
    high_s_CO: FloatArray
    code_CO: NDArray[np.int8]


@compiled
def _write(
    place_R: IntArray,
    candidate_R: IntArray,
    operator_R: IntArray,
    shapes: RowPrices,
    columns: _Columns,
) -> None:
    """Write time, interval and limiting resource of each row.

    An interval below the bound contradicts it: the gap shows the error of the measurements, not a
    narrow interval.
    """
    for row in range(place_R.shape[0]):
        candidate, operator, shape = candidate_R[row], operator_R[row], place_R[row]
        bound_s, time_s = columns.bound_s_CO[candidate, operator], shapes.time_s_U[shape]
        time_s = max(time_s, bound_s)
        low_s, high_s = time_s * shapes.low_U[shape], time_s * shapes.high_U[shape]
        if high_s < bound_s:
            high_s = time_s / shapes.low_U[shape]
        low_s = max(low_s, bound_s)
        columns.time_s_CO[candidate, operator] = time_s
        columns.low_s_CO[candidate, operator] = min(low_s, time_s)
        columns.high_s_CO[candidate, operator] = max(high_s, time_s)
        code = shapes.code_U[shape]
        memory = columns.code_CO[candidate, operator] == BOUND_MEMORY
        if code == BOUND_COMPUTE and memory:
            code = BOUND_LATENCY
        elif code == BOUND_PADDING and not memory:
            code = BOUND_COMPUTE
        columns.code_CO[candidate, operator] = code
