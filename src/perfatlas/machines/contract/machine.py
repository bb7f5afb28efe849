"""A kind of machine: what it answers about operators and devices, and the devices that ask.

Machines are folders of `machines`, by kind of device, and those that are registered.

Shape legend: C candidates, D distinct devices, O operators, X some candidates.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass, field, replace
from importlib import resources
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, Protocol

import numpy as np

from perfatlas.formats import formats, get_format
from perfatlas.quantities import InvalidSpecError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from perfatlas.hardware import Device
    from perfatlas.operators import FloatArray, IntArray, Operator
    from perfatlas.pricing import PricedOperators

Tier = Literal["auto", "bound", "physics", "measured"]
_PACKAGE: Final = "perfatlas.machines"
_LOADED: Final[dict[str, Machine]] = {}


class KernelChoice(NamedTuple):
    """What an engine and a user say about the kernels that price operators."""

    family: str  # Kernel family of the engine; "" selects the fastest family for each operator
    # "bound"; "physics" or "auto": physics where the machine has a calibration for the operator,
    # otherwise bound; "measured": physics corrected by measured rows
    tier: Tier
    # Engine version whose tables tier measured reads; "" for those that the calibrations were
    # fitted on
    silicon_version: str


class KernelFamily(Protocol):
    """Operators with the kernels of one family."""

    @property
    def full(self) -> PricedOperators:
        """Prices at the clock of each candidate."""

    def take(self, some_X: IntArray) -> KernelFamily:
        """Return the operators of some candidates (X,)."""

    def at(
        self, ratio_CO: FloatArray, last_CO: FloatArray, last: PricedOperators
    ) -> PricedOperators:
        """Return the prices at clocks, from those at the last ones.

        Args:
            ratio_CO: Clock of each operator relative to the clock of its candidate (C, O).
            last: Prices at those; columns that do not follow the clock stay the same.
        """


@dataclass(frozen=True, kw_only=True)
class Machine:
    """A kind of machine: a row `MACHINE` in the module `machine` of its folder."""

    name: str  # Name of the folder, and value of `device.kind` of the devices that it prices
    # (operators, devices, kernels): operators of devices of this kind, priced with each family of
    # kernels that may run them. `repriced` makes it from a function that prices.
    gather: Callable[[Sequence[Operator], DeviceColumns, KernelChoice], tuple[KernelFamily, ...]]
    # (devices, multiprocessors): share of the machine that kernels of communication take from those
    # beside them (C,), of which the engine says how many multiprocessors of a GPU they occupy
    communication_share: Callable[[DeviceColumns, float], FloatArray]
    # (device): units that issue instructions, in proportion to which a device draws power while it
    # computes
    issuing_units: Callable[[Device], float]
    # Whether a compiler spreads weights evenly over the chips of all pipeline stages: it cuts
    # layers where it needs, and divides embedding and head over all stages
    spreads_weights: bool = False


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
        column = self.gathered.get(name)
        if column is None:
            values_D = np.array([d.number(name) for d in self.devices])
            column = self.gathered[name] = values_D[self.index_C]
        return column

    def clock_ratio(self) -> FloatArray:
        """Return the clock relative to the default clock (C,)."""
        if self.clock_ratio_C is None:
            return np.ones(self.index_C.shape[0])
        return self.clock_ratio_C

    def take(self, some_X: IntArray) -> DeviceColumns:
        """Return the devices of some candidates (X,)."""
        clock_C = self.clock_ratio_C
        return DeviceColumns(
            devices=self.devices,
            index_C=self.index_C[some_X],
            clock_ratio_C=None if clock_C is None else clock_C[some_X],
        )

    def only(self, some_X: IntArray) -> DeviceColumns:
        """Return the devices of some candidates (X,), without the devices of the others."""
        used, index_X = np.unique(self.index_C[some_X], return_inverse=True)
        devices = tuple(self.devices[index] for index in used.tolist())
        return replace(self.take(some_X), devices=devices, index_C=index_X, gathered={})

    def peak_flop_per_s(self, format_name: str) -> FloatArray:
        """Return the dense peak of products in a format at the clock (C,) [FLOP/s].

        Raises:
            UnsupportedError: A device has no tensor cores for the format.
        """
        peak = self.gathered.get(f"peak {format_name}")
        if peak is None:
            peaks_D = np.array([device_peak(d, format_name) for d in self.devices])
            peak = peaks_D[self.index_C] * self.clock_ratio()
            self.gathered[f"peak {format_name}"] = peak
        return peak


def device_peak(device: Device, format_name: str) -> float:
    """Return the dense peak of a device for products in a format [FLOP/s].

    Raises:
        UnsupportedError: The device does not multiply in that format.
    """
    stated, peaks = get_format(format_name, arithmetic=True), device.peak_flop_per_s
    tensor_peak = stated.tensor_peak
    if device.vendor in stated.not_multiplied_by:
        others = ", ".join(
            name
            for name, other in formats().items()
            if other.tensor_peak == tensor_peak and device.vendor not in other.not_multiplied_by
        )
        raise UnsupportedError(
            f"{device.name} does not multiply in {format_name}; of {tensor_peak} it takes {others}"
        )
    if tensor_peak not in peaks:
        if stated.substitute_peak in peaks:
            return peaks[stated.substitute_peak]
        of_products = {number_format.tensor_peak for number_format in formats().values()}
        supported = ", ".join(sorted(of_products & peaks.keys())) or "no format"
        raise UnsupportedError(
            f"{device.name} does not multiply in {tensor_peak}, as format {format_name!r} needs;"
            f" it multiplies in {supported}"
            " (weight-only formats nvfp4_wo and mxfp4 use bf16, int8_wo and int4_wo bf16 or fp16)"
        )
    return peaks[tensor_peak]


def register(machine: Machine) -> None:
    """Register a machine that is not a folder of `machines`.

    Args:
        machine: The machine; `hardware.register_kind` registers the schema of its devices.

    Raises:
        InvalidSpecError: A machine of this name exists.
    """
    if machine.name in _LOADED or _has_folder(machine.name):
        raise InvalidSpecError(f"machine {machine.name} already exists; rename it")
    _LOADED[machine.name] = machine


def find_machine(kind: str) -> Machine:
    """Return the machine of a kind of device, whose modules are imported when it is first used."""
    if kind not in _LOADED:
        if not _has_folder(kind):
            raise UnsupportedError(
                f"no machine prices devices of kind {kind}: a machine is a folder of {_PACKAGE}"
            )
        _LOADED[kind] = importlib.import_module(f"{_PACKAGE}.{kind}.machine").MACHINE
    return _LOADED[kind]


def _has_folder(name: str) -> bool:
    return resources.files(_PACKAGE).joinpath(name, "machine.py").is_file()
