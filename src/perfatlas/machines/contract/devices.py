"""Columns of devices: the device of each candidate and its clock.

Shape legend: C candidates, D distinct devices.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from perfatlas.formats import formats, get_format
from perfatlas.quantities import UnsupportedError

if TYPE_CHECKING:
    from perfatlas.hardware import Device
    from perfatlas.operators import FloatArray, IntArray


@dataclass(frozen=True, kw_only=True)
class DeviceColumns:
    """The device and clock of every candidate."""

    devices: tuple[Device, ...]  # Distinct devices (D,)
    index_C: IntArray  # Position in `devices` (C,)
    # Clock relative to the device's default clock (C,); None means 1. Compute terms scale with it,
    # memory terms do not.
    clock_ratio_C: FloatArray | None = None
    gathered: dict[str, FloatArray] = field(default_factory=dict, repr=False, compare=False)

    def gather(self, name: str) -> FloatArray:
        """Return a numeric field of each candidate's device (C,)."""
        known = self.gathered.get(name)
        if known is None:
            values_D = np.array([d.number(name) for d in self.devices])
            known = self.gathered[name] = values_D[self.index_C]
        return known

    def clock_ratio(self) -> FloatArray:
        """Return the clock relative to the default clock (C,)."""
        if self.clock_ratio_C is None:
            return np.ones(self.index_C.shape[0])
        return self.clock_ratio_C

    def take(self, some_X: IntArray) -> DeviceColumns:
        """Return the devices of some candidates.

        Args:
            some_X: Positions of the candidates (X,).
        """
        clock_C = self.clock_ratio_C
        return DeviceColumns(
            devices=self.devices,
            index_C=self.index_C[some_X],
            clock_ratio_C=None if clock_C is None else clock_C[some_X],
        )

    def only(self, some_X: IntArray) -> DeviceColumns:
        """Return the devices of some candidates, without the devices of the others.

        Args:
            some_X: Positions of the candidates (X,).
        """
        used, index_X = np.unique(self.index_C[some_X], return_inverse=True)
        devices = tuple(self.devices[place] for place in used.tolist())
        return replace(self.take(some_X), devices=devices, index_C=index_X, gathered={})

    def at_clock(self, ratio: float) -> DeviceColumns:
        """Return the same devices with all clocks scaled by a ratio.

        Args:
            ratio: New clock relative to each candidate's clock.
        """
        if ratio == 1.0:
            return self
        return replace(self, clock_ratio_C=self.clock_ratio() * ratio, gathered={})

    def peak_flop_per_s(self, format_name: str) -> FloatArray:
        """Return the dense peak of products in a format at the clock (C,) [FLOP/s].

        Raises:
            UnsupportedError: A device has no tensor cores for the format.
        """
        known = self.gathered.get(f"peak {format_name}")
        if known is None:
            peaks_D = np.array([device_peak(d, format_name) for d in self.devices])
            known = peaks_D[self.index_C] * self.clock_ratio()
            self.gathered[f"peak {format_name}"] = known
        return known


def device_peak(device: Device, format_name: str) -> float:
    """Return the dense peak of a device for products in a format [FLOP/s].

    Raises:
        UnsupportedError: The device does not multiply in that format.
    """
    stated, peaks = get_format(format_name), device.peak_flop_per_s
    tensor_peak = stated.tensor_peak
    if device.vendor in stated.not_multiplied_by:
        others = ", ".join(
            name
            for name, one in formats().items()
            if one.tensor_peak == tensor_peak and device.vendor not in one.not_multiplied_by
        )
        raise UnsupportedError(
            f"{device.name} does not multiply in {format_name}; of {tensor_peak} it takes {others}"
        )
    if tensor_peak not in peaks:
        if stated.substitute_peak in peaks:
            return peaks[stated.substitute_peak]
        of_products = {one.tensor_peak for one in formats().values()}
        supported = ", ".join(sorted(of_products & peaks.keys())) or "no format"
        raise UnsupportedError(
            f"{device.name} does not multiply in {tensor_peak}, as format {format_name!r} needs;"
            f" it multiplies in {supported}"
            " (weight-only formats nvfp4_wo and mxfp4 use bf16, int8_wo and int4_wo bf16 or fp16)"
        )
    return peaks[tensor_peak]
