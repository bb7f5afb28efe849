"""Silicon columns: the device properties that all physics models read, in a fixed layout.

Shape legend: U unique shapes, S silicon fields.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.formats import get_format
from perfatlas.machines.contract import device_peak

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfatlas.hardware import Device
    from perfatlas.operators import FloatArray

# Column layout of `silicon_US` (float64). PEAK is the dense peak of the operator's format at CLOCK.
PEAK: Final = 0  # [FLOP/s]
BANDWIDTH: Final = 1  # device memory [bytes/s]
SM_COUNT: Final = 2
CLOCK: Final = 3  # [Hz]
L2: Final = 4  # [bytes]
EXPONENTIALS: Final = 5  # exp2 per SM and cycle
SHARED_MEMORY: Final = 6  # per SM [bytes]
NUM_SILICON: Final = 7


def silicon_row(device: Device, format_name: str) -> FloatArray:
    """Return the silicon columns of a device for products in a format (S,).

    Clock and peak refer to the sustained clock, at which calibrations are fitted; a clock ratio
    scales both.

    Raises:
        UnsupportedError: The device does not multiply in that format.
    """
    row_S = np.empty(NUM_SILICON)
    row_S[PEAK] = (
        device_peak(device, format_name) * device.sustained_clock_hz / device.peak_clock_hz
    )
    row_S[BANDWIDTH] = device.memory_bandwidth
    row_S[SM_COUNT] = device.number("sm_count")
    row_S[CLOCK] = device.sustained_clock_hz
    row_S[L2] = device.number("l2_bytes")
    row_S[EXPONENTIALS] = device.number("exponentials_per_sm_clock")
    row_S[SHARED_MEMORY] = device.number("shared_memory_bytes")
    return row_S


class SiliconRows:
    """Silicon rows of all devices, one block of rows per tensor peak in use."""

    def __init__(self, devices: Sequence[Device]) -> None:
        """Start without rows."""
        self.devices = devices
        self.rows: list[FloatArray] = []
        self._first: dict[str, int] = {}

    def first(self, format_name: str) -> int:
        """Return the row of the first device for products in a format.

        Operators that multiply nothing name bf16 for all 16-bit elements; a device without it
        reads them in fp16. Its products in bf16 are refused before.
        """
        peak = get_format(format_name).tensor_peak
        if peak not in self._first:
            self._first[peak] = len(self.rows)
            self.rows += [_row_or_zeros(device, peak, format_name) for device in self.devices]
        return self._first[peak]


def _row_or_zeros(device: Device, peak: str, format_name: str) -> FloatArray:
    if peak in device.peak_flop_per_s:
        return silicon_row(device, format_name)
    if peak == "bf16" and "fp16" in device.peak_flop_per_s:
        return silicon_row(device, "fp16")
    return np.zeros(NUM_SILICON)
