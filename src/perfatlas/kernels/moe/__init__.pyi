from .physics import (
    FIXED_TILES as FIXED_TILES,
    MOE_SHAPE as MOE_SHAPE,
    TRITON_DEFAULTS as TRITON_DEFAULTS,
    moe_time_s as moe_time_s,
)
