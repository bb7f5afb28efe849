"""Expected residuals of a calibration, cross-validated where rows are few.

Shape legend: U measured rows, D shape dimensions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.collectives import CollectiveShape, FabricShape
from perfatlas.machines.gpu.shapes import kernel_shapes, physics_model

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from perfatlas.fitting.cells import Cell, Rows
    from perfatlas.operators import FloatArray

    Fit = Callable[[Cell, Rows], Mapping[str, float]]

HELD_SHARE: Final = 0.2
MIN_GROUPS: Final = 3
SPLIT_SEED: Final = 7
GROUPED_BY: Final[Mapping[str, str]] = {
    **{name: shape.split_words for name, shape in kernel_shapes().items()},
    "collectives": "message size, in powers of two",
}


def row_groups(operator: str, rows: Rows) -> NDArray[np.int64]:
    """Return the group of every row (U,), which a split must not divide."""
    kernel = kernel_shapes().get(operator)
    if kernel is not None and kernel.split_by:
        names = physics_model(operator).shape_names
        values = rows.shape_UD[:, [names.index(key) for key in kernel.split_by]]
    elif operator == "streaming":
        names = physics_model(operator).shape_names
        moved, tokens = (rows.shape_UD[:, names.index(name)] for name in ("bytes", "tokens"))
        values = np.round(moved / tokens)[:, None]
    else:
        size: FloatArray
        if operator == "fabric_exchange":
            size = FabricShape(*rows.shape_UD.T).wire_bytes
        else:
            size = CollectiveShape(*rows.shape_UD.T).bytes
        values = np.floor(np.log2(np.maximum(size, 1.0)))[:, None]
    _, group = np.unique(values, axis=0, return_inverse=True)
    return np.asarray(group, dtype=np.int64).reshape(-1)


def held_out(group: NDArray[np.int64], seed: int = SPLIT_SEED) -> NDArray[np.bool_] | None:
    """Return which rows are held out (U,): whole groups, about a fifth of them.

    None where there are too few groups.

    Args:
        group: Group of every row (U,).

    Example:
        >>> import numpy as np
        >>> from perfatlas.fitting import held_out
        >>> held = held_out(np.array([0, 0, 1, 1, 2, 2]))
        >>> int(held.sum()), bool(held[0] == held[1])
        (2, True)
    """
    count = int(np.max(group)) + 1
    if count < MIN_GROUPS:
        return None
    order = np.random.default_rng(seed).permutation(count)
    is_held_out: NDArray[np.bool_] = np.isin(group, order[: max(1, round(HELD_SHARE * count))])
    return is_held_out


def taken(rows: Rows, index: NDArray[np.bool_] | NDArray[np.int64]) -> Rows:
    """Return a selection of the rows.

    Args:
        index: A mask (U,) or row numbers.
    """
    return rows._replace(
        shape_UD=np.ascontiguousarray(rows.shape_UD[index]),
        measured_s=rows.measured_s[index],
        roofline_s=rows.roofline_s[index],
    )


SMALL_CELL: Final = 2000  # rows up to which in-sample residuals are optimistic
FOLDS: Final = 3
SEED: Final = 20254


def expected_residuals(
    cell: Cell, rows: Rows, parameters: Mapping[str, float], fit: Fit
) -> FloatArray:
    """Return the expected ln(measured/predicted) of unmeasured shapes (U,).

    With many rows and ten parameters these are the residuals of the fit. With few rows, groups are
    held out in turn and predicted by a fit to the others (cross-conformal).
    """
    log_errors: FloatArray = np.log(rows.measured_s / cell.predict(rows.shape_UD, parameters))
    group = row_groups(cell.operator, rows)
    count = int(group.max()) + 1
    if rows.measured_s.size > SMALL_CELL or count < MIN_GROUPS:
        return log_errors
    fold_U = (np.random.default_rng(SEED).permutation(count) % FOLDS)[group]
    for fold in range(FOLDS):
        out = fold_U == fold
        parameters_without = fit(cell, taken(rows, ~out))
        predicted_s = cell.predict(np.ascontiguousarray(rows.shape_UD[out]), parameters_without)
        log_errors[out] = np.log(rows.measured_s[out] / predicted_s)
    return log_errors
