"""Time of a matrix product."""

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.machines.gpu.gemm.physics import GEMM_SHAPE, TILE_POLICIES, gemm_time_s
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
