"""Kernels of perfatlas: a registry, their sources, numerics and compilation."""

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.lab.kernels.registry import (
        LabKernel, inspect_kernel, key_splits, lab_kernel, lab_kernels, over_budget, splits_of,
    )
    from perfatlas.lab.kernels.design import designed_time_s
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
