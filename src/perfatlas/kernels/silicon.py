"""The silicon columns every physics kernel reads, in one fixed layout.

Shape legend: U unique shapes, S silicon fields.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.kernels.devices import device_peak

if TYPE_CHECKING:
    from perfatlas.hardware import Device
    from perfatlas.operators import FloatArray

# Row layout of `silicon_US` (float64). PEAK is the dense peak of the operator's format at CLOCK.
PEAK: Final = 0  # [FLOP/s]
BANDWIDTH: Final = 1  # device memory [bytes/s]
SM_COUNT: Final = 2
CLOCK: Final = 3  # [Hz]
L2: Final = 4  # [bytes]
EXPONENTIALS: Final = 5  # exp2 per SM and clock
SHARED_MEMORY: Final = 6  # per SM [bytes]
NUM_SILICON: Final = 7


def silicon_row(device: Device, format_name: str) -> FloatArray:
    """Return the silicon columns of a device for products in a format (S,).

    Clock and peak are those of the sustained clock, at which calibrations are fitted; a clock
    ratio scales both.

    Raises:
        UnsupportedError: The device does not multiply in that format.
    """
    row_S = np.empty(NUM_SILICON)
    row_S[PEAK] = (
        device_peak(device, format_name) * device.sustained_clock_hz / device.peak_clock_hz
    )
    row_S[BANDWIDTH] = device.memory_bandwidth
    row_S[SM_COUNT] = device.sm_count
    row_S[CLOCK] = device.sustained_clock_hz
    row_S[L2] = device.l2_bytes
    row_S[EXPONENTIALS] = device.exponentials_per_sm_clock
    row_S[SHARED_MEMORY] = device.shared_memory_bytes
    return row_S
