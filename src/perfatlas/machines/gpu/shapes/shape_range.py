"""The range of shapes a calibration was fitted on, and the distance of a query from it.

Shape legend: U unique shapes, R measured rows, D shape columns, M matches.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.files import shipped_table
from perfatlas.machines.gpu.shapes.neighbours import AXES, MIN_RATIO
from perfatlas.machines.gpu.shapes.registry import physics_model

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from perfatlas.machines.gpu.declarations import Axis
    from perfatlas.operators import FloatArray, IntArray

BEYOND_RANGE: Final = "data/beyond_range.toml"
ROUNDING: Final = 1e-6  # octaves


@cache
def widening_per_octave() -> dict[str, float]:
    """Return the widening of intervals per octave outside the range [e-folds], by operator.

    Source: fits without the outer two octaves of one dimension at a time, scored on the rows left
        out; `validation.transfers.range_extrapolation`.
    """
    rows = shipped_table(BEYOND_RANGE)["beyond"]
    return {row["operator"]: float(row["per_octave"]) for row in rows}


def shape_limits(operator: str, shape_RD: FloatArray) -> tuple[dict[str, float], dict[str, float]]:
    """Return the minimum and maximum of each dimension of measured shapes, by name.

    Args:
        operator: Calibration operator; one without axes has no limits.
        shape_RD: Measured shapes (R, D).
    """
    values = {_label(axis): _values(axis, operator, shape_RD) for axis in _axes(operator)}
    least = {name: float(value_R.min()) for name, value_R in values.items()}
    most = {name: float(value_R.max()) for name, value_R in values.items()}
    return least, most


def octaves_outside(
    operator: str,
    shape_UD: FloatArray,
    match_U: IntArray,
    limits_M: Sequence[tuple[Mapping[str, float], Mapping[str, float]]],
) -> FloatArray:
    """Return the octaves between a shape and the range its calibration was fitted on (U,).

    Uses the dimension farthest outside. 0 inside, and for calibrations without limits.

    Args:
        shape_UD: Columns of its physics (U, D).
        match_U: Position in `limits_M` (U,).
        limits_M: Minimum and maximum by dimension, for each match.

    Example:
        >>> import numpy as np
        >>> from perfatlas.machines.gpu.shapes import octaves_outside
        >>> shape = np.zeros((1, 9)); shape[0, :3] = 65536, 4096, 4096
        >>> limits = [({"m": 1.0}, {"m": 32768.0})]
        >>> float(octaves_outside("gemm", shape, np.zeros(1, np.int64), limits)[0])
        1.0
    """
    farthest_U = np.ones(shape_UD.shape[0])
    axes = _axes(operator)
    if not axes or not any(least or most for least, most in limits_M):
        return np.zeros(shape_UD.shape[0])
    for axis in axes:
        name = _label(axis)
        low_M = np.array([least.get(name, 0.0) for least, _ in limits_M])
        high_M = np.array([most.get(name, np.inf) for _, most in limits_M])
        value_U = _values(axis, operator, shape_UD)
        ratio_U = np.maximum(low_M[match_U] / value_U, value_U / high_M[match_U])
        farthest_U = np.maximum(farthest_U, ratio_U)
    outside_U = np.log2(farthest_U)
    return np.where(outside_U > ROUNDING, outside_U, 0.0)


@cache
def _axes(operator: str) -> tuple[Axis, ...]:
    return tuple(axis for axis in AXES.get(operator, ()) if not axis.linear)


@cache
def _label(axis: Axis) -> str:
    return "_".join(axis.times) + "".join(f"_per_{name}" for name in axis.over)


def _values(axis: Axis, operator: str, shape_UD: FloatArray) -> FloatArray:
    names = physics_model(operator).shape_names
    first, *others = axis.times
    value_U = shape_UD[:, names.index(first)]
    for name in others:
        value_U = value_U * shape_UD[:, names.index(name)]
    for name in axis.over:
        value_U = value_U / shape_UD[:, names.index(name)]
    # 0 means none: no window, no selection
    floor = MIN_RATIO if axis.over else 1.0
    limited_U: FloatArray = np.maximum(value_U, floor)
    return limited_U
