"""Families of kernels: their instructions, known tiles and fitted constants, from shipped data."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from perfatlas.files import shipped_table
from perfatlas.hardware import resolve_system
from perfatlas.quantities import UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perfatlas.hardware import Device

_DATA: Final = "data/kernel_designs.toml"


@dataclass(frozen=True, kw_only=True)
class KernelFamily:
    """A family of kernels on one architecture."""

    name: str
    operator: str  # attention or gemm
    architecture: str  # Architecture of its devices
    formats: tuple[str, ...]  # Number formats that it multiplies
    head_dims: tuple[int, ...] = ()  # Head dimensions whose speed is published
    # FP32 instructions per score beside the exponential and the row maximum
    fp32_per_score: float = 0.0
    comparisons_per_score: float = 0.0  # Comparisons per score, for the row maximum
    emulated_exponentials: float = 0.0  # Share of the exponentials that FP32 instructions compute
    emulation_fp32: float = 0.0  # FP32 instructions of one of them
    backward_fp32_per_score: float = 0.0  # The same in the backward pass, beside the exponential
    promoted: tuple[str, ...] = ()  # Formats whose partial sums are added in registers
    least_rows: int = 0  # Fewest rows of a product whose speeds the model predicts
    launch_s: float  # Launch of the kernel [s]
    tile_cycles: float  # Cycles of each tile outside its main loop
    # By device, sustained clock and efficiency of the instruction stream over the maximum clock; at
    # most 0.95
    clock_factor: Mapping[str, float]
    # Half-width of the 90% interval of ln(time), on devices of the fit (fitted), on others
    # (transferred), and on those with another tensor rate per SM or power limit than the device
    # whose clock factor they have (unlike); of products that do not fill the SMs (few)
    half_width: Mapping[str, float]
    evidence: str  # The measurements of the fit
    scored: tuple[str, ...] = ()  # Devices on which the transfer was scored
    tile: tuple[Mapping[str, Any], ...] = field(default=())  # Known tiles by head dimension

    @property
    def pairs(self) -> bool:
        """Whether two thread blocks may share an MMA instruction."""
        return bool(architecture_limits(self.architecture)["tensor_memory_columns"])

    def factor_of(self, device: Device) -> float:
        """Return the clock factor of a device; of another one that was measured, if it was not."""
        return self.clock_factor[self.donor_of(device)]

    def donor_of(self, device: Device) -> str:
        """Return the device whose clock factor a device has: its own, if it was fitted."""
        return device.name if device.name in self.clock_factor else next(iter(self.clock_factor))

    def is_unlike(self, device: Device) -> bool:
        """Return whether no speeds show that a clock factor holds on a device.

        The clock under load follows from the tensor rate per SM and the power limit.
        """
        known = device.name if device.name in self.scored else self.donor_of(device)
        measured = resolve_system(known).device
        return _load(device) != _load(measured)

    def width_of(self, device: Device) -> float:
        """Return the half-width of ln(time) on a device."""
        if self.is_unlike(device):
            return self.half_width["unlike"]
        return self.half_width["fitted" if device.name in self.clock_factor else "transferred"]


def _load(device: Device) -> tuple[float, float]:
    return device.number("flop_per_clock_per_sm"), device.tdp_w


@cache
def sm_constants() -> dict[str, float]:
    """Return what all streaming multiprocessors have in common, by name."""
    return {name: float(row["value"]) for name, row in shipped_table(_DATA)["sm"].items()}


@cache
def architecture_limits(architecture: str) -> dict[str, Any]:
    """Return where an architecture accumulates, and the rows of its MMA instruction."""
    limits: dict[str, Any] = shipped_table(_DATA)["architecture"][architecture]
    return limits


@cache
def kernel_families() -> tuple[KernelFamily, ...]:
    """Return all families."""
    rows: list[dict[str, Any]] = [
        {name: tuple(value) if isinstance(value, list) else value for name, value in row.items()}
        for row in shipped_table(_DATA)["family"]
    ]
    return tuple(KernelFamily(**row) for row in rows)


def family_of(operator: str, device: Device, format_name: str) -> KernelFamily:
    """Return the family of kernels of an operator on a device.

    Args:
        operator: attention or gemm.

    Raises:
        UnsupportedError: No family has the architecture or the format.
    """
    families = [
        kernel_family for kernel_family in kernel_families() if kernel_family.operator == operator
    ]
    found = [family for family in families if family.architecture == device.architecture]
    if not found:
        known = ", ".join(dict.fromkeys(family.architecture for family in families))
        raise UnsupportedError(
            f"kernel design {operator} models kernels of the architectures {known}, and"
            f" {device.name} is {device.architecture}; use kernel {operator}"
        )
    if format_name not in found[0].formats:
        raise UnsupportedError(
            f"kernel design {operator} has no published speeds in format = {format_name} on"
            f" {device.architecture}; use {', '.join(found[0].formats)}, or kernel {operator}"
        )
    return found[0]
