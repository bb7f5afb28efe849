"""Area and cost of a chip from its units, by process node.

Shape legend: D dies, F features.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.files import shipped_table
from perfatlas.quantities import UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from perfatlas.cost.metered import FloatArray
    from perfatlas.hardware import Device

CHIPS: Final = "data/chips.toml"
REFERENCE_NODE: Final = "n12"
WAFER_MM: Final = 300.0
MM2_PER_CM2: Final = 100.0
KIB: Final = 1024.0
MIB: Final = KIB**2
GB: Final = 1e9
TENSOR_FLOP: Final = 1024.0  # per clock and SM: the unit of tensor cores
PARTS: Final = ("dies", "memory", "package", "test")


@dataclass(frozen=True, kw_only=True)
class Die:
    """The units of a die, disabled ones included."""

    node: str  # Process node, a name of data/chips.toml
    sms: float  # SMs
    flop_per_clock: float  # Dense FP16 FLOP per clock and SM
    cache_mib: float  # Last-level cache [MiB]
    sm_kib: float  # Registers and shared memory of an SM [KiB]
    channels: float  # Memory channels of 32 bits; a stack of HBM counts as 8
    area_mm2: float = math.nan  # Published area, NaN if unknown [mm2]

    def features(self) -> FloatArray:
        """Return what its area is a sum of (F,): SMs, tensor units, SRAM, memory PHY and the rest.

        Logic scales with the density of the node, SRAM with its bit cell, PHY and the rest do not.
        """
        nodes = chip_data()["nodes"]
        node, old = nodes[self.node], nodes[REFERENCE_NODE]
        logic, sram = old["logic"] / node["logic"], node["sram"] / old["sram"]
        tensor = self.sms * self.flop_per_clock / TENSOR_FLOP
        sram_mib = self.cache_mib + self.sms * self.sm_kib / KIB
        return np.array([logic * self.sms, logic * tensor, sram * sram_mib, self.channels, 1.0])


def chip_data() -> dict[str, Any]:
    """Return the shipped nodes, dies, architectures and costs."""
    return shipped_table(CHIPS)


def known_dies() -> dict[str, Die]:
    """Return the dies whose areas are published, by name."""
    return {name: Die(**row) for name, row in chip_data()["dies"].items()}


def predicted_area_mm2(die: Die, dies: Sequence[Die]) -> float:
    """Return the area of a die from those of others [mm2].

    The area of each unit is fitted to the relative errors of the known dies, none below 0.

    Args:
        dies: Dies with published areas, without the predicted one.

    Limits: Dies of SMs on the nodes of the known ones; no chiplets, no links between dies.
    """
    return float(die.features() @ _unit_areas(tuple(dies)))


@cache
def _unit_areas(dies: tuple[Die, ...]) -> FloatArray:
    """Return the area of each unit (F,) [mm2]."""
    from scipy.optimize import nnls

    rows_DF = np.stack([die.features() / die.area_mm2 for die in dies])
    unit_F: FloatArray = nnls(rows_DF, np.ones(len(dies)))[0]
    return unit_F


@dataclass(frozen=True, kw_only=True)
class ChipCost:
    """What a chip costs to make, with the interval of its terms."""

    area_mm2: tuple[float, ...]  # Predicted area of one die, value, low and high [mm2]
    # Cost by part, each as value, low and high; they sum to the total [USD]
    parts_usd: Mapping[str, tuple[float, ...]]
    price_usd: tuple[float, ...]  # Price at the margin, value, low and high [USD]
    margin: float  # Share of the price that is not cost

    @property
    def total_usd(self) -> tuple[float, ...]:
        """The cost of the chip, value, low and high [USD]."""
        return tuple(sum(usd) for usd in zip(*self.parts_usd.values(), strict=True))


def chip_note(device: Device) -> str:
    """Return what a chip costs to make, as a sentence; why not, where it is not predicted."""
    try:
        cost = chip_cost(device)
    except UnsupportedError as problem:
        return str(problem)
    parts = ", ".join(f"{name} {usd[0]:,.0f}" for name, usd in cost.parts_usd.items())
    mm2, total, price = cost.area_mm2, cost.total_usd, cost.price_usd
    limit = chip_data()["costs"]["reticle_mm2"]["value"]
    over = f"; a die above {limit:g} mm2 cannot be exposed in one piece" if mm2[0] > limit else ""
    return (
        f"{total[0]:,.0f} USD to make ({total[1]:,.0f} to {total[2]:,.0f}): {parts}; a die of"
        f" {mm2[0]:.0f} mm2 ({mm2[1]:.0f} to {mm2[2]:.0f}); {price[0]:,.0f} USD at a margin of"
        f" {cost.margin:.0%} ({price[1]:,.0f} to {price[2]:,.0f}){over}"
    )


def chip_cost(device: Device) -> ChipCost:
    """Return the cost of a chip of SMs from its units.

    Args:
        device: A GPU, real or hypothetical; its architecture gives node, registers and memory.

    Source: negative binomial yield, dies per wafer and terms of data/chips.toml.

    Limits: Dies with defects are sold with units disabled only as far as `enabled_share` says; no
        cost of design.

    Raises:
        UnsupportedError: The area of such a chip is not predicted.

    Example:
        >>> from perfatlas.cost import chip_cost
        >>> from perfatlas.hardware import resolve_system
        >>> 600 < chip_cost(resolve_system("h100_sxm").device).area_mm2[0] < 1000
        True
    """
    architecture = chip_data()["architectures"].get(device.architecture)
    if device.kind != "gpu" or device.vendor != "NVIDIA" or architecture is None:
        raise UnsupportedError(
            f"the cost of {device.name} is not predicted: areas are known for NVIDIA dies of"
            f" {', '.join(chip_data()['architectures'])}"
        )
    die, modules = _die_of(device, architecture)
    dies = device.packages * device.dies
    area = float(die.features() @ _unit_areas(tuple(known_dies().values())))
    spread = _area_spread()
    areas = (area, area / (1.0 + spread), area * (1.0 + spread))
    parts: dict[str, list[float]] = {name: [] for name in PARTS}
    prices = []
    for end, mm2 in zip(("value", "low", "high"), areas, strict=True):
        usd_by_part = _parts(die.node, mm2, dies, modules * architecture["module_gb"], end)
        for name, usd in usd_by_part.items():
            parts[name].append(usd)
        prices.append(sum(usd_by_part.values()) / (1.0 - _term("margin", end)))
    return ChipCost(
        area_mm2=areas,
        parts_usd={name: tuple(values) for name, values in parts.items()},
        price_usd=tuple(prices),
        margin=_term("margin", "value"),
    )


def _die_of(device: Device, architecture: Mapping[str, Any]) -> tuple[Die, float]:
    """Return one die of a device, and the stacks of memory of all."""
    dies = device.packages * device.dies
    modules = math.ceil(device.memory_bytes / GB / architecture["module_gb"])
    sms = device.number("sm_count") / dies / _term("enabled_share", "value")
    die = Die(
        node=architecture["node"],
        sms=sms,
        flop_per_clock=device.number("flop_per_clock_per_sm"),
        cache_mib=device.number("l2_bytes") / MIB / dies,
        sm_kib=architecture["register_kib"] + device.number("shared_memory_bytes") / KIB,
        channels=modules * architecture["module_channels"] / dies,
    )
    return die, float(modules)


@cache
def _area_spread() -> float:
    """Return the largest relative error of the area of a known die, predicted from the others."""
    dies = tuple(known_dies().values())
    errors = []
    for die in dies:
        others = [other for other in dies if other is not die]
        errors.append(abs(predicted_area_mm2(die, others) / die.area_mm2 - 1.0))
    return max(errors)


def _term(name: str, end: str) -> float:
    """Return a term of the costs at an end of its interval."""
    row = chip_data()["costs"][name]
    return float(row.get(end, row["value"]))


def _parts(node: str, mm2: float, dies: int, memory_gb: float, end: str) -> dict[str, float]:
    """Return the cost of a chip by part [USD]."""
    row = chip_data()["nodes"][node]
    wafer, defects = row["wafer"][end], row["defects"][end]
    per_wafer = math.pi * (WAFER_MM / 2.0) ** 2 / mm2 - math.pi * WAFER_MM / math.sqrt(2.0 * mm2)
    cluster = _term("cluster", "value")
    good = (1.0 + mm2 / MM2_PER_CM2 * defects / cluster) ** -cluster
    parts = {
        "dies": dies * wafer / (per_wafer * good),
        "memory": memory_gb * _term("memory_usd_per_gb", end),
        "package": dies * mm2 * _term("package_usd_per_mm2", end),
    }
    return parts | {"test": sum(parts.values()) * _term("test_share", end)}
