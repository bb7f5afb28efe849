"""A kind of machine: what it answers about operators and devices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from perfatlas.hardware import Device
    from perfatlas.machines.contract.devices import DeviceColumns
    from perfatlas.machines.contract.gathered import KernelFamily
    from perfatlas.operators import FloatArray, Operator

Tier = Literal["auto", "bound", "physics", "measured"]


class KernelChoice(NamedTuple):
    """What an engine and a user say about the kernels that price operators."""

    family: str  # Kernel family of the engine; "" selects the fastest family for each operator
    # "bound"; "physics" or "auto": physics where the machine has a calibration for the operator,
    # otherwise bound; "measured": physics corrected by measured rows
    tier: Tier
    # Engine version whose tables tier measured reads; "" for those that the calibrations were
    # fitted on
    silicon_version: str


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
