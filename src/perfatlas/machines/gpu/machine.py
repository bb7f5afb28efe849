"""GPUs as a machine: kernels whose tiles run in waves on streaming multiprocessors (SMs)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfatlas.machines.contract import Machine
from perfatlas.machines.gpu.tiers import gather_families

if TYPE_CHECKING:
    from perfatlas.hardware import Device
    from perfatlas.machines.contract import DeviceColumns
    from perfatlas.operators import FloatArray


def _communication_share(devices: DeviceColumns, multiprocessors: float) -> FloatArray:
    """Return the share of the SMs that kernels of communication occupy (C,)."""
    return multiprocessors / devices.gather("sm_count")


def _issuing_units(device: Device) -> float:
    """Return the SMs of a device."""
    return device.number("sm_count")


MACHINE: Final = Machine(
    name="gpu",
    gather=gather_families,
    communication_share=_communication_share,
    issuing_units=_issuing_units,
)
