"""Kernels under design: warpgroups as programs, units of an SM as first-in-first-out servers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.machines.gpu.pipeline.kernels import (
        AttentionWork as AttentionWork,
        GemmWork as GemmWork,
        KernelFamily as KernelFamily,
        KernelTile as KernelTile,
        Silicon as Silicon,
        family_of as family_of,
        kernel_families as kernel_families,
        kernel_silicon as kernel_silicon,
        sm_constants as sm_constants,
    )
    from perfatlas.machines.gpu.pipeline.pricing import (
        KernelDesign as KernelDesign,
        design_kernel as design_kernel,
        what_ifs as what_ifs,
    )
    from perfatlas.machines.gpu.pipeline.servers import (
        Step as Step,
        run_programs as run_programs,
    )
    from perfatlas.machines.gpu.pipeline.tiles import completed_tile as completed_tile
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
