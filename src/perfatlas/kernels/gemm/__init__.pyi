from .physics import (
    ACTIVATION_BYTES as ACTIVATION_BYTES,
    GEMM_SHAPE as GEMM_SHAPE,
    TILE_POLICIES as TILE_POLICIES,
    gemm_time_s as gemm_time_s,
)
