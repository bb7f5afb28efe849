from .declaration import (
    Axis as Axis,
    CalibrationKey as CalibrationKey,
    Columns as Columns,
    KernelShape as KernelShape,
    OperatorKernels as OperatorKernels,
    StandIn as StandIn,
)
from .fields import (
    fitted_formats as fitted_formats,
    is_fp8 as is_fp8,
    kernel_phase as kernel_phase,
    named as named,
)
