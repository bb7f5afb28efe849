"""Time of the fused expert network of one rank."""

from __future__ import annotations

from perfatlas.kernels.moe.physics import FIXED_TILES, MOE_SHAPE, TRITON_DEFAULTS, moe_time_s

__all__ = [
    "FIXED_TILES",
    "MOE_SHAPE",
    "TRITON_DEFAULTS",
    "moe_time_s",
]
