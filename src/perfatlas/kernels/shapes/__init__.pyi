from .neighbours import (
    AXES as AXES,
    GROUPS as GROUPS,
    MIN_RATIO as MIN_RATIO,
    coordinates as coordinates,
    correct as correct,
    no_residuals as no_residuals,
    octave_lengths as octave_lengths,
    residuals_by_distance as residuals_by_distance,
)
from .registry import (
    PhysicsModel as PhysicsModel,
    calibration_key as calibration_key,
    kernel_shapes as kernel_shapes,
    physics_model as physics_model,
    shape_columns as shape_columns,
    stand_in as stand_in,
)
from .shape_range import (
    BEYOND_RANGE as BEYOND_RANGE,
    octaves_outside as octaves_outside,
    shape_limits as shape_limits,
    widening_per_octave as widening_per_octave,
)
