"""Price operators on devices in any tier: time, bound and evidence.

Shape legend: C candidates, O operators, R priced rows (one operator of one candidate), U unique
rows, D shape columns, S silicon fields, P parameters, F kernel families,
K clocks, G operators of one physics model.
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
from perfatlas.kernels.tiers.bound import price_at_bound, resource_code
from perfatlas.kernels.tiers.matches import Matches
from perfatlas.measurements.calibrations import CalibrationMatch, kernel_families
from perfatlas.operators import with_fields
from perfatlas.pricing import choose, write
from perfatlas.quantities import InvalidSpecError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from perfatlas.kernels.devices import DeviceColumns
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
    return price_at_clocks(
        operators, devices, (1.0,), family=family, tier=tier, silicon_version=silicon_version
    )[0]


def price_at_clocks(
    operators: Sequence[Operator],
    devices: DeviceColumns,
    clock_ratios: Sequence[float],
    *,
    family: str,
    tier: Tier,
    silicon_version: str = "",
) -> tuple[PricedOperators, ...]:
    """Return the prices of all operators at several clocks; shapes are gathered once.

    Args:
        operators: As for `price_operators`.
        devices: Device and clock of each candidate.
        clock_ratios: Clocks relative to the clock of each candidate (K).
        family: As for `price_operators`.
        tier: As for `price_operators`.
        silicon_version: As for `price_operators`.

    Returns:
        One record per ratio (K).

    Raises:
        UnsupportedError: A device has no tensor cores for a format.
        MissingDependencyError: Tier measured is used without the measured tables.

    Limits: As for `price_operators`; kernels were measured only at the sustained clock.
    """
    version = silicon_version if tier == "measured" else None
    names: tuple[str, ...] = (family,)
    if not family and tier != "bound":
        names = kernel_families(device.name for device in devices.devices)
    priced_FK = [
        _price_family(operators, devices, clock_ratios, _Kernels(name, tier, version))
        for name in names
    ]
    if len(priced_FK) == 1:
        return tuple(priced_FK[0])
    return tuple(_fastest(priced_F) for priced_F in zip(*priced_FK, strict=True))


class _Kernels(NamedTuple):
    """Kernel family, tier, and engine version of the tables of tier measured."""

    family: str
    tier: Tier
    version: str | None


def _price_family(
    operators: Sequence[Operator],
    devices: DeviceColumns,
    clock_ratios: Sequence[float],
    kernels: _Kernels,
) -> list[PricedOperators]:
    """Return the prices of operators with the kernels of one engine, at each clock (K)."""
    prices_K = [price_at_bound(operators, devices.at_clock(ratio)) for ratio in clock_ratios]
    if kernels.tier == "bound":
        return prices_K
    catalog = Matches(devices, kernels.family, kernels.version)
    for name, (columns_O, formats_O) in _by_model(operators).items():
        chosen = [operators[position] for position in columns_O]
        match_GC = catalog.rows(name, chosen, formats_O)
        table = _gather(chosen, columns_O, match_GC, catalog, name)
        if table is None:
            continue
        first_U, inverse_R = unique_rows(table.key_RD)
        priced_K = _price(table, first_U, catalog, clock_ratios)
        for prices, priced in zip(prices_K, priced_K, strict=True):
            _write_physics(prices, table, priced, inverse_R)
            distinct_O = prices.distinct_O
            distinct_O += np.bincount(table.operator_R[first_U], minlength=distinct_O.size)
    return [
        with_fields(
            prices,
            low_s_CO=np.minimum(prices.low_s_CO, prices.time_s_CO),
            high_s_CO=np.maximum(prices.high_s_CO, prices.time_s_CO),
            matches=tuple(catalog.matches),
            rows_O=(prices.match_CO >= 0).sum(axis=0),
        )
        for prices in prices_K
    ]


def _write_physics(
    prices: PricedOperators, table: _Table, priced: _Prices, inverse_R: IntArray
) -> None:
    """Overwrite the bounds of the rows of one physics model with their prices."""
    at = (table.candidate_R, table.operator_R)
    bound_R = prices.bound_s_CO[at]
    time_R = np.maximum(priced.time_s_U[inverse_R], bound_R)
    # An interval below the bound contradicts it: the gap shows the error of the measurements,
    # not a narrow interval.
    high_R = time_R * priced.high_U[inverse_R]
    mirrored_R = time_R / priced.low_U[inverse_R]
    write(
        prices,
        at,
        time_s_CO=time_R,
        low_s_CO=np.maximum(time_R * priced.low_U[inverse_R], bound_R),
        high_s_CO=np.where(high_R < bound_R, mirrored_R, high_R),
        code_CO=resource_code(priced.code_U[inverse_R], prices.code_CO[at]),
        match_CO=table.match_R,
        measured_CO=priced.measured_U[inverse_R],
        outside_CO=priced.outside_U[inverse_R],
    )


def _fastest(priced: Sequence[PricedOperators]) -> PricedOperators:
    """Return the prices of the fastest kernel of each operator and candidate.

    Among equally fast kernels, one measured on the device itself is preferred, then the first. The
    fastest is no slower than any other, so its upper end is the minimum of theirs.
    """
    time_FCO = np.stack([p.time_s_CO for p in priced])
    own_FCO = np.stack([np.array([*(m.own for m in p.matches), False])[p.match_CO] for p in priced])
    fastest_FCO = time_FCO == time_FCO.min(axis=0)
    chosen = choose(priced, np.argmax(fastest_FCO * (1 + own_FCO), axis=0))
    return with_fields(chosen, high_s_CO=np.min([p.high_s_CO for p in priced], axis=0))


class _Prices(NamedTuple):
    """Times of distinct shapes, interval factors, and how measured rows apply to them."""

    time_s_U: FloatArray
    code_U: NDArray[np.int8]
    low_U: FloatArray
    high_U: FloatArray
    measured_U: NDArray[np.bool_]
    outside_U: FloatArray


def _price(
    table: _Table, first_U: IntArray, catalog: Matches, clock_ratios: Sequence[float]
) -> list[_Prices]:
    """Return the prices of distinct rows of a table in the tier of the catalog, at each clock."""
    key_UD = table.key_RD[first_U]
    shape_UD = table.shape(key_UD)
    match_U = table.match_R[first_U]
    low_U, high_U = catalog.spread()[match_U].T
    name, limits_M = table.operator_name, [match.limits for match in catalog.matches]
    outside_U = octaves_outside(name, shape_UD, match_U, limits_M)
    wider_U = np.exp(widening_per_octave().get(name, 0.0) * outside_U)
    low_U, high_U = low_U / wider_U, high_U * wider_U
    times_K = [table.physics(key_UD, shape_UD, ratio) for ratio in clock_ratios]
    if catalog.version is None:
        nowhere_U = np.zeros(first_U.shape, np.bool_)
        return [_Prices(*physics, low_U, high_U, nowhere_U, outside_U) for physics in times_K]
    from perfatlas.kernels.tiers.measured import (
        correct_rows,
        lacks_quantization,
        product_alone,
        with_quantization,
    )

    near = correct_rows(name, catalog.matches, shape_UD, match_U)
    alone_U = near.measured_U & lacks_quantization(name, catalog.matches, shape_UD, match_U)
    found = []
    for (time_s_U, code_U), ratio in zip(times_K, clock_ratios, strict=True):
        own = near
        if alone_U.any():
            whole_UD = with_quantization(key_UD)
            whole_s_U, _ = table.physics(whole_UD, table.shape(whole_UD), ratio)
            own = product_alone(near, alone_U, whole_s_U / time_s_U)
        found.append(
            _Prices(
                time_s_U=time_s_U * own.factor_U,
                code_U=code_U,
                low_U=np.where(own.measured_U, np.exp(own.low_U) / wider_U, low_U),
                high_U=np.where(own.measured_U, np.exp(own.high_U) * wider_U, high_U),
                measured_U=own.measured_U,
                outside_U=outside_U,
            )
        )
    return found


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
        self, key_UD: FloatArray, shape_UD: FloatArray, clock_ratio: float
    ) -> tuple[FloatArray, NDArray[np.int8]]:
        """Return the times of distinct keys with their shapes (U,) [s], and bound codes (U,)."""
        silicon_US = self.silicon_MS[key_UD[:, self.shape_width + 1].astype(np.int64)]
        clock_ratio_U = key_UD[:, self.shape_width + 2] * clock_ratio
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
