"""Errors of tier measured beyond the measured sizes, compared with uncorrected physics.

Shape legend: U measured rows, D shape columns, F coordinates.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas import hardware
from perfatlas.fitting.cells import MEASURED_DEVICES, device_cells
from perfatlas.machines.gpu.shapes import (
    AXES,
    coordinates,
    correct,
    octave_lengths,
    physics_model,
    residuals_by_distance,
    widening_per_octave,
)
from perfatlas.measurements.calibrations import find_shipped_calibration
from perfatlas.measurements.residuals import Correction
from perfatlas.measurements.tables import table_rows
from perfatlas.sampling import seeded_subset
from validation.kernels.measured import check_names, score_of
from validation.kernels.measured_medians import median_rows
from validation.scoring import best_covered

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from perfatlas.fitting.cells import Cell
    from perfatlas.operators import FloatArray
    from validation.kernels.measured_medians import UnseenScore

HIDDEN_OCTAVES: Final = 2.0  # octaves held out at each end of a size
LEAST_SPAN: Final = 4.5  # fewest octaves of a size for holding rows out
LEAST_SEEN: Final = 200
LEAST_HIDDEN: Final = 30
SAMPLE: Final = 400  # held-out rows scored at an end
SEED: Final = 20254


def validate_edges(
    systems: Sequence[str] = (), progress: Callable[[UnseenScore], None] | None = None
) -> dict[str, list[dict[str, Any]]]:
    """Return the errors of tier measured on rows beyond the other measured sizes.

    The outer two octaves of each size are held out, at one end of one size at a time, in the cells
    of the engine with the most rows.

    Args:
        systems: Devices with measured tables; all of them by default.
        progress: Called after each score.

    Returns:
        {"cells": one row per cell, "medians": one per operator and format over devices}.

    Raises:
        InvalidSpecError: A device without measured tables.
        MissingDependencyError: The measured tables are not installed.
    """
    check_names("system", systems, MEASURED_DEVICES)
    scores = []
    for system in systems or MEASURED_DEVICES:
        for cell in device_cells(system, tuple(AXES)):
            score = score_edges(cell)
            if score is not None:
                scores.append(score)
                if progress is not None:
                    progress(score)
    return {"cells": [asdict(score) for score in scores], "medians": median_rows(scores)}


def score_edges(cell: Cell) -> UnseenScore | None:
    """Return the score of a cell, None for engines with fewer rows or too small size ranges."""
    device = hardware.resolve_system(cell.device).device
    match = find_shipped_calibration(device, cell.operator, cell.family, cell.format)
    known = best_covered(cell.operator, cell.format) == cell.family
    if match is None or not match.own or not known:
        return None
    rows = table_rows(cell.device, cell.operator, cell.family, cell.format)
    shape_UD = rows.shape_table(physics_model(cell.operator).shape_names)
    physics_s = cell.predict(shape_UD, match.calibration.parameters)
    residual_U = np.log(rows.measured_s / physics_s)
    asked: list[NDArray[np.int64]] = []
    found: list[Correction] = []
    for hidden_U, outside_U in _ends(cell.operator, shape_UD):
        seen = residuals_by_distance(cell.operator, shape_UD[~hidden_U], residual_U[~hidden_U])
        some = np.flatnonzero(hidden_U)
        some = some[seeded_subset(some.size, SAMPLE, SEED)]
        correction = correct(seen, cell.operator, shape_UD[some])
        wider_U = widening_per_octave().get(cell.operator, 0.0) * outside_U[some]
        asked.append(some)
        found.append(
            correction._replace(
                low_U=correction.low_U - wider_U, high_U=correction.high_U + wider_U
            )
        )
    if not asked:
        return None
    whole = Correction(*(np.concatenate(parts) for parts in zip(*found, strict=True)))
    at = np.concatenate(asked)
    return score_of(cell, "edge", physics_s[at], rows.measured_s[at], whole)


def _ends(operator: str, shape_UD: FloatArray) -> Iterator[tuple[NDArray[np.bool_], FloatArray]]:
    """Yield the rows in the outer octaves of a size (U,) and by how many octaves (U,)."""
    space_UF, octave_F = coordinates(operator, shape_UD), octave_lengths(operator)
    for index, axis in enumerate(AXES[operator]):
        if len(axis.times) > 1 or axis.over or octave_F[index] == 0.0:
            continue
        size_U = space_UF[:, index] / octave_F[index]
        if np.ptp(size_U) < LEAST_SPAN:
            continue
        for end_U in (size_U - size_U.max(), size_U.min() - size_U):
            hidden_U = end_U > -HIDDEN_OCTAVES
            if hidden_U.sum() >= LEAST_HIDDEN and (~hidden_U).sum() >= LEAST_SEEN:
                yield hidden_U, end_U - end_U[~hidden_U].max()
