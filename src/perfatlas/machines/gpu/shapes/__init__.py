"""Shape columns of operators for their physics, and the range of shapes of calibrations."""

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.machines.gpu.shapes.neighbours import (
        AXES, GROUPS, MIN_RATIO, coordinates, correct, no_residuals, residuals_by_distance,
    )
    from perfatlas.machines.gpu.shapes.registry import (
        PhysicsModel, calibration_key, kernel_shapes, physics_model, shape_columns, stand_in,
    )
    from perfatlas.machines.gpu.shapes.shape_range import (
        BEYOND_RANGE, octaves_outside, shape_limits, widening_per_octave,
    )
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
