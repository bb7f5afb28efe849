"""Tier `measured` inside a domain: physics corrected by its residuals at measured sizes.

At a measured size and number of ranks the answer is the measured time, for library collectives and
custom all-reduces of engines. Expert exchanges have several measured times per size and number of
ranks, and use tier physics.

Shape legend: U unique shapes, R measured rows, F coordinates, M matches.
"""

from __future__ import annotations

from functools import cache, lru_cache
from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.collectives import physics
from perfatlas.hardware import resolve_system
from perfatlas.measurements import residuals
from perfatlas.measurements.tables import CUSTOM, LIBRARY_OPS, comm_rows, comm_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfatlas.measurements.calibrations import CalibrationMatch
    from perfatlas.operators import FloatArray, IntArray

MIN_ROWS: Final = 30  # minimum rows to determine how residuals decay with distance
AXES: Final = 2


def with_table(match: CalibrationMatch, version: str) -> CalibrationMatch:
    """Return a match with the table whose rows correct it, or with a note why there is none.

    `version` is that of the engine, "" for the version the calibration was fitted on; libraries
    keep their own version.
    """
    cell = match.calibration
    engine_version = "" if cell.operator in LIBRARY_OPS else version
    return residuals.with_rows_of(
        match, comm_table(cell.device, cell.operator, cell.family), engine_version
    )


def coordinates(shape: physics.CollectiveShape) -> FloatArray:
    """Return the coordinates of shapes, octaves of size and ranks (U, F)."""
    return np.log2(np.maximum(np.column_stack((shape.bytes, shape.ranks)), 1.0))


def size_groups(shape: physics.CollectiveShape) -> IntArray:
    """Return the groups of rows that are held out together: octaves of the size (U,)."""
    size_U, _ = coordinates(shape).T
    return residuals.number_groups(np.round(size_U)[:, None])


def correct_rows(
    matches: Sequence[CalibrationMatch], shape: physics.CollectiveShape, match_U: IntArray
) -> residuals.Correction:
    """Return the corrections of collectives inside a domain.

    `match_U` holds the position in `matches`, -1 for none; those without a table correct nothing.
    """
    count = match_U.size
    whole = residuals.Correction(
        np.ones(count), np.zeros(count), np.zeros(count), np.zeros(count, np.bool_)
    )
    for position in np.unique(match_U[match_U >= 0]).tolist():
        if not matches[position].table[0]:
            continue
        some = match_U == position
        corrected = residuals.correct(
            residuals_of(matches[position]), coordinates(physics.take_rows(shape, some))
        )
        for all_U, some_U in zip(whole, corrected, strict=True):
            all_U[some] = some_U
    return whole


def residuals_of(match: CalibrationMatch) -> residuals.Residuals:
    """Return the residuals of a match's table, from the user's cache or computed."""
    cell = match.calibration
    kind = physics.CustomParameters if cell.operator == CUSTOM else physics.LibraryParameters
    parameters = tuple(cell.parameters[name] for name in kind._fields)
    return _residuals(
        (cell.device, cell.operator, cell.family, cell.format), match.table, parameters
    )


@lru_cache(maxsize=64)
def _residuals(
    cell: tuple[str, str, str, str], table: tuple[str, str], parameters: tuple[float, ...]
) -> residuals.Residuals:
    (device, *_), (version, _) = cell, table
    stated = repr((cell, table, parameters, _link(device), producers()))
    return residuals.cached_residuals(stated, lambda: fit_residuals(cell, version, parameters))


@cache
def producers() -> str:
    """Return a digest of the code and link values that residuals depend on."""
    return residuals.producers_hash(fit_residuals, by_value=(_link,))


def _link(device: str) -> tuple[float, bool]:
    """Return the bandwidth of a device's link and whether its switch reduces."""
    scale_up = resolve_system(device).device.scale_up
    return scale_up.bandwidth, scale_up.in_network_reduction


def fit_residuals(
    cell: tuple[str, str, str, str], version: str, parameters: tuple[float, ...]
) -> residuals.Residuals:
    """Return the residuals of the measured rows of a cell and their decay with distance.

    `cell` names device, operation, library or engine, and format; `parameters` are in the order of
    the fields of its formula.
    """
    device, operator, _, format_name = cell
    rows = comm_rows(*cell, version)
    if rows.measured_s.size < MIN_ROWS:
        return residuals.no_residuals(AXES)
    bandwidth, in_network = _link(device)
    whole_R = np.ones_like(rows.bytes_U)
    in_network_R = float(in_network and format_name == "bf16") * whole_R
    custom = operator == CUSTOM
    shape = physics.collective_shape(
        "all_reduce" if custom else operator,
        rows.bytes_U,
        rows.ranks_U,
        bandwidth * whole_R,
        in_network_R,
    )
    columns = [value * whole_R for value in parameters]
    if custom:
        physics_s, _ = physics.custom_time_s(shape, physics.CustomParameters(*columns))
    else:
        physics_s, _ = physics.library_time_s(shape, physics.LibraryParameters(*columns))
    residual_R: FloatArray = np.log(rows.measured_s / physics_s)
    return residuals.residuals_by_distance(coordinates(shape), residual_R, size_groups(shape))
