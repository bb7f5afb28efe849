"""Price operators on devices in any tier: time, bound and evidence.

Shape legend: C candidates, O operators, R priced rows (one operator of one candidate), U unique
rows, D shape columns, S silicon fields, P parameters, F kernel families,
G operators of one physics model.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from perfatlas.kernels.devices import CLOCK, PEAK, SiliconRows, unique_rows
from perfatlas.kernels.shapes import (
    PhysicsModel,
    calibration_key,
    octaves_outside,
    physics_model,
    shape_columns,
    widening_per_octave,
)
from perfatlas.kernels.tiers.bound import bound_at_clock, price_at_bound, resource_code
from perfatlas.kernels.tiers.matches import Matches
from perfatlas.measurements.calibrations import CalibrationMatch, kernel_families
from perfatlas.operators import with_fields
from perfatlas.pricing import choose, write
from perfatlas.quantities import InvalidSpecError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from perfatlas.kernels.devices import DeviceColumns
    from perfatlas.measurements.residuals import Correction
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

    def at(self, ratio_CO: FloatArray) -> PricedOperators:
        """Return the prices at other clocks; entries with ratio 1 keep their prices.

        Args:
            ratio_CO: Clock of each operator relative to the clock of its candidate (C, O).

        Limits: As for `price_operators`; kernels were measured only at the sustained clock.
        """
        return _fastest([family.at(ratio_CO) for family in self.families])


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
    models: tuple[_ModelRows, ...]

    def at(self, ratio_CO: FloatArray) -> PricedOperators:
        full, same_CO = self.full, ratio_CO == 1.0
        bound_CO, code_CO = bound_at_clock(self.operators, self.devices, full, ratio_CO)
        prices = with_fields(
            full,
            time_s_CO=np.where(same_CO, full.time_s_CO, bound_CO),
            low_s_CO=np.where(same_CO, full.low_s_CO, bound_CO),
            high_s_CO=np.where(same_CO, full.high_s_CO, bound_CO),
            bound_s_CO=bound_CO,
            code_CO=np.where(same_CO, full.code_CO, code_CO),
        )
        for rows in self.models:
            table = rows.table
            ratio_R = ratio_CO[table.candidate_R, table.operator_R]
            changed_W = np.flatnonzero(ratio_R != 1.0)
            if not changed_W.size:
                continue
            at = (table.candidate_R[changed_W], table.operator_R[changed_W])
            place_W = rows.inverse_R[changed_W]
            _write_times(prices, at, rows.prices(place_W, ratio_R[changed_W]))
        return _ordered(prices)


def _gather_family(
    operators: Sequence[Operator], devices: DeviceColumns, kernels: _Kernels
) -> _Family:
    """Return operators with the kernels of one engine, priced at the clock of each candidate."""
    prices = price_at_bound(operators, devices)
    found: list[_ModelRows] = []
    if kernels.tier == "bound":
        return _Family(operators=operators, devices=devices, full=prices, models=())
    catalog = Matches(devices, kernels.family, kernels.version)
    for name, (columns_O, formats_O) in _by_model(operators).items():
        chosen = [operators[position] for position in columns_O]
        match_GC = catalog.rows(name, chosen, formats_O)
        table = _gather(chosen, columns_O, match_GC, catalog, name)
        if table is None:
            continue
        rows = _model_rows(table, catalog)
        _write_physics(prices, rows)
        distinct_O = prices.distinct_O
        distinct_O += np.bincount(table.operator_R[rows.first_U], minlength=distinct_O.size)
        found.append(rows)
    full = with_fields(
        _ordered(prices),
        matches=tuple(catalog.matches),
        rows_O=(prices.match_CO >= 0).sum(axis=0),
    )
    return _Family(operators=operators, devices=devices, full=full, models=tuple(found))


def _ordered(prices: PricedOperators) -> PricedOperators:
    """Return prices whose intervals contain their times."""
    return with_fields(
        prices,
        low_s_CO=np.minimum(prices.low_s_CO, prices.time_s_CO),
        high_s_CO=np.maximum(prices.high_s_CO, prices.time_s_CO),
    )


def _write_physics(prices: PricedOperators, rows: _ModelRows) -> None:
    """Overwrite the bounds of the rows of one physics model with their prices."""
    table, place_R = rows.table, rows.inverse_R
    at = (table.candidate_R, table.operator_R)
    every_U = np.arange(rows.first_U.size)
    found = rows.prices(every_U, np.ones(every_U.size))
    _write_times(prices, at, _Prices(*(values_U[place_R] for values_U in found)))
    write(
        prices,
        at,
        match_CO=table.match_R,
        measured_CO=rows.measured()[place_R],
        outside_CO=rows.outside_U[place_R],
    )


def _write_times(prices: PricedOperators, at: tuple[IntArray, IntArray], rows: _Prices) -> None:
    """Overwrite the bounds of some operators with their prices."""
    bound_R = prices.bound_s_CO[at]
    time_R = np.maximum(rows.time_s_U, bound_R)
    # An interval below the bound contradicts it: the gap shows the error of the measurements,
    # not a narrow interval.
    high_R = time_R * rows.high_U
    mirrored_R = time_R / rows.low_U
    write(
        prices,
        at,
        time_s_CO=time_R,
        low_s_CO=np.maximum(time_R * rows.low_U, bound_R),
        high_s_CO=np.where(high_R < bound_R, mirrored_R, high_R),
        code_CO=resource_code(rows.code_U, prices.code_CO[at]),
    )


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


class _Prices(NamedTuple):
    """Times of shapes at their clocks, and interval factors."""

    time_s_U: FloatArray
    code_U: NDArray[np.int8]
    low_U: FloatArray
    high_U: FloatArray


@dataclass(frozen=True, kw_only=True)
class _ModelRows:
    """Rows of one physics model, and what does not depend on the clock.

    Args:
        table: The rows (R).
        first_U: First row of each distinct shape.
        inverse_R: Distinct shape of each row.
        key_UD: Keys of the distinct shapes.
        shape_UD: Shape columns of the distinct shapes.
        low_U: Lower interval factor.
        high_U: Upper interval factor.
        outside_U: Distance from the calibrated shapes [octaves].
        near: Corrections by measured rows, None in tier physics.
        alone_U: Where only the product of a measured sum is priced.
    """

    table: _Table
    first_U: IntArray
    inverse_R: IntArray
    key_UD: FloatArray
    shape_UD: FloatArray
    low_U: FloatArray
    high_U: FloatArray
    outside_U: FloatArray
    near: Correction | None
    alone_U: NDArray[np.bool_]

    def measured(self) -> NDArray[np.bool_]:
        """Return whether measured rows correct a shape (U,)."""
        return np.zeros_like(self.alone_U) if self.near is None else self.near.measured_U

    def prices(self, place_X: IntArray, ratio_X: FloatArray) -> _Prices:
        """Return the prices of distinct shapes at clocks.

        Args:
            place_X: Positions of the shapes (X,).
            ratio_X: Clock relative to the clock of the candidate (X,).
        """
        key_XD, low_X, high_X = self.key_UD[place_X], self.low_U[place_X], self.high_U[place_X]
        time_s_X, code_X = self.table.physics(key_XD, self.shape_UD[place_X], ratio_X)
        if self.near is None:
            return _Prices(time_s_X, code_X, low_X, high_X)
        own = self.near._replace(
            **{name: values[place_X] for name, values in self.near._asdict().items()}
        )
        alone_X = self.alone_U[place_X]
        if alone_X.any():
            from perfatlas.kernels.tiers.measured import product_alone, with_quantization

            whole_XD = with_quantization(key_XD)
            whole_s_X, _ = self.table.physics(whole_XD, self.table.shape(whole_XD), ratio_X)
            own = product_alone(own, alone_X, whole_s_X / time_s_X)
        wider_X = self._wider(place_X)
        return _Prices(
            time_s_X * own.factor_U,
            code_X,
            np.where(own.measured_U, np.exp(own.low_U) / wider_X, low_X),
            np.where(own.measured_U, np.exp(own.high_U) * wider_X, high_X),
        )

    def _wider(self, place_X: IntArray) -> FloatArray:
        return _widening(self.table.operator_name, self.outside_U[place_X])


def _widening(name: str, outside_U: FloatArray) -> FloatArray:
    """Return the factor by which intervals widen outside the calibrated shapes (U,)."""
    wider_U: FloatArray = np.exp(widening_per_octave().get(name, 0.0) * outside_U)
    return wider_U


def _model_rows(table: _Table, catalog: Matches) -> _ModelRows:
    """Return the distinct rows of a table, and what does not depend on the clock."""
    first_U, inverse_R = unique_rows(table.key_RD)
    key_UD, match_U = table.key_RD[first_U], table.match_R[first_U]
    shape_UD = table.shape(key_UD)
    name, limits_M = table.operator_name, [match.limits for match in catalog.matches]
    low_U, high_U = catalog.spread()[match_U].T
    outside_U = octaves_outside(name, shape_UD, match_U, limits_M)
    wider_U = _widening(name, outside_U)
    near, alone_U = None, np.zeros(first_U.shape, np.bool_)
    if catalog.version is not None:
        from perfatlas.kernels.tiers.measured import correct_rows, lacks_quantization

        near = correct_rows(name, catalog.matches, shape_UD, match_U)
        lacks_U = lacks_quantization(name, catalog.matches, shape_UD, match_U)
        alone_U = near.measured_U & lacks_U
    return _ModelRows(
        table=table,
        first_U=first_U,
        inverse_R=inverse_R,
        key_UD=key_UD,
        shape_UD=shape_UD,
        low_U=low_U / wider_U,
        high_U=high_U * wider_U,
        outside_U=outside_U,
        near=near,
        alone_U=alone_U,
    )


@dataclass(frozen=True, kw_only=True)
class _Table:
    """Rows of one physics model, before they are made unique and priced."""

    operator_name: str
    key_RD: FloatArray  # shape columns, then match, silicon row and clock ratio
    shape_width: int
    silicon_MS: FloatArray
    parameters_MP: FloatArray
    match_R: IntArray
    candidate_R: IntArray
    operator_R: IntArray

    def shape(self, key_UD: FloatArray) -> FloatArray:
        """Return the shape columns of distinct keys (U, D)."""
        return np.ascontiguousarray(key_UD[:, : self.shape_width])

    def physics(
        self, key_UD: FloatArray, shape_UD: FloatArray, ratio_U: FloatArray
    ) -> tuple[FloatArray, NDArray[np.int8]]:
        """Return the times of distinct keys with their shapes (U,) [s], and bound codes (U,)."""
        silicon_US = self.silicon_MS[key_UD[:, self.shape_width + 1].astype(np.int64)]
        clock_ratio_U = key_UD[:, self.shape_width + 2] * ratio_U
        silicon_US[:, PEAK] *= clock_ratio_U
        silicon_US[:, CLOCK] *= clock_ratio_U
        parameters_UP = self.parameters_MP[key_UD[:, self.shape_width].astype(np.int64)]
        model = physics_model(self.operator_name)
        return model.physics(shape_UD, silicon_US, parameters_UP)


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


def _gather(
    wanted: Sequence[Operator],
    columns_O: list[int],
    match_GC: IntArray,
    catalog: Matches,
    name: str,
) -> _Table | None:
    """Stack the rows of the operators of one model that are executed and calibrated."""
    model = physics_model(name)
    width = len(model.shape_names)
    devices = catalog.devices
    runs_GC = match_GC >= 0
    for place, operator in enumerate(wanted):
        runs_GC[place] &= operator.count > 0
    which_R, candidate_R = np.nonzero(runs_GC)
    if not which_R.size:
        return None
    key_GCD = np.empty((*match_GC.shape, width + 3))
    silicon = SiliconRows(devices.devices)
    for place, operator in enumerate(wanted):
        columns = shape_columns(operator)
        for column, shape_name in enumerate(model.shape_names):
            key_GCD[place, :, column] = columns[shape_name]
        key_GCD[place, :, width + 1] = silicon.first(operator.compute_format) + devices.index_C
    key_GCD[:, :, width] = match_GC
    key_GCD[:, :, width + 2] = devices.clock_ratio()
    everywhere = which_R.size == runs_GC.size
    key_RD = key_GCD.reshape(-1, width + 3) if everywhere else key_GCD[which_R, candidate_R]
    parameters = [_parameters(match, name, model) for match in catalog.matches]
    return _Table(
        operator_name=name,
        key_RD=key_RD,
        shape_width=width,
        silicon_MS=np.array(silicon.rows),
        parameters_MP=np.array(parameters, dtype=np.float64),
        match_R=match_GC[runs_GC],
        candidate_R=candidate_R,
        operator_R=np.array(columns_O)[which_R],
    )


def _parameters(match: CalibrationMatch, name: str, model: PhysicsModel) -> list[float]:
    """Return the parameters of a calibration in the order of its model; zeros for other models."""
    if match.calibration.operator != name:
        return [0.0] * len(model.parameter_names)
    fitted = match.calibration.parameters
    if missing := [p for p in model.parameter_names if p not in fitted]:
        raise InvalidSpecError(
            f"calibration {match.calibration.id} was fitted for an older model and lacks"
            f" {', '.join(missing)}; refit it with `{match.calibration.command}`"
        )
    return [fitted[p] for p in model.parameter_names]
