"""Errors of tier measured on held-out shapes, compared with uncorrected physics.

Shape legend: U measured rows, G columns that define a group.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas import hardware
from perfatlas.collectives import CollectiveShape, measured as links
from perfatlas.fitting import held_out
from perfatlas.fitting.cells import MEASURED_DEVICES, device_cells
from perfatlas.machines.gpu import shapes
from perfatlas.machines.gpu.tiers import measured as tier
from perfatlas.measurements.calibrations import find_shipped_calibration
from perfatlas.measurements.residuals import residuals as near
from perfatlas.measurements.tables import CUSTOM, LIBRARY_OPS, MOE_MODEL, table_rows
from perfatlas.quantities import InvalidSpecError, did_you_mean, repr_for_error
from perfatlas.sampling import error_statistics
from validation.kernels.measured_medians import UnseenScore, median_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from perfatlas.fitting.cells import Cell
    from perfatlas.operators import FloatArray

# Groups held out as a whole, including neighbouring batches: as in tier measured, and models.
UNSEEN: Final[Mapping[str, tuple[tuple[str, tuple[str, ...]], ...]]] = {
    name: (("layout", columns), ("model", MOE_MODEL)) if name == "moe" else (("shape", columns),)
    for name, shape in shapes.kernel_shapes().items()
    if (columns := shape.groups)
}
COLLECTIVES: Final = (*LIBRARY_OPS, CUSTOM)  # inside a domain


def validate_measured(
    systems: Sequence[str] = (),
    operators: Sequence[str] = (),
    progress: Callable[[UnseenScore], None] | None = None,
) -> dict[str, list[dict[str, Any]]]:
    """Return the errors of tier measured on a held-out fifth of the groups.

    Groups are (n, k) of matrix products, heads and window of attention, heads of MLA and of
    recurrent scans, channels of convolutions, model and layout (or the model) of MoE, and octaves
    of the size of collectives: neighbouring batches of a held-out row are held out too.

    Args:
        systems: Devices with measured tables; all of them by default.
        operators: Operators to score; by default all that tier measured corrects.
        progress: Called after each score.

    Returns:
        {"cells": one row per cell, "medians": one per operator, family and format over devices}.

    Raises:
        InvalidSpecError: A device without measured tables, or an operator that is not corrected.
        MissingDependencyError: The measured tables are not installed.
    """
    check_names("system", systems, MEASURED_DEVICES)
    check_names("operator", operators, (*shapes.AXES, *COLLECTIVES))
    scores = []
    for system in systems or MEASURED_DEVICES:
        for cell in device_cells(system, operators or (*shapes.AXES, *COLLECTIVES)):
            for score in _scores(cell):
                scores.append(score)
                if progress is not None:
                    progress(score)
    return {"cells": [asdict(score) for score in scores], "medians": median_rows(scores)}


def check_names(what: str, names: Sequence[str], known: Sequence[str]) -> None:
    """Raise for an unknown name.

    Args:
        what: Kind of the names.

    Raises:
        InvalidSpecError: With the nearest known name.
    """
    for name in names:
        if name not in known:
            raise InvalidSpecError(
                f"{what} = {repr_for_error(name)}: there are no measured"
                f" rows{did_you_mean(name, known) or ';'} expected one of {', '.join(known)}"
            )


def _scores(cell: Cell) -> Iterator[UnseenScore]:
    """Yield the scores of a cell, none for an operator without correction."""
    if cell.operator in shapes.AXES:
        yield from score_unseen(cell)
    elif cell.operator in COLLECTIVES:
        yield from score_unseen_sizes(cell)


def score_unseen_sizes(cell: Cell) -> Iterator[UnseenScore]:
    """Yield the score of a collective on held-out size octaves; none for too few."""
    device = hardware.resolve_system(cell.device).device
    match = find_shipped_calibration(device, cell.operator, cell.family, cell.format)
    rows = cell.load()
    shape = CollectiveShape(*rows.shape_UD.T)
    held = held_out(links.size_groups(shape))
    if match is None or not match.own or held is None:
        return
    physics_s = cell.predict(rows.shape_UD, match.calibration.parameters)
    residual_R = np.log(rows.measured_s / physics_s)
    space_RF = links.coordinates(shape)
    seen_R = links.size_groups(CollectiveShape(*rows.shape_UD[~held].T))
    known = near.residuals_by_distance(space_RF[~held], residual_R[~held], seen_R)
    correction = near.correct(known, space_RF[held])
    yield score_of(cell, "size", physics_s[held], rows.measured_s[held], correction)


def score_of(
    cell: Cell,
    unseen: str,
    physics_s: FloatArray,
    measured_s: FloatArray,
    correction: near.Correction,
) -> UnseenScore:
    """Return the errors on held-out rows, before and after their correction.

    Args:
        unseen: Held-out property.
        physics_s: Physics (U,) [s].
        measured_s: Measured times (U,) [s].
        correction: Correction of the physics (U,).
    """
    left: FloatArray = np.log(measured_s / physics_s) - np.log(correction.factor_U)
    inside = (left >= correction.low_U) & (left <= correction.high_U)
    statistics = error_statistics(physics_s * correction.factor_U, measured_s)
    return UnseenScore(
        cell=cell.id,
        unseen=unseen,
        rows=statistics.rows,
        physics_mape=round(error_statistics(physics_s, measured_s).mape, 4),
        measured_mape=round(statistics.mape, 4),
        inside_90=round(float(inside.mean()), 4),
        half_width=round(float(np.median(correction.high_U - correction.low_U)) / 2.0, 4),
        near=round(float(correction.measured_U.mean()), 4),
    )


def score_unseen(cell: Cell) -> Iterator[UnseenScore]:
    """Yield the scores of a cell; none where it is not calibrated or has too few groups."""
    device = hardware.resolve_system(cell.device).device
    match = find_shipped_calibration(device, cell.operator, cell.family, cell.format)
    if match is None or not match.own:
        return
    names = shapes.physics_model(cell.operator).shape_names
    rows = table_rows(cell.device, cell.operator, cell.family, cell.format)
    shape_UD, measured_s = rows.shape_table(names), rows.measured_s
    physics_s = cell.predict(shape_UD, match.calibration.parameters)
    for unseen, columns in UNSEEN[cell.operator]:
        keys_UG = shape_UD[:, [names.index(name) for name in columns]]
        _, group = np.unique(keys_UG, axis=0, return_inverse=True)
        held = held_out(np.asarray(group, np.int64).reshape(-1))
        if held is None:
            continue
        residual = np.log(measured_s / physics_s)
        known = tier.residuals_by_distance(cell.operator, shape_UD[~held], residual[~held])
        correction = tier.correct(known, cell.operator, shape_UD[held])
        yield score_of(cell, unseen, physics_s[held], measured_s[held], correction)
