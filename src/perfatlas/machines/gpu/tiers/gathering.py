"""Rows of one physics model, gathered once and priced at several clocks.

Shape legend: C candidates, R priced rows (one operator of one candidate), U unique rows, X some
of them, D shape columns, S silicon fields, P parameters, M matches, G operators of one physics
model.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from perfatlas.machines.gpu.devices import CLOCK, PEAK, SiliconRows
from perfatlas.machines.gpu.shapes import (
    PhysicsModel,
    octaves_outside,
    physics_model,
    shape_columns,
    widening_per_octave,
)
from perfatlas.operators import unique_rows
from perfatlas.quantities import InvalidSpecError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from perfatlas.machines.gpu.tiers.matches import Matches
    from perfatlas.measurements.calibrations import CalibrationMatch
    from perfatlas.measurements.residuals import Correction
    from perfatlas.operators import FloatArray, IntArray, Operator


class RowPrices(NamedTuple):
    """Times of shapes at their clocks, and interval factors."""

    time_s_U: FloatArray
    code_U: NDArray[np.int8]
    low_U: FloatArray
    high_U: FloatArray


@dataclass(frozen=True, kw_only=True)
class ModelRows:
    """Rows of one physics model, and what does not depend on the clock."""

    table: RowTable  # The rows (R)
    first_U: IntArray  # First row of each distinct shape
    inverse_R: IntArray  # Distinct shape of each row
    key_UD: FloatArray  # Keys of the distinct shapes
    shape_UD: FloatArray  # Shape columns of the distinct shapes
    low_U: FloatArray  # Lower interval factor
    high_U: FloatArray  # Upper interval factor
    outside_U: FloatArray  # Distance from the calibrated shapes [octaves]
    near: Correction | None  # Corrections by measured rows, None in tier physics
    alone_U: NDArray[np.bool_]  # Where only the product of a measured sum is priced

    def prices(self, place_X: IntArray, ratio_X: FloatArray) -> RowPrices:
        """Return the prices of distinct shapes at clocks.

        Args:
            place_X: Positions of the shapes (X,).
            ratio_X: Clock relative to the clock of the candidate (X,).
        """
        # np.take copies rows in a third of the time of an index
        key_XD, shape_XD = (
            np.take(column, place_X, axis=0) for column in (self.key_UD, self.shape_UD)
        )
        low_X, high_X = np.take(self.low_U, place_X), np.take(self.high_U, place_X)
        time_s_X, code_X = self.table.physics(key_XD, shape_XD, ratio_X)
        if self.near is None:
            return RowPrices(time_s_X, code_X, low_X, high_X)
        own = self.near._replace(
            **{name: values[place_X] for name, values in self.near._asdict().items()}
        )
        alone_X = self.alone_U[place_X]
        if alone_X.any():
            from perfatlas.machines.gpu.tiers.measured import product_alone, with_quantization

            whole_XD = with_quantization(key_XD)
            whole_s_X, _ = self.table.physics(whole_XD, self.table.shape(whole_XD), ratio_X)
            own = product_alone(own, alone_X, whole_s_X / time_s_X)
        wider_X = self._wider(place_X)
        return RowPrices(
            time_s_X * own.factor_U,
            code_X,
            np.where(own.measured_U, np.exp(own.low_U) / wider_X, low_X),
            np.where(own.measured_U, np.exp(own.high_U) * wider_X, high_X),
        )

    def take(self, some_X: IntArray, candidates: int) -> ModelRows:
        """Return the rows of some candidates; the distinct shapes stay all of them.

        Args:
            some_X: Positions of the candidates (X,).
        """
        place_C = np.full(candidates, -1)
        place_C[some_X] = np.arange(some_X.size)
        kept_R = place_C[self.table.candidate_R] >= 0
        table = replace(
            self.table,
            match_R=self.table.match_R[kept_R],
            candidate_R=place_C[self.table.candidate_R[kept_R]],
            operator_R=self.table.operator_R[kept_R],
        )
        return replace(self, table=table, inverse_R=self.inverse_R[kept_R])

    def _wider(self, place_X: IntArray) -> FloatArray:
        return _widening(self.table.operator_name, self.outside_U[place_X])


def _widening(name: str, outside_U: FloatArray) -> FloatArray:
    """Return the factor by which intervals widen outside the calibrated shapes (U,)."""
    wider_U: FloatArray = np.exp(widening_per_octave().get(name, 0.0) * outside_U)
    return wider_U


def model_rows(table: RowTable, catalog: Matches) -> ModelRows:
    """Return the distinct rows of a table, and what does not depend on the clock.

    Args:
        catalog: Calibrations of the operators.
    """
    first_U, inverse_R = unique_rows(np.take(table.key_RD, table.varying, axis=1))
    key_UD, match_U = table.key_RD[first_U], table.match_R[first_U]
    shape_UD = table.shape(key_UD)
    name, limits_M = table.operator_name, [match.limits for match in catalog.matches]
    low_U, high_U = catalog.spread()[match_U].T
    outside_U = octaves_outside(name, shape_UD, match_U, limits_M)
    wider_U = _widening(name, outside_U)
    near, alone_U = None, np.zeros(first_U.shape, np.bool_)
    if catalog.version is not None:
        from perfatlas.machines.gpu.tiers.measured import correct_rows, lacks_quantization

        near = correct_rows(name, catalog.matches, shape_UD, match_U)
        lacks_U = lacks_quantization(name, catalog.matches, shape_UD, match_U)
        alone_U = near.measured_U & lacks_U
    return ModelRows(
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
class RowTable:
    """Rows of one physics model, before they are made unique and priced."""

    operator_name: str
    key_RD: FloatArray  # shape columns, then match, silicon row and clock ratio
    varying: tuple[int, ...]  # columns of the key in which rows may differ
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
        place_U = key_UD[:, self.shape_width + 1].astype(np.int64)
        silicon_US = np.take(self.silicon_MS, place_U, axis=0)
        clock_ratio_U = key_UD[:, self.shape_width + 2] * ratio_U
        silicon_US[:, PEAK] *= clock_ratio_U
        silicon_US[:, CLOCK] *= clock_ratio_U
        match_U = key_UD[:, self.shape_width].astype(np.int64)
        parameters_UP = np.take(self.parameters_MP, match_U, axis=0)
        model = physics_model(self.operator_name)
        return model.physics(shape_UD, silicon_US, parameters_UP)


def gather_rows(
    wanted: Sequence[Operator],
    columns_O: list[int],
    match_GC: IntArray,
    catalog: Matches,
    name: str,
) -> RowTable | None:
    """Return the rows of the operators of one model that are executed and calibrated, if any.

    Args:
        wanted: Operators of the model (G).
        columns_O: Their positions among all operators.
        match_GC: Calibration of each operator of each candidate, -1 for none.
    """
    model = physics_model(name)
    width = len(model.shape_names)
    devices = catalog.devices
    runs_GC = match_GC >= 0
    for index, operator in enumerate(wanted):
        runs_GC[index] &= operator.count > 0
    which_R, candidate_R = np.nonzero(runs_GC)
    if not which_R.size:
        return None
    key_GCD = np.empty((*match_GC.shape, width + 3))
    silicon = SiliconRows(devices.devices)
    columns_G = [shape_columns(operator) for operator in wanted]
    for position, operator in enumerate(wanted):
        for column, shape_name in enumerate(model.shape_names):
            key_GCD[position, :, column] = columns_G[position][shape_name]
        key_GCD[position, :, width + 1] = silicon.first(operator.compute_format) + devices.index_C
    key_GCD[:, :, width] = match_GC
    key_GCD[:, :, width + 2] = devices.clock_ratio()
    everywhere = which_R.size == runs_GC.size
    key_RD = key_GCD.reshape(-1, width + 3) if everywhere else key_GCD[which_R, candidate_R]
    varying = [
        column
        for column, shape_name in enumerate(model.shape_names)
        if not _constant([columns[shape_name] for columns in columns_G])
    ]
    varying += range(width, width + (2 if devices.clock_ratio_C is None else 3))
    parameters = [_parameters(match, name, model) for match in catalog.matches]
    return RowTable(
        operator_name=name,
        key_RD=key_RD,
        varying=tuple(varying),
        shape_width=width,
        silicon_MS=np.array(silicon.rows),
        parameters_MP=np.array(parameters, dtype=np.float64),
        match_R=match_GC[runs_GC],
        candidate_R=candidate_R,
        operator_R=np.array(columns_O)[which_R],
    )


def _constant(values: Sequence[FloatArray | float]) -> bool:
    """Return whether a shape column is one number in all operators."""
    return all(np.ndim(value) == 0 and value == values[0] for value in values)


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
