"""One face for the tiers: operators and devices in, time with its bound and evidence out.

Shape legend: C candidates, O operators, R priced rows (one operator of one candidate), U unique
rows, D shape columns, S silicon fields, P parameters.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from perfatlas.kernels.devices import CLOCK, PEAK, SiliconRows, unique_rows
from perfatlas.kernels.shapes import (
    PhysicsModel,
    StandIn,
    calibration_key,
    octaves_outside,
    physics_model,
    shape_columns,
    stand_in,
    widening_per_octave,
)
from perfatlas.kernels.tiers.bound import price_at_bound, resource_code
from perfatlas.kernels.tiers.measured import (
    correct_rows,
    lacks_quantization,
    product_alone,
    with_quantization,
    with_table,
)
from perfatlas.measurements.calibrations import (
    CalibrationMatch,
    find_calibration,
    kernel_families,
    lend,
)
from perfatlas.pricing import choose, write
from perfatlas.quantities import InvalidSpecError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from perfatlas.hardware import Device
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
    """Return the price of every operator on the device of every candidate.

    Args:
        operators: Columns over C candidates; collectives are not priced here.
        devices: Device and clock of each candidate.
        family: Kernel family of the engine; "" takes the fastest of all for each operator.
        tier: "bound", or "physics" and "auto": physics where the device (or its nearest
            relative) has a calibration for the operator, else bound; `match_CO` tells which.
            "measured": physics times what it misses on the nearest measured shapes, where there
            are any (`measured_CO`).
        silicon_version: Version of the engine whose tables tier measured reads; "" for those the
            calibrations were fitted on.

    Raises:
        UnsupportedError: A device cannot multiply in a format that is asked for.
        MissingDependencyError: Tier measured without the measured tables.

    Limits: prices a cold cache and back-to-back kernels of one graph.
    """
    version = silicon_version if tier == "measured" else None
    if family or tier == "bound":
        return _price_family(operators, devices, family, tier, version)
    return _fastest(
        [
            _price_family(operators, devices, name, tier, version)
            for name in kernel_families(device.name for device in devices.devices)
        ]
    )


def _price_family(
    operators: Sequence[Operator],
    devices: DeviceColumns,
    family: str,
    tier: Tier,
    version: str | None,
) -> PricedOperators:
    """Return what the operators cost with the kernels of one engine."""
    prices = price_at_bound(operators, devices)
    if tier == "bound":
        return prices
    catalog = _Matches(devices, family, version)
    for name, (columns_O, formats_O) in _by_model(operators).items():
        chosen = [operators[position] for position in columns_O]
        match_KC = catalog.rows(name, chosen, formats_O)
        table = _gather(chosen, columns_O, match_KC, catalog, name)
        if table is not None:
            _write_physics(prices, table, catalog)
    return replace(
        prices,
        low_s_CO=np.minimum(prices.low_s_CO, prices.time_s_CO),
        high_s_CO=np.maximum(prices.high_s_CO, prices.time_s_CO),
        matches=tuple(catalog.matches),
        rows_O=(prices.match_CO >= 0).sum(axis=0),
    )


def _write_physics(prices: PricedOperators, table: _Table, catalog: _Matches) -> None:
    """Write the prices of the rows of one physics model over their bounds."""
    first_U, inverse_R = unique_rows(table.key_RD)
    priced = _price(table, first_U, catalog)
    at = (table.candidate_R, table.operator_R)
    bound_R = prices.bound_s_CO[at]
    time_R = np.maximum(priced.time_s_U[inverse_R], bound_R)
    # Measurements that all lie below the bound contradict it: by how much tells how wrong
    # they are, not that the answer is sure.
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
    distinct_O = prices.distinct_O
    distinct_O += np.bincount(table.operator_R[first_U], minlength=distinct_O.size)


def _fastest(priced: Sequence[PricedOperators]) -> PricedOperators:
    """Return the fastest kernel of every operator of every candidate.

    Of equally fast kernels one measured on the device itself is taken, then the first. The fastest
    takes no longer than any of them: its slow end is the least of theirs.
    """
    time_FCO = np.stack([p.time_s_CO for p in priced])
    own_FCO = np.stack([np.array([*(m.own for m in p.matches), False])[p.match_CO] for p in priced])
    fastest_FCO = time_FCO == time_FCO.min(axis=0)
    chosen = choose(priced, np.argmax(fastest_FCO * (1 + own_FCO), axis=0))
    return replace(chosen, high_s_CO=np.min([p.high_s_CO for p in priced], axis=0))


class _Prices(NamedTuple):
    """Times of distinct shapes, factors to the ends of their intervals, what rows say of them."""

    time_s_U: FloatArray
    code_U: NDArray[np.int8]
    low_U: FloatArray
    high_U: FloatArray
    measured_U: NDArray[np.bool_]
    outside_U: FloatArray


def _price(table: _Table, first_U: IntArray, catalog: _Matches) -> _Prices:
    """Return the prices of distinct rows of a table in the tier of the catalog."""
    key_UD = table.key_RD[first_U]
    shape_UD, time_s_U, code_U = table.price(key_UD)
    match_U = table.match_R[first_U]
    low_U, high_U = catalog.spread()[match_U].T
    name, limits_M = table.operator_name, [match.limits for match in catalog.matches]
    outside_U = octaves_outside(name, shape_UD, match_U, limits_M)
    wider_U = np.exp(widening_per_octave().get(name, 0.0) * outside_U)
    low_U, high_U = low_U / wider_U, high_U * wider_U
    if catalog.version is None:
        nowhere_U = np.zeros(first_U.shape, np.bool_)
        return _Prices(time_s_U, code_U, low_U, high_U, nowhere_U, outside_U)
    near = correct_rows(name, catalog.matches, shape_UD, match_U)
    alone_U = near.measured_U & lacks_quantization(name, catalog.matches, shape_UD, match_U)
    if alone_U.any():
        whole_s_U = table.price(with_quantization(key_UD))[1]
        near = product_alone(near, alone_U, whole_s_U / time_s_U)
    return _Prices(
        time_s_U=time_s_U * near.factor_U,
        code_U=code_U,
        low_U=np.where(near.measured_U, np.exp(near.low_U) / wider_U, low_U),
        high_U=np.where(near.measured_U, np.exp(near.high_U) * wider_U, high_U),
        measured_U=near.measured_U,
        outside_U=outside_U,
    )


class _Matches:
    """Calibrations met so far, each looked up once per (device, operator, format)."""

    def __init__(self, devices: DeviceColumns, family: str, version: str | None) -> None:
        self.devices = devices
        self.family = family
        self.version = version  # of the tables of tier measured; None in the other tiers
        self.matches: list[CalibrationMatch] = []
        self._known: dict[tuple[str, tuple[str, ...], StandIn | None], IntArray] = {}

    def column(self, operator: str, formats: tuple[str, ...], lent: StandIn | None) -> IntArray:
        """Return the position of the best match of every candidate, -1 if there is none (C,)."""
        key = (operator, formats, lent)
        if key not in self._known:
            found = [self._find(device, *key) for device in self.devices.devices]
            self._known[key] = np.array(found, np.int64)[self.devices.index_C]
        return self._known[key]

    def rows(
        self, name: str, operators: Sequence[Operator], formats_K: Sequence[tuple[str, ...]]
    ) -> IntArray:
        """Return the positions of the matches of operators of one physics model (K, C)."""
        return np.stack(
            [
                self.column(name, formats, stand_in(operator))
                for operator, formats in zip(operators, formats_K, strict=True)
            ]
        )

    def _find(
        self, device: Device, operator: str, formats: tuple[str, ...], lent: StandIn | None
    ) -> int:
        family = lent.family if lent else self.family
        found = [find_calibration(device, operator, family, name) for name in formats]
        matches = [match for match in found if match is not None]
        if not matches:
            return -1
        chosen = next((m for m in matches if m.own), matches[0])
        if lent:
            chosen = lend(chosen, lent.note)
        self.matches.append(chosen if self.version is None else with_table(chosen, self.version))
        return len(self.matches) - 1

    def spread(self) -> FloatArray:
        """Return exp of the 5 % and 95 % residual quantiles of every match (M, 2)."""
        pairs = [(m.quantiles["q05"], m.quantiles["q95"]) for m in self.matches]
        spread: FloatArray = np.exp(np.array(pairs, dtype=np.float64))
        return spread


@dataclass(frozen=True, kw_only=True)
class _Table:
    """Rows of one physics model, ready to be made unique and priced."""

    operator_name: str
    key_RD: FloatArray  # shape columns, then match, silicon row and clock ratio
    shape_width: int
    silicon_MS: FloatArray
    parameters_MP: FloatArray
    match_R: IntArray
    candidate_R: IntArray
    operator_R: IntArray

    def price(self, key_UD: FloatArray) -> tuple[FloatArray, FloatArray, NDArray[np.int8]]:
        """Return shapes of distinct keys (U, D), their physics (U,) [s] and bound codes (U,)."""
        silicon_US = self.silicon_MS[key_UD[:, self.shape_width + 1].astype(np.int64)]
        clock_ratio_U = key_UD[:, self.shape_width + 2]
        silicon_US[:, PEAK] *= clock_ratio_U
        silicon_US[:, CLOCK] *= clock_ratio_U
        parameters_UP = self.parameters_MP[key_UD[:, self.shape_width].astype(np.int64)]
        shape_UD = np.ascontiguousarray(key_UD[:, : self.shape_width])
        model = physics_model(self.operator_name)
        return shape_UD, *model.physics(shape_UD, silicon_US, parameters_UP)


def _by_model(
    operators: Sequence[Operator],
) -> dict[str, tuple[list[int], list[tuple[str, ...]]]]:
    """Return positions and calibration formats of the operators of every physics model."""
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
    match_KC: IntArray,
    catalog: _Matches,
    name: str,
) -> _Table | None:
    """Stack the rows of the operators of one model that run and have a calibration."""
    model = physics_model(name)
    width = len(model.shape_names)
    devices = catalog.devices
    runs_KC = (np.stack([operator.count for operator in wanted]) > 0) & (match_KC >= 0)
    which_R, candidate_R = np.nonzero(runs_KC)
    if not which_R.size:
        return None
    key_KCD = np.empty((*match_KC.shape, width + 3))
    silicon = SiliconRows(devices.devices)
    for place, operator in enumerate(wanted):
        columns = shape_columns(operator)
        for column, shape_name in enumerate(model.shape_names):
            key_KCD[place, :, column] = columns[shape_name]
        key_KCD[place, :, width + 1] = silicon.first(operator.compute_format) + devices.index_C
    key_KCD[:, :, width] = match_KC
    key_KCD[:, :, width + 2] = devices.clock_ratio()
    key_RD = key_KCD[which_R, candidate_R]
    parameters = [_parameters(match, name, model) for match in catalog.matches]
    return _Table(
        operator_name=name,
        key_RD=key_RD,
        shape_width=width,
        silicon_MS=np.array(silicon.rows),
        parameters_MP=np.array(parameters, dtype=np.float64),
        match_R=match_KC[which_R, candidate_R],
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
            f" {', '.join(missing)}; renew it with `{match.calibration.command}`"
        )
    return [fitted[p] for p in model.parameter_names]
