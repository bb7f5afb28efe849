"""Kernels under design: warpgroups as programs, units of an SM as first-in-first-out servers."""

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.machines.gpu.pipeline.kernels import (
        AttentionWork, GemmWork, KernelFamily, KernelTile, Silicon, family_of, kernel_families,
        kernel_silicon, sm_constants,
    )
    from perfatlas.machines.gpu.pipeline.pricing import KernelDesign, design_kernel, what_ifs
    from perfatlas.machines.gpu.pipeline.servers import Step, run_programs
    from perfatlas.machines.gpu.pipeline.tiles import completed_tile
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
