"""Rows of one physics model, gathered once and priced at several clocks.

Shape legend: C candidates, R priced rows (one operator of one candidate), U unique rows, X some
of them, D shape columns, S silicon rows and fields, P parameters, M matches, G operators of one
physics model.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from perfatlas.machines.gpu import shapes
from perfatlas.machines.gpu.devices import SiliconRows, at_clock
from perfatlas.measurements import calibrations
from perfatlas.operators import unique_rows
from perfatlas.quantities import InvalidSpecError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from perfatlas.hardware import Device
    from perfatlas.machines.contract import DeviceColumns
    from perfatlas.machines.gpu.declarations import KernelTime, StandIn
    from perfatlas.measurements.residuals import Correction
    from perfatlas.operators import FloatArray, IntArray, Operator

_PRODUCTS: Final = ("gemm", "moe")


class Matches:
    """Calibrations in use, each looked up once per (device, operator, format)."""

    def __init__(self, devices: DeviceColumns, family: str, version: str | None) -> None:
        """Start without matches."""
        self.devices = devices
        self.family = family
        self.version = version  # version of the tables of tier measured; None in the other tiers
        self.matches: list[calibrations.CalibrationMatch] = []
        self._stamps = {
            device.name: calibrations.user_file_stamp(device.name) for device in devices.devices
        }
        self._known: dict[tuple[str, tuple[str, ...], StandIn | None, str], IntArray] = {}

    def column(
        self, operator: str, formats: tuple[str, ...], lent: StandIn | None, ending: str = ""
    ) -> IntArray:
        """Return the position of the best match of every candidate, -1 if there is none (C,).

        `ending` is that of the family, of which no other family stands for the kernels.
        """
        key = (operator, formats, lent, ending)
        if key not in self._known:
            indexes = [self._find(device, *key) for device in self.devices.devices]
            self._known[key] = np.array(indexes, np.int64)[self.devices.index_C]
        return self._known[key]

    def rows(
        self, name: str, operators: Sequence[Operator], formats_G: Sequence[tuple[str, ...]]
    ) -> IntArray:
        """Return the positions of the matches of operators of one physics model (G, C)."""
        rows_GC = np.empty((len(operators), self.devices.index_C.size), np.int64)
        for index, (operator, formats) in enumerate(zip(operators, formats_G, strict=True)):
            rows_GC[index] = self.column(name, formats, shapes.stand_in(operator))
            ending, some_C = shapes.apart(operator) or ("", np.False_)
            if some_C.any() and calibrations.release_calibrations(self.family + ending):
                apart_C = self.column(name, formats, None, ending)
                rows_GC[index] = np.where(some_C & (apart_C >= 0), apart_C, rows_GC[index])
        return rows_GC

    def _find(
        self,
        device: Device,
        operator: str,
        formats: tuple[str, ...],
        lent: StandIn | None,
        ending: str,
    ) -> int:
        family = ((lent and lent.family) or self.family) + ending
        stamp = self._stamps[device.name]
        if operator == calibrations.LIBRARY:
            candidates = [calibrations.library_match(device, name) for name in formats]
        else:
            candidates = [
                calibrations.find_calibration_at(device, (operator, family, name), stamp)
                for name in formats
            ]
        matches = [m for m in candidates if m and m.calibration.family.endswith(ending)]
        if not matches:
            return -1
        chosen = next((m for m in matches if m.own_kernels), matches[0])
        if lent:
            chosen = calibrations.as_substitute(chosen, lent.note)
        if operator in _PRODUCTS and chosen.calibration.format != formats[0]:
            note = (
                f"{device.name} has no measured {operator} {formats[0]} kernels; those of"
                f" {chosen.calibration.format}, which expand 4-bit weights too, are used"
            )
            chosen = calibrations.as_substitute(chosen, note)
        if self.version is not None:
            from perfatlas.machines.gpu.tiers import measured  # reads tables

            chosen = measured.with_table(chosen, self.version)
        self.matches.append(chosen)
        return len(self.matches) - 1

    def spread(self) -> FloatArray:
        """Return exp of the 5% and 95% residual quantiles of each match (M, 2)."""
        pairs = [(m.quantiles["q05"], m.quantiles["q95"]) for m in self.matches]
        spread: FloatArray = np.exp(np.array(pairs, dtype=np.float64))
        return spread


class RowPrices(NamedTuple):
    """Times of shapes at their clocks, and interval factors."""

    time_s_U: FloatArray
    code_U: NDArray[np.int8]
    low_U: FloatArray
    high_U: FloatArray


@dataclass(frozen=True, kw_only=True)
class ModelRows:
    """Rows of one physics model, and of their distinct shapes what does not depend on the clock."""

    name: str  # Calibration operator
    match_R: IntArray  # Calibration of each row
    candidate_R: IntArray
    operator_R: IntArray
    first_U: IntArray  # First row of each distinct shape
    inverse_R: IntArray  # Distinct shape of each row
    shape_UD: FloatArray  # Shape columns of the distinct shapes
    match_U: IntArray  # Their calibrations
    silicon_U: IntArray  # Their rows of `silicon_SS`
    clock_U: FloatArray  # Their clocks relative to the device's default clock
    silicon_SS: FloatArray  # Silicon of devices (S, S)
    parameters_MP: FloatArray  # Parameters of calibrations
    low_U: FloatArray  # Lower interval factor
    high_U: FloatArray  # Upper interval factor
    outside_U: FloatArray  # Distance from the calibrated shapes [octaves]
    near: Correction | None  # Corrections by measured rows, None in tier physics
    alone_U: NDArray[np.bool_]  # Where only the product of a measured sum is priced

    def prices(self, place_X: IntArray, ratio_X: FloatArray) -> RowPrices:
        """Return the prices of distinct shapes at clocks.

        `place_X` are positions of the shapes, `ratio_X` clocks relative to that of the candidate.
        """
        model = shapes.physics_model(self.name)
        # np.take copies rows in a third of the time of an index
        shape_XD = np.take(self.shape_UD, place_X, axis=0)
        silicon_XS = np.take(self.silicon_SS, np.take(self.silicon_U, place_X), axis=0)
        silicon_XS = at_clock(silicon_XS, np.take(self.clock_U, place_X) * ratio_X)
        parameters_XP = np.take(self.parameters_MP, np.take(self.match_U, place_X), axis=0)
        time_s_X, code_X = model(shape_XD, silicon_XS, parameters_XP)
        low_X, high_X = np.take(self.low_U, place_X), np.take(self.high_U, place_X)
        if self.near is None:
            return RowPrices(time_s_X, code_X, low_X, high_X)
        corrected = self.near._replace(
            **{name: values[place_X] for name, values in self.near._asdict().items()}
        )
        alone_X = self.alone_U[place_X]
        if alone_X.any():
            from perfatlas.machines.gpu.tiers import measured

            whole_XD = measured.with_quantization(shape_XD)
            whole_s_X, _ = model(whole_XD, silicon_XS, parameters_XP)
            corrected = measured.product_alone(corrected, alone_X, whole_s_X / time_s_X)
        wider_X = _widening(self.name, self.outside_U[place_X])
        return RowPrices(
            time_s_X * corrected.factor_U,
            code_X,
            np.where(corrected.measured_U, np.exp(corrected.low_U) / wider_X, low_X),
            np.where(corrected.measured_U, np.exp(corrected.high_U) * wider_X, high_X),
        )

    def take(self, some_X: IntArray, candidates: int) -> ModelRows:
        """Return the rows of some candidates (X,); the distinct shapes stay all of them."""
        place_C = np.full(candidates, -1)
        place_C[some_X] = np.arange(some_X.size)
        kept_R = place_C[self.candidate_R] >= 0
        return replace(
            self,
            match_R=self.match_R[kept_R],
            candidate_R=place_C[self.candidate_R[kept_R]],
            operator_R=self.operator_R[kept_R],
            inverse_R=self.inverse_R[kept_R],
        )


def _widening(name: str, outside_U: FloatArray) -> FloatArray:
    """Return the factor by which intervals widen outside the calibrated shapes (U,)."""
    wider_U: FloatArray = np.exp(shapes.widening_per_octave().get(name, 0.0) * outside_U)
    return wider_U


def gather_rows(
    name: str,
    wanted: Sequence[Operator],
    position_G: list[int],
    match_GC: IntArray,
    catalog: Matches,
) -> ModelRows | None:
    """Return the rows of the operators of one model that are executed and calibrated, if any."""
    model, devices = shapes.physics_model(name), catalog.devices
    runs_GC = match_GC >= 0
    for index, operator in enumerate(wanted):
        runs_GC[index] &= operator.count > 0
    which_R, candidate_R = np.nonzero(runs_GC)
    if not which_R.size:
        return None
    silicon = SiliconRows(devices.devices)
    columns_G = [shapes.shape_columns(operator) for operator in wanted]
    match_R, shape_R = match_GC[runs_GC], {}
    for shape_name in model.shape_names:
        column_GC = np.empty(match_GC.shape)
        for column_C, columns in zip(column_GC, columns_G, strict=True):
            column_C[:] = columns[shape_name]
        shape_R[shape_name] = column_GC[runs_GC]
    first_G = np.array([silicon.first(operator.compute_format) for operator in wanted])
    silicon_R = first_G[which_R] + devices.index_C[candidate_R]
    clock_R = devices.clock_ratio()[candidate_R]
    # Columns in which rows may differ
    key: list[NDArray[Any]] = [
        column_R
        for shape_name, column_R in shape_R.items()
        if not _constant([columns[shape_name] for columns in columns_G])
    ]
    key += [match_R, silicon_R, *([] if devices.clock_ratio_C is None else [clock_R])]
    first_U, inverse_R = unique_rows(key)
    shape_UD = np.stack([column_R[first_U] for column_R in shape_R.values()], axis=1)
    match_U = match_R[first_U]
    limits_M = [match.limits for match in catalog.matches]
    low_U, high_U = catalog.spread()[match_U].T
    outside_U = shapes.octaves_outside(name, shape_UD, match_U, limits_M)
    wider_U = _widening(name, outside_U)
    near, alone_U = None, np.zeros(first_U.shape, np.bool_)
    if catalog.version is not None:
        from perfatlas.machines.gpu.tiers import measured

        near = measured.correct_rows(name, catalog.matches, shape_UD, match_U)
        lacks_U = measured.lacks_quantization(name, catalog.matches, shape_UD, match_U)
        alone_U = near.measured_U & lacks_U
    return ModelRows(
        name=name,
        match_R=match_R,
        candidate_R=candidate_R,
        operator_R=np.array(position_G)[which_R],
        first_U=first_U,
        inverse_R=inverse_R,
        shape_UD=shape_UD,
        match_U=match_U,
        silicon_U=silicon_R[first_U],
        clock_U=clock_R[first_U],
        silicon_SS=np.array(silicon.rows),
        parameters_MP=np.array([_parameters(match, name, model) for match in catalog.matches]),
        low_U=low_U / wider_U,
        high_U=high_U * wider_U,
        outside_U=outside_U,
        near=near,
        alone_U=alone_U,
    )


def _constant(values: Sequence[FloatArray | float]) -> bool:
    """Return whether a shape column is one number in all operators."""
    return all(np.ndim(value) == 0 and value == values[0] for value in values)


def _parameters(match: calibrations.CalibrationMatch, name: str, model: KernelTime) -> list[float]:
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
