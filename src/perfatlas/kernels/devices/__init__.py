"""Devices as columns, their silicon, and unique rows of shapes."""

from __future__ import annotations

from perfatlas.kernels.devices.devices import DeviceColumns, device_peak
from perfatlas.kernels.devices.silicon import (
    BANDWIDTH,
    CLOCK,
    EXPONENTIALS,
    L2,
    NUM_SILICON,
    PEAK,
    SM_COUNT,
    SiliconRows,
    silicon_row,
)
from perfatlas.kernels.devices.unique import unique_rows

__all__ = [
    "BANDWIDTH",
    "CLOCK",
    "EXPONENTIALS",
    "L2",
    "NUM_SILICON",
    "PEAK",
    "SM_COUNT",
    "DeviceColumns",
    "SiliconRows",
    "device_peak",
    "silicon_row",
    "unique_rows",
]
