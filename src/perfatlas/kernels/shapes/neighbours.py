"""The space in which operator shapes are near each other, and its residuals.

Shape legend: U unique shapes, R measured rows, D shape columns, F coordinates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.kernels.shapes.registry import kernel_shapes, physics_model
from perfatlas.measurements.residuals import residuals as near

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perfatlas.kernels.declarations import Axis
    from perfatlas.measurements.residuals import Correction, Residuals
    from perfatlas.operators import FloatArray

NEAR_BALANCED: Final = -0.1  # skew of a uniform load beside measured ones: near, not the same
LEAST_RATIO: Final = 2.0**-10  # of two columns, in a coordinate


# Columns that are followed beyond their measured range; the others are what a model or a plan is.
SIZES: Final = ("m", "n", "k", "tokens", "batch", "q_len", "kv_len", "queries")
AXES: Final[Mapping[str, tuple[Axis, ...]]] = {
    name: shape.axes for name, shape in kernel_shapes().items() if shape.axes
}
GROUPS: Final[Mapping[str, tuple[str, ...]]] = {
    name: shape.groups for name, shape in kernel_shapes().items() if shape.groups
}


def coordinates(operator: str, shape_UD: FloatArray) -> FloatArray:
    """Return shapes in the space in which they are near each other (U, F).

    Args:
        operator: A name of `AXES`.
        shape_UD: Columns of its physics (U, D).
    """
    names = physics_model(operator).shape_names
    column = {name: shape_UD[:, place] for place, name in enumerate(names)}
    space_UF = np.empty((shape_UD.shape[0], len(AXES[operator])))
    for place, axis in enumerate(AXES[operator]):
        value_U = np.prod([column[name] for name in axis.times], axis=0)
        for name in axis.over:
            value_U = value_U / column[name]
        if axis.linear:
            value_U = np.maximum(value_U, NEAR_BALANCED)
        else:
            value_U = np.log2(np.maximum(value_U, LEAST_RATIO if axis.over else 1.0))
        space_UF[:, place] = axis.weight * value_U
    return space_UF


def correct(residuals: Residuals, operator: str, shape_UD: FloatArray) -> Correction:
    """Return the correction of the physics times of shapes.

    Args:
        residuals: Of the cell whose parameters the physics used.
        operator: A name of `AXES`.
        shape_UD: Columns of its physics (U, D).
    """
    return near.correct(residuals, coordinates(operator, shape_UD), followed(operator))


def followed(operator: str) -> FloatArray:
    """Return the coordinate of one octave along sizes, 0 along what a model or a plan is (F,).

    Args:
        operator: A name of `AXES`.
    """
    octaves = [
        axis.weight if not axis.linear and any(name in SIZES for name in axis.times) else 0.0
        for axis in AXES[operator]
    ]
    return np.array(octaves)


def carry(operator: str, shape_RD: FloatArray, residual_R: FloatArray) -> Residuals:
    """Return residuals with what leaving rows and whole groups out says about distance.

    Args:
        operator: A name of `AXES`.
        shape_RD: Measured shapes (R, D).
        residual_R: ln(measured / physics) (R,).
    """
    names = physics_model(operator).shape_names
    columns = [names.index(name) for name in GROUPS[operator]]
    groups_R = near.number_groups(shape_RD[:, columns])
    return near.carry(coordinates(operator, shape_RD), residual_R, groups_R)


def no_residuals(operator: str) -> Residuals:
    """Return residuals of a cell without rows: nothing is near, physics answers.

    Args:
        operator: A name of `AXES`.
    """
    return near.no_residuals(len(AXES[operator]))
