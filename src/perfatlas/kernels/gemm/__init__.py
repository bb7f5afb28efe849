"""Time of a matrix product."""

from __future__ import annotations

from perfatlas.kernels.gemm.physics import ACTIVATION_BYTES, GEMM_SHAPE, TILE_POLICIES, gemm_time_s

__all__ = [
    "ACTIVATION_BYTES",
    "GEMM_SHAPE",
    "TILE_POLICIES",
    "gemm_time_s",
]
