"""Time of the fused MoE layer of one rank."""

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.machines.gpu.moe.physics import (
        FIXED_TILES, MOE_SHAPE, TRITON_DEFAULTS, moe_time_s,
    )
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
