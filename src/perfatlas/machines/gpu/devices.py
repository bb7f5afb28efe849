"""Silicon of GPUs: the device properties that the formulas of kernels read.

Shape legend: U unique shapes, S silicon fields.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfatlas.formats import get_format
from perfatlas.machines.contract import device_peak

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfatlas.hardware import Device
    from perfatlas.operators import FloatArray


class SiliconRow(NamedTuple):
    """Silicon of a device for products in one format, the columns of `silicon_US`."""

    peak: float = 0.0  # Dense peak of the format at `clock` [FLOP/s]
    bandwidth: float = 0.0  # Device memory [bytes/s]
    sm_count: float = 0.0  # Streaming multiprocessors (SMs)
    clock: float = 0.0  # [Hz]
    l2: float = 0.0  # Last-level cache [bytes]
    exponentials: float = 0.0  # exp2 per SM and cycle


_FOLLOWS_CLOCK: Final = np.array([name in ("peak", "clock") for name in SiliconRow._fields])


def silicon_row(device: Device, format_name: str) -> SiliconRow:
    """Return the silicon of a device for products in a format.

    Clock and peak are those of the sustained clock, at which calibrations are fitted.
    """
    peak = device_peak(device, format_name)
    return SiliconRow(
        peak=peak * device.sustained_clock_hz / device.peak_clock_hz,
        bandwidth=device.memory_bandwidth,
        sm_count=device.number("sm_count"),
        clock=device.sustained_clock_hz,
        l2=device.number("l2_bytes"),
        exponentials=device.number("exponentials_per_sm_clock"),
    )


def at_clock(silicon_US: FloatArray, ratio_U: FloatArray) -> FloatArray:
    """Return silicon rows with clock and peak scaled by a ratio (U, S)."""
    return np.where(_FOLLOWS_CLOCK, silicon_US * ratio_U[:, None], silicon_US)


class SiliconRows:
    """Silicon rows of all devices, one block of rows per tensor peak in use."""

    def __init__(self, devices: Sequence[Device]) -> None:
        """Start without rows."""
        self.devices = devices
        self.rows: list[SiliconRow] = []
        self._first: dict[str, int] = {}

    def first(self, format_name: str) -> int:
        """Return the row of the first device for products in a format.

        Operators that multiply nothing name bf16 for all 16-bit elements; a device without it
        reads them in fp16. Its products in bf16 are refused before.
        """
        peak = get_format(format_name, arithmetic=True).tensor_peak
        if peak not in self._first:
            self._first[peak] = len(self.rows)
            for device in self.devices:
                if peak in device.peak_flop_per_s:
                    self.rows.append(silicon_row(device, format_name))
                elif peak == "bf16" and "fp16" in device.peak_flop_per_s:
                    self.rows.append(silicon_row(device, "fp16"))
                else:
                    self.rows.append(SiliconRow())
        return self._first[peak]
