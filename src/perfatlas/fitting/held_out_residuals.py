"""Expected residuals of a calibration, cross-validated where rows are few.

Shape legend: U measured rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.fitting.split import LEAST_GROUPS, row_groups, taken

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from perfatlas.fitting.cells import Cell, Rows
    from perfatlas.operators import FloatArray

    Fit = Callable[[Cell, Rows], Mapping[str, float]]

SMALL_CELL: Final = 2000  # rows up to which in-sample residuals are optimistic
FOLDS: Final = 3
SEED: Final = 20254


def expected_residuals(
    cell: Cell, rows: Rows, parameters: Mapping[str, float], fit: Fit
) -> FloatArray:
    """Return the expected ln(measured/predicted) of unmeasured shapes (U,).

    With many rows and ten parameters these are the residuals of the fit. With few rows, groups are
    held out in turn and predicted by a fit to the others (cross-conformal).

    Args:
        cell: The cell.
        rows: Its measured rows.
        parameters: Parameters fitted to all rows.
        fit: Function that fits parameters to a subset.
    """
    known: FloatArray = np.log(rows.measured_s / cell.predict(rows.shape_UD, parameters))
    group = row_groups(cell.operator, rows)
    count = int(group.max()) + 1
    if rows.measured_s.size > SMALL_CELL or count < LEAST_GROUPS:
        return known
    fold_U = (np.random.default_rng(SEED).permutation(count) % FOLDS)[group]
    for fold in range(FOLDS):
        out = fold_U == fold
        found = fit(cell, taken(rows, ~out))
        predicted_s = cell.predict(np.ascontiguousarray(rows.shape_UD[out]), found)
        known[out] = np.log(rows.measured_s[out] / predicted_s)
    return known
