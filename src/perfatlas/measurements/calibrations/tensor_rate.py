"""Kernel parameters of a donor on a device whose SMs have slower or faster tensor cores."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Final

from perfatlas.hardware import resolve_system, system_names

if TYPE_CHECKING:
    from perfatlas.hardware import Device
    from perfatlas.measurements.calibrations.calibration import Calibration

EFFICIENCY: Final = "efficiency_compute"
FEED: Final = "feed_bytes_per_flop"


def with_tensor_rate(fitted: Calibration, device: Device) -> Calibration:
    """Return a calibration for the tensor cores of a device that borrows it.

    Devices of one architecture run the same kernel. Of its cycles, those of the tensor cores follow
    their rate per SM. The others stay as on the donor: the loads of operands, and what keeps tensor
    cores from their peak, such as issue, scaling and address arithmetic.

        1 / (efficiency x rate) = 1 / rate + other cycles per FLOP

    Args:
        fitted: The calibration, of this device or of a donor.
        device: The device.

    Returns:
        The calibration itself if it is the device's own, or if both tensor cores have one rate.

    Source:
        NVIDIA whitepapers of Hopper and Ada: the SMs of an H20 and an H200, and of an RTX 4090 and
        an L40S, differ in the rate of their tensor cores, not in loads or issue per clock.

    Limits:
        Other cycles add to those of tensor cores and are not hidden behind slower ones.

    Example:
        >>> from perfatlas.hardware import resolve_system
        >>> from perfatlas.measurements.calibrations import find_shipped_calibration
        >>> found = {}
        >>> for name in ("h20", "h200_sxm"):
        ...     cell = find_shipped_calibration(
        ...         resolve_system(name).device, "gemm", "sglang", "bf16"
        ...     ).calibration
        ...     found[name] = cell.parameters["efficiency_compute"]
        >>> found["h20"] > found["h200_sxm"]  # a quarter of the tensor rate per SM
        True
    """
    ratio = _rate_ratio(device, fitted.device)
    if ratio == 1.0:
        return fitted
    old = fitted.parameters
    new = {}
    if 0.0 < old.get(EFFICIENCY, 0.0) < 1.0:
        new[EFFICIENCY] = 1.0 / (1.0 + (1.0 / old[EFFICIENCY] - 1.0) * ratio)
    if FEED in old:
        new[FEED] = old[FEED] / ratio
    return replace(fitted, parameters={**old, **new})


def _rate_ratio(device: Device, donor: str) -> float:
    """Return the tensor rate per SM and clock relative to that of a donor, 1 where none lends."""
    lender = None if donor == device.name else _catalog_device(donor)
    if lender is None or lender.architecture != device.architecture:
        return 1.0
    return device.number("flop_per_clock_per_sm") / lender.number("flop_per_clock_per_sm")


@cache
def _catalog_device(name: str) -> Device | None:
    return resolve_system(name).device if name in system_names() else None
