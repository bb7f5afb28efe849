"""Declarations of operator folders: priced operators, calibration keys and shapes."""

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.machines.gpu.declarations.declaration import (
        Axis, CalibrationKey, Columns, KernelShape, OperatorKernels, StandIn,
    )
    from perfatlas.machines.gpu.declarations.fields import (
        fitted_formats, is_fp8, kernel_phase, named,
    )
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
