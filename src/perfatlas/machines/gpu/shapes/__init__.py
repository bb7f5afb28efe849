"""Shape columns of operators for their physics, and the range of shapes of calibrations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.machines.gpu.shapes.neighbours import (
        AXES as AXES,
        GROUPS as GROUPS,
        MIN_RATIO as MIN_RATIO,
        coordinates as coordinates,
        correct as correct,
        no_residuals as no_residuals,
        residuals_by_distance as residuals_by_distance,
    )
    from perfatlas.machines.gpu.shapes.registry import (
        PhysicsModel as PhysicsModel,
        calibration_key as calibration_key,
        kernel_shapes as kernel_shapes,
        physics_model as physics_model,
        shape_columns as shape_columns,
        stand_in as stand_in,
    )
    from perfatlas.machines.gpu.shapes.shape_range import (
        BEYOND_RANGE as BEYOND_RANGE,
        octaves_outside as octaves_outside,
        shape_limits as shape_limits,
        widening_per_octave as widening_per_octave,
    )
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
