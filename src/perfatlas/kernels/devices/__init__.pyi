from .devices import (
    DeviceColumns as DeviceColumns,
    device_peak as device_peak,
)
from .silicon import (
    BANDWIDTH as BANDWIDTH,
    CLOCK as CLOCK,
    EXPONENTIALS as EXPONENTIALS,
    L2 as L2,
    NUM_SILICON as NUM_SILICON,
    PEAK as PEAK,
    SM_COUNT as SM_COUNT,
    SiliconRows as SiliconRows,
    silicon_row as silicon_row,
)
