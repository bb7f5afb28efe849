"""Coordinates in which operator shapes are compared, and residuals in them.

Shape legend: U unique shapes, R measured rows, D shape columns, F coordinates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.machines.gpu.shapes.registry import kernel_shapes, physics_model
from perfatlas.measurements.residuals import residuals as near

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perfatlas.machines.gpu.declarations import Axis
    from perfatlas.measurements.residuals import Correction, Residuals
    from perfatlas.operators import FloatArray

NEAR_BALANCED: Final = -0.1  # skew that represents a uniform load: close to balanced, not equal
MIN_RATIO: Final = 2.0**-10  # minimum ratio of two columns in a coordinate


# Columns that are extrapolated beyond their measured range; others are fixed by model or plan.
SIZES: Final = ("m", "n", "k", "tokens", "batch", "q_len", "kv_len", "queries")
AXES: Final[Mapping[str, tuple[Axis, ...]]] = {
    name: shape.axes for name, shape in kernel_shapes().items() if shape.axes
}
GROUPS: Final[Mapping[str, tuple[str, ...]]] = {
    name: shape.groups for name, shape in kernel_shapes().items() if shape.groups
}


def coordinates(operator: str, shape_UD: FloatArray) -> FloatArray:
    """Return the coordinates of shapes (U, F).

    Args:
        operator: A name of `AXES`.
        shape_UD: Columns of its physics (U, D).
    """
    names = physics_model(operator).shape_names
    column = {name: shape_UD[:, index] for index, name in enumerate(names)}
    space_UF = np.empty((shape_UD.shape[0], len(AXES[operator])))
    for index, axis in enumerate(AXES[operator]):
        value_U = np.prod([column[name] for name in axis.times], axis=0)
        for name in axis.over:
            value_U = value_U / column[name]
        if axis.linear:
            value_U = np.maximum(value_U, NEAR_BALANCED)
        else:
            value_U = np.log2(np.maximum(value_U, MIN_RATIO if axis.over else 1.0))
        space_UF[:, index] = axis.weight * value_U
    return space_UF


def correct(residuals: Residuals, operator: str, shape_UD: FloatArray) -> Correction:
    """Return the corrections of the physics times of shapes.

    Args:
        residuals: Residuals of the cell whose parameters the physics used.
        operator: A name of `AXES`.
        shape_UD: Columns of its physics (U, D).
    """
    return near.correct(residuals, coordinates(operator, shape_UD), octave_lengths(operator))


def octave_lengths(operator: str) -> FloatArray:
    """Return the length of one octave along each coordinate, 0 where not extrapolated (F,).

    Args:
        operator: A name of `AXES`.
    """
    octaves = [
        axis.weight if not axis.linear and any(name in SIZES for name in axis.times) else 0.0
        for axis in AXES[operator]
    ]
    return np.array(octaves)


def residuals_by_distance(operator: str, shape_RD: FloatArray, residual_R: FloatArray) -> Residuals:
    """Return residuals with error growth by distance, from held-out rows and groups.

    Args:
        operator: A name of `AXES`.
        shape_RD: Measured shapes (R, D).
        residual_R: ln(measured / physics) (R,).
    """
    names = physics_model(operator).shape_names
    columns = [names.index(name) for name in GROUPS[operator]]
    groups_R = near.number_groups(shape_RD[:, columns])
    return near.residuals_by_distance(coordinates(operator, shape_RD), residual_R, groups_R)


def no_residuals(operator: str) -> Residuals:
    """Return the residuals of a cell without rows, for which physics is not corrected.

    Args:
        operator: A name of `AXES`.
    """
    return near.no_residuals(len(AXES[operator]))
