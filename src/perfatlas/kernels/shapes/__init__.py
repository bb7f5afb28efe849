"""From operators to the shape columns of their physics, and the range calibrations have seen."""

from __future__ import annotations

from perfatlas.kernels.shapes.models import (
    PhysicsModel,
    StandIn,
    calibration_key,
    physics_model,
    shape_columns,
    stand_in,
)
from perfatlas.kernels.shapes.neighbours import (
    AXES,
    GROUPS,
    LEAST_RATIO,
    carry,
    coordinates,
    correct,
    followed,
    no_residuals,
)
from perfatlas.kernels.shapes.shape_range import (
    BEYOND_RANGE,
    octaves_outside,
    shape_limits,
    widening_per_octave,
)

__all__ = [
    "AXES",
    "BEYOND_RANGE",
    "GROUPS",
    "LEAST_RATIO",
    "PhysicsModel",
    "StandIn",
    "calibration_key",
    "carry",
    "coordinates",
    "correct",
    "followed",
    "no_residuals",
    "octaves_outside",
    "physics_model",
    "shape_columns",
    "shape_limits",
    "stand_in",
    "widening_per_octave",
]
