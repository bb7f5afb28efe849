"""Tier `measured`: physics corrected by its residuals on the nearest measured shapes.

A measured row yields the ratio of its time to the physics of its own protocol (hot or cold caches,
weight copies, quantization included). The answer is the cold physics of the query times that
ratio. For a shape that was measured cold, it is the measured time.

Shape legend: U unique shapes, R measured rows, D shape columns, S silicon fields, P parameters,
M matches.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.hardware import resolve_system
from perfatlas.machines.gpu import shapes
from perfatlas.machines.gpu.devices import silicon_row
from perfatlas.measurements.calibrations import base_family
from perfatlas.measurements.residuals import (
    Correction,
    cached_residuals,
    holds_quantization,
    producers_hash,
    residuals as near,
    with_rows_of,
)
from perfatlas.measurements.tables import (
    TABLES,
    measured_device,
    other_card,
    table_rows,
)
from perfatlas.quantities import UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from perfatlas.machines.gpu.devices import SiliconRow
    from perfatlas.measurements.calibrations import CalibrationMatch
    from perfatlas.measurements.residuals import Residuals
    from perfatlas.operators import FloatArray, IntArray

MIN_ROWS: Final = 100  # minimum rows to determine how residuals decay with distance
# Columns that are extrapolated beyond their measured range; others are fixed by model or plan.
SIZES: Final = ("m", "n", "k", "tokens", "batch", "q_len", "kv_len", "queries")


def correct(residuals: Residuals, operator: str, shape_UD: FloatArray) -> Correction:
    """Return the corrections of the physics times of shapes."""
    # One octave along each coordinate, 0 where not extrapolated
    octaves = [
        axis.weight if not axis.linear and any(name in SIZES for name in axis.times) else 0.0
        for axis in shapes.AXES[operator]
    ]
    return near.correct(residuals, shapes.coordinates(operator, shape_UD), np.array(octaves))


def residuals_by_distance(operator: str, shape_RD: FloatArray, residual_R: FloatArray) -> Residuals:
    """Return residuals with error growth by distance, from held-out rows and groups."""
    names = shapes.physics_model(operator).shape_names
    columns = [names.index(name) for name in shapes.kernel_shapes()[operator].groups]
    groups_R = near.number_groups(shape_RD[:, columns])
    return near.residuals_by_distance(shapes.coordinates(operator, shape_RD), residual_R, groups_R)


def no_residuals(operator: str) -> Residuals:
    """Return the residuals of a cell without rows, for which physics is not corrected."""
    return near.no_residuals(len(shapes.AXES[operator]))


def with_table(match: CalibrationMatch, version: str) -> CalibrationMatch:
    """Return a match with the table whose rows correct it, or with a note why there is none.

    `version` is that of the engine, "" for the version the calibration was fitted on.
    """
    cell = match.calibration
    if cell.operator not in TABLES:
        return match
    if match.own and other_card(cell.device):
        why = f"its rows were measured on a card with {other_card(cell.device)}"
        return replace(match, notes=(*match.notes, f"{cell.id} uses tier physics: {why}"))
    folder, name = TABLES[cell.operator]
    family = base_family(cell.family)
    chosen = version or (cell.data_version if family != cell.family else "")
    return with_rows_of(match, (folder, family, name), chosen)


def residuals_of(match: CalibrationMatch) -> Residuals:
    """Return the residuals of a match's table, from the user's cache or computed."""
    cell = match.calibration
    parameters = tuple(
        cell.parameters[n] for n in shapes.physics_model(cell.operator).parameter_names
    )
    return _residuals(
        (cell.device, cell.operator, cell.family, cell.format), match.table, parameters
    )


@lru_cache(maxsize=64)
def _residuals(
    cell: tuple[str, str, str, str], table: tuple[str, str], parameters: tuple[float, ...]
) -> Residuals:
    device, operator, _, format_name = cell
    product = format_name.partition("+")[0]
    silicon = silicon_row(measured_device(device), "fp8_static" if product == "fp8" else product)
    stated = (cell, table, parameters, tuple(silicon), producers(operator))
    return cached_residuals(
        repr(stated), lambda: fit_residuals(cell, table[0], silicon, parameters)
    )


@cache
def producers(operator: str) -> str:
    """Return a digest of the code and device values that residuals depend on."""
    time_s = shapes.physics_model(operator)
    columns = (time_s.shape, time_s.parameters)
    return producers_hash(fit_residuals, time_s, *columns, by_value=(resolve_system,))


def fit_residuals(
    cell: tuple[str, str, str, str],
    version: str,
    silicon: SiliconRow,
    parameters: tuple[float, ...],
) -> Residuals:
    """Return the residuals of the measured rows of a cell and their decay with distance.

    `cell` names device, operator, engine and format; `parameters` are in the order of its physics.
    """
    operator = cell[1]
    try:
        rows = table_rows(*cell, version)
    except UnsupportedError:
        # A version may have measured only other formats; its rows correct nothing here.
        return no_residuals(operator)
    if rows.measured_s.size < MIN_ROWS:
        return no_residuals(operator)
    shape_RD = rows.shape_table(shapes.physics_model(operator).shape_names)
    physics_s = physics_of(operator, shape_RD, silicon, parameters)
    return residuals_by_distance(operator, shape_RD, np.log(rows.measured_s / physics_s))


def physics_of(
    operator: str, shape_RD: FloatArray, silicon: SiliconRow, parameters: Sequence[float]
) -> FloatArray:
    """Return the physics times of shapes on one device with one parameter set (R,) [s]."""
    tables = [np.tile(np.array(row), (shape_RD.shape[0], 1)) for row in (silicon, parameters)]
    time_s_R, _ = shapes.physics_model(operator)(shape_RD, *tables)
    return time_s_R


def correct_rows(
    operator: str,
    matches: Sequence[CalibrationMatch],
    shape_UD: FloatArray,
    match_U: IntArray,
) -> Correction:
    """Return the corrections of shapes priced with several calibrations.

    Calibrations without a table correct nothing.
    """
    count = shape_UD.shape[0]
    whole = Correction(np.ones(count), np.zeros(count), np.zeros(count), np.zeros(count, np.bool_))
    for position in np.unique(match_U).tolist():
        if not matches[position].table[0]:
            continue
        some = match_U == position
        corrected = correct(residuals_of(matches[position]), operator, shape_UD[some])
        for all_U, some_U in zip(whole, corrected, strict=True):
            all_U[some] = some_U
    return whole


def lacks_quantization(
    operator: str,
    matches: Sequence[CalibrationMatch],
    shape_UD: FloatArray,
    match_U: IntArray,
) -> NDArray[np.bool_]:
    """Return which products exclude the quantization that their measured rows include (U,)."""
    if operator != "gemm":
        return np.zeros(match_U.shape, np.bool_)
    inside_M = np.array([holds_quantization(match) for match in matches])
    lacks_U: NDArray[np.bool_] = inside_M[match_U] & (shape_UD[:, _quantize()] == 0.0)
    return lacks_U


def with_quantization(shape_UD: FloatArray) -> FloatArray:
    """Return products whose time includes quantizing the activation (U, D)."""
    quantized_UD = shape_UD.copy()
    quantized_UD[:, _quantize()] = 1.0
    return quantized_UD


def _quantize() -> int:
    return shapes.physics_model("gemm").shape_names.index("quantize")


def product_alone(sums: Correction, alone_U: NDArray[np.bool_], whole_U: FloatArray) -> Correction:
    """Return the corrections of products without the quantization measured with them.

    The residual of the sum is split in proportion to the physics times. The interval covers both
    extremes: all of it belongs to the quantization, or all of it to the product.

    `alone_U` marks where only the product is priced, `whole_U` is the physics of the sum relative
    to that of the product.

    Example:
        >>> import numpy as np
        >>> from perfatlas.measurements.residuals.residuals import Correction
        >>> from perfatlas.machines.gpu.tiers.measured import product_alone
        >>> sums = Correction(np.array([3.0]), np.zeros(1), np.zeros(1), np.ones(1, np.bool_))
        >>> found = product_alone(sums, np.ones(1, np.bool_), np.array([2.0]))
        >>> (found.factor_U * np.exp([found.low_U[0], found.high_U[0]])).round(6).tolist()
        [1.0, 5.0]
    """
    none_U = -np.log(sums.factor_U)
    all_U = np.log(np.maximum(whole_U + (1.0 - whole_U) / sums.factor_U, shapes.MIN_RATIO))
    low_U = np.minimum(sums.low_U, np.minimum(none_U, all_U))
    high_U = np.maximum(sums.high_U, np.maximum(none_U, all_U))
    return sums._replace(
        low_U=np.where(alone_U, low_U, sums.low_U),
        high_U=np.where(alone_U, high_U, sums.high_U),
    )
