"""One face for the tiers: operators and devices in, time with its bound and evidence out.

Shape legend: C candidates, O operators, R priced rows (one operator of one candidate), U unique
rows, D shape columns, S silicon fields, P parameters.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from perfatlas.kernels.bound import bound_time
from perfatlas.kernels.shapes import (
    PhysicsModel,
    calibration_key,
    physics_model,
    shape_columns,
)
from perfatlas.kernels.silicon import CLOCK, NUM_SILICON, PEAK, silicon_row
from perfatlas.kernels.unique import unique_rows
from perfatlas.measurements import CalibrationMatch, find_calibration
from perfatlas.quantities import InvalidSpecError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from perfatlas.kernels.devices import DeviceColumns
    from perfatlas.operators import FloatArray, IntArray, Operator

Tier = Literal["auto", "bound", "physics"]


@dataclass(frozen=True, kw_only=True)
class PricedOperators:
    """What operators cost, one execution each.

    Args:
        time_s_CO: Predicted time (C, O) [s].
        low_s_CO: 5 % quantile (C, O) [s].
        high_s_CO: 95 % quantile (C, O) [s].
        bound_s_CO: Least possible time (C, O) [s].
        code_CO: Which resource sets the time, a code of `BOUND_NAMES` (C, O).
        match_CO: Position in `matches` of the calibration used, -1 in tier bound (C, O).
        matches: Calibrations used, each once.
        rows: Rows priced by physics.
        distinct: Distinct shapes among them.
    """

    time_s_CO: FloatArray
    low_s_CO: FloatArray
    high_s_CO: FloatArray
    bound_s_CO: FloatArray
    code_CO: NDArray[np.int8]
    match_CO: IntArray
    matches: tuple[CalibrationMatch, ...]
    rows: int
    distinct: int


def price_operators(
    operators: Sequence[Operator], devices: DeviceColumns, *, family: str, tier: Tier
) -> PricedOperators:
    """Return the price of every operator on the device of every candidate.

    Args:
        operators: Columns over C candidates; collectives are not priced here.
        devices: Device and clock of each candidate.
        family: Kernel family of the engine; "" takes the best the device has.
        tier: "bound", or "physics" and "auto": physics where the device (or its nearest
            relative) has a calibration for the operator, else bound; `match_CO` tells which.

    Raises:
        UnsupportedError: A device cannot multiply in a format that is asked for.

    Limits: prices a cold cache and back-to-back kernels of one graph.
    """
    bounds = [bound_time(operator, devices) for operator in operators]
    bound_CO = np.stack([b.time_s_C for b in bounds], axis=1)
    code_CO = np.stack([b.code_C for b in bounds], axis=1)
    match_CO = np.full(bound_CO.shape, -1, np.int64)
    time_CO, low_CO, high_CO = bound_CO.copy(), bound_CO.copy(), bound_CO.copy()
    catalog = _Matches(devices, family)
    rows = distinct = 0
    if tier != "bound":
        for name, columns_O in _by_model(operators).items():
            table = _gather(operators, columns_O, devices, catalog, name)
            if table is None:
                continue
            first_U, inverse_R = unique_rows(table.key_RD)
            time_U, code_U = table.price(first_U)
            at = (table.candidate_R, table.operator_R)
            match = table.match_R
            time_R = np.maximum(time_U[inverse_R], bound_CO[at])
            time_CO[at], code_CO[at], match_CO[at] = time_R, code_U[inverse_R], match
            spread = catalog.spread()
            low_CO[at] = np.maximum(time_R * spread[match, 0], bound_CO[at])
            high_CO[at] = time_R * spread[match, 1]
            rows += inverse_R.size
            distinct += first_U.size
    return PricedOperators(
        time_s_CO=time_CO,
        low_s_CO=np.minimum(low_CO, time_CO),
        high_s_CO=np.maximum(high_CO, time_CO),
        bound_s_CO=bound_CO,
        code_CO=code_CO,
        match_CO=match_CO,
        matches=tuple(catalog.matches),
        rows=rows,
        distinct=distinct,
    )


class _Matches:
    """Calibrations met so far, each looked up once per (device, operator, format)."""

    def __init__(self, devices: DeviceColumns, family: str) -> None:
        self.devices = devices
        self.family = family
        self.matches: list[CalibrationMatch] = []
        self._known: dict[tuple[int, str, tuple[str, ...]], int] = {}

    def find_all(self, operator: Operator) -> IntArray:
        """Return the position of the best calibration on every device, -1 if none (D,)."""
        name, formats = calibration_key(operator) or ("", ())
        found = [self.find(d, name, formats) for d in range(len(self.devices.devices))]
        return np.array(found, np.int64)

    def find(self, device: int, operator: str, formats: tuple[str, ...]) -> int:
        """Return the position of the best calibration, -1 if there is none."""
        key = (device, operator, formats)
        if key not in self._known:
            asked = self.devices.devices[device]
            found = [find_calibration(asked, operator, self.family, name) for name in formats]
            matches = [match for match in found if match is not None]
            best = next((m for m in matches if not m.notes), matches[0] if matches else None)
            self._known[key] = -1 if best is None else len(self.matches)
            if best is not None:
                self.matches.append(best)
        return self._known[key]

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

    def price(self, first_U: IntArray) -> tuple[FloatArray, NDArray[np.int8]]:
        key_UD = self.key_RD[first_U]
        silicon_US = self.silicon_MS[key_UD[:, self.shape_width + 1].astype(np.int64)]
        clock_ratio_U = key_UD[:, self.shape_width + 2]
        silicon_US[:, PEAK] *= clock_ratio_U
        silicon_US[:, CLOCK] *= clock_ratio_U
        parameters_UP = self.parameters_MP[key_UD[:, self.shape_width].astype(np.int64)]
        shape_UD = np.ascontiguousarray(key_UD[:, : self.shape_width])
        return physics_model(self.operator_name).physics(shape_UD, silicon_US, parameters_UP)


def _by_model(operators: Sequence[Operator]) -> dict[str, list[int]]:
    groups: dict[str, list[int]] = {}
    for position, operator in enumerate(operators):
        key = calibration_key(operator)
        if key is not None:
            groups.setdefault(key[0], []).append(position)
    return groups


def _gather(
    operators: Sequence[Operator],
    columns_O: list[int],
    devices: DeviceColumns,
    catalog: _Matches,
    name: str,
) -> _Table | None:
    """Stack the rows of the operators of one model that run and have a calibration."""
    model = physics_model(name)
    silicon: list[FloatArray] = []
    blocks: list[FloatArray] = []
    where: list[tuple[IntArray, IntArray]] = []
    for position in columns_O:
        operator = operators[position]
        match_D = catalog.find_all(operator)
        block = np.empty((devices.index_C.shape[0], len(model.shape_names) + 3))
        columns = shape_columns(operator)
        for column, shape_name in enumerate(model.shape_names):
            block[:, column] = columns[shape_name]
        block[:, -3] = match_D[devices.index_C]
        block[:, -2] = len(silicon) + devices.index_C
        block[:, -1] = devices.clock_ratio()
        silicon += _silicon_rows(operator, devices, match_D)
        runs = np.flatnonzero((operator.count > 0) & (block[:, -3] >= 0))
        blocks.append(block[runs])
        where.append((runs, np.full(runs.size, position, np.int64)))
    key_RD = np.concatenate(blocks)
    if not key_RD.size:
        return None
    width = len(model.shape_names)
    # Equal silicon rows must not make equal shapes look distinct.
    silicon_MS, same = np.unique(np.array(silicon), axis=0, return_inverse=True)
    key_RD[:, width + 1] = same.reshape(-1)[key_RD[:, width + 1].astype(np.int64)]
    parameters = [_parameters(match, name, model) for match in catalog.matches]
    return _Table(
        operator_name=name,
        key_RD=key_RD,
        shape_width=width,
        silicon_MS=silicon_MS,
        parameters_MP=np.array(parameters, dtype=np.float64),
        match_R=key_RD[:, width].astype(np.int64),
        candidate_R=np.concatenate([w[0] for w in where]),
        operator_R=np.concatenate([w[1] for w in where]),
    )


def _silicon_rows(
    operator: Operator, devices: DeviceColumns, match_D: IntArray
) -> list[FloatArray]:
    """Return the silicon columns of every device, zeros where the operator has no physics."""
    return [
        silicon_row(device, operator.compute_format) if match >= 0 else np.zeros(NUM_SILICON)
        for device, match in zip(devices.devices, match_D.tolist(), strict=True)
    ]


def _parameters(match: CalibrationMatch, name: str, model: PhysicsModel) -> list[float]:
    """Return the parameters of a calibration in the order of its model; zeros for other models."""
    if match.calibration.operator != name:
        return [0.0] * len(model.parameter_names)
    fitted = match.calibration.parameters
    missing = [p for p in model.parameter_names if p not in fitted]
    if missing:
        raise InvalidSpecError(
            f"calibration {match.calibration.id} was fitted for an older model: it lacks"
            f" {', '.join(missing)}; renew it with `{match.calibration.command}`"
        )
    return [fitted[p] for p in model.parameter_names]
