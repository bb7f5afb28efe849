"""Kernels of perfatlas: a registry, their sources, numerics and compilation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.lab.kernels.compiled import (
        inspect_kernel as inspect_kernel,
        over_budget as over_budget,
    )
    from perfatlas.lab.kernels.design import designed_time_s as designed_time_s
    from perfatlas.lab.kernels.registry import (
        LabKernel as LabKernel,
        lab_kernel as lab_kernel,
        lab_kernels as lab_kernels,
    )
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
