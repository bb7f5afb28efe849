"""Tier `measured` inside a domain: physics corrected by its residuals at measured sizes.

At a measured size and number of ranks the answer is the measured time, for library collectives and
custom all-reduces of engines. Expert exchanges have several measured times per size and number of
ranks, and use tier physics.

Shape legend: U unique shapes, R measured rows, D shape columns, F coordinates, M matches.
"""

from __future__ import annotations

from functools import cache, lru_cache
from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.collectives.physics import (
    COLLECTIVE_SHAPE,
    CUSTOM_PARAMETERS,
    LIBRARY_PARAMETERS,
    collective_shape,
    custom_time_s,
    library_time_s,
)
from perfatlas.hardware import resolve_system
from perfatlas.measurements.residuals import (
    Correction,
    Residuals,
    cached_residuals,
    correct,
    no_residuals,
    number_groups,
    producers_hash,
    residuals_by_distance,
    with_rows_of,
)
from perfatlas.measurements.tables import CUSTOM, LIBRARY_OPS, comm_rows, comm_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfatlas.measurements.calibrations import CalibrationMatch
    from perfatlas.operators import FloatArray, IntArray

MIN_ROWS: Final = 30  # minimum rows to determine how residuals decay with distance
SIZE, RANKS = COLLECTIVE_SHAPE.index("bytes"), COLLECTIVE_SHAPE.index("ranks")
AXES: Final = 2


def with_table(match: CalibrationMatch, version: str) -> CalibrationMatch:
    """Return a match with the table whose rows correct it, or with a note why there is none.

    Args:
        match: The calibration of a collective inside a domain.
        version: Measured version of the engine, "" for the version the calibration was fitted on;
            libraries keep their own version.

    Raises:
        MissingDependencyError: The measured tables are not installed.
    """
    cell = match.calibration
    own = "" if cell.operator in LIBRARY_OPS else version
    return with_rows_of(match, comm_table(cell.device, cell.operator, cell.family), own)


def coordinates(shape_UD: FloatArray) -> FloatArray:
    """Return the coordinates of shapes, size and ranks (U, F).

    Args:
        shape_UD: Columns of `COLLECTIVE_SHAPE` (U, D).
    """
    size_U = np.log2(np.maximum(shape_UD[:, SIZE], 1.0))
    return np.column_stack((size_U, np.log2(np.maximum(shape_UD[:, RANKS], 1.0))))


def size_groups(shape_UD: FloatArray) -> IntArray:
    """Return the groups of rows that are held out together: octaves of the size (U,).

    Args:
        shape_UD: Columns of `COLLECTIVE_SHAPE` (U, D).
    """
    return number_groups(np.round(coordinates(shape_UD)[:, :1]))


def correct_rows(
    matches: Sequence[CalibrationMatch], shape_UD: FloatArray, match_U: IntArray
) -> Correction:
    """Return the corrections of collectives inside a domain.

    Args:
        matches: Calibrations (M); those without a table correct nothing.
        shape_UD: Columns of `COLLECTIVE_SHAPE` (U, D).
        match_U: Position in `matches`, -1 for none (U,).
    """
    count = shape_UD.shape[0]
    whole = Correction(np.ones(count), np.zeros(count), np.zeros(count), np.zeros(count, np.bool_))
    for position in np.unique(match_U[match_U >= 0]).tolist():
        if not matches[position].table[0]:
            continue
        some = match_U == position
        found = correct(residuals_of(matches[position]), coordinates(shape_UD[some]))
        for all_U, some_U in zip(whole, found, strict=True):
            all_U[some] = some_U
    return whole


def residuals_of(match: CalibrationMatch) -> Residuals:
    """Return the residuals of a match's table, from the user's cache or computed."""
    cell = match.calibration
    names = CUSTOM_PARAMETERS if cell.operator == CUSTOM else LIBRARY_PARAMETERS
    parameters = tuple(cell.parameters[name] for name in names)
    return _residuals(
        (cell.device, cell.operator, cell.family, cell.format), match.table, parameters
    )


@lru_cache(maxsize=64)
def _residuals(
    cell: tuple[str, str, str, str], table: tuple[str, str], parameters: tuple[float, ...]
) -> Residuals:
    stated = repr((cell, table, parameters, _link(cell[0]), producers()))
    return cached_residuals(stated, lambda: fit_residuals(cell, table[0], parameters))


@cache
def producers() -> str:
    """Return a digest of the code and link values that residuals depend on."""
    return producers_hash(fit_residuals, by_value=(_link,))


def _link(device: str) -> tuple[float, bool]:
    """Return the bandwidth of a device's link and whether its switch reduces."""
    scale_up = resolve_system(device).device.scale_up
    return scale_up.bandwidth, scale_up.in_network_reduction


def fit_residuals(
    cell: tuple[str, str, str, str], version: str, parameters: tuple[float, ...]
) -> Residuals:
    """Return the residuals of the measured rows of a cell and their decay with distance.

    Args:
        cell: Device, operation, library or engine, format.
        parameters: Parameters in the order of the physics (P,).
    """
    device, operator, _, format_name = cell
    rows = comm_rows(*cell, version)
    if rows.measured_s.size < MIN_ROWS:
        return no_residuals(AXES)
    bandwidth, in_network = _link(device)
    whole_R = np.ones_like(rows.bytes_U)
    op = "all_reduce" if operator == CUSTOM else operator
    shape_RD = collective_shape(
        op,
        rows.bytes_U,
        rows.ranks_U,
        bandwidth * whole_R,
        float(in_network and format_name == "bf16") * whole_R,
    )
    physics = custom_time_s if operator == CUSTOM else library_time_s
    parameters_RP = np.broadcast_to(np.array(parameters), (whole_R.size, len(parameters)))
    physics_s, _ = physics(shape_RD, np.zeros((whole_R.size, 0)), parameters_RP)
    residual_R: FloatArray = np.log(rows.measured_s / physics_s)
    return residuals_by_distance(coordinates(shape_RD), residual_R, size_groups(shape_RD))
