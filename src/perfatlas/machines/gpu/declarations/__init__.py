"""Declarations of operator folders: priced operators, calibration keys and shapes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.machines.gpu.declarations.declaration import (
        Axis as Axis,
        CalibrationKey as CalibrationKey,
        Columns as Columns,
        KernelShape as KernelShape,
        OperatorKernels as OperatorKernels,
        StandIn as StandIn,
    )
    from perfatlas.machines.gpu.declarations.fields import (
        fitted_formats as fitted_formats,
        is_fp8 as is_fp8,
        kernel_phase as kernel_phase,
        named as named,
    )
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
