"""Area and cost of a chip from its units, by process node.

Shape legend: D dies, F features.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.cost.packages import WAFER_MM, Package, package_of
from perfatlas.files import shipped_table
from perfatlas.quantities import InfeasibleError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from perfatlas.cost.metered import FloatArray
    from perfatlas.hardware import Device

CHIPS: Final = "data/chips.toml"
REFERENCE_NODE: Final = "n12"
MM2_PER_CM2: Final = 100.0
KIB: Final = 1024.0
MIB: Final = KIB**2
GIB: Final = 1024.0**3
GB: Final = 1e9
TENSOR_FLOP: Final = 1024.0  # per clock and SM: the unit of tensor cores
SECOND: Final = "second memory"  # bought, and sold without a margin
PRICE: Final = "device.second_memory.usd_per_gb"


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
    package: Package  # Its dies and stacks of memory on an interposer
    # Why the largest die cannot be made, so that high ends of costs are NaN; "" where it can
    open_end: str = ""

    @property
    def total_usd(self) -> tuple[float, ...]:
        """The cost of the chip, value, low and high [USD]."""
        return tuple(sum(usd) for usd in zip(*self.parts_usd.values(), strict=True))


def chip_note(device: Device) -> str:
    """Return what a chip costs to make, as a sentence; why not, where it is not predicted."""
    try:
        cost = chip_cost(device)
    except (InfeasibleError, UnsupportedError) as problem:
        return str(problem)
    parts = ", ".join(f"{name} {usd[0]:,.0f}" for name, usd in cost.parts_usd.items())
    mm2, total, price = cost.area_mm2, cost.total_usd, cost.price_usd
    limit, made = chip_data()["costs"]["reticle_mm2"]["value"], cost.package
    over = f"; a die above {limit:g} mm2 cannot be exposed in one piece" if mm2[0] > limit else ""
    dies = f"{device.dies} dies, each" if device.dies > 1 else "a die"
    wide, high = made.sides_mm
    most = [f"{usd:,.0f}" if usd == usd else "unknown" for usd in (total[2], price[2])]  # noqa: PLR0124 - NaN
    margin = f"a margin of {cost.margin:.0%}"
    if SECOND in cost.parts_usd:
        margin += f" on all but the second memory, {cost.parts_usd[SECOND][0]:,.0f}"
    unmade = f"; without a high end: {cost.open_end}" if cost.open_end else ""
    return (
        f"{total[0]:,.0f} USD to make ({total[1]:,.0f} to {most[0]}): {parts}; {dies} of"
        f" {mm2[0]:.0f} mm2 ({mm2[1]:.0f} to {mm2[2]:.0f}); an interposer of {wide:.0f} x"
        f" {high:.0f} mm ({made.interposer}), {made.per_wafer} a wafer,"
        f" {made.per_wafer * made.good_share:.0f} of them good; {price[0]:,.0f} USD at {margin}"
        f" ({price[1]:,.0f} to {most[1]}){over}{unmade}"
    )


def chip_cost(device: Device) -> ChipCost:
    """Return the cost of a chip of SMs from its units.

    Args:
        device: A GPU, real or hypothetical; its architecture gives node, registers and memory.

    Source: negative binomial yield, dies per wafer and terms of data/chips.toml.

    Limits: Dies with defects are sold with units disabled only as far as `enabled_share` says; no
        cost of design. All dies are good when they are attached; a package that is lost in assembly
        loses all of them. Links between dies have the bandwidth that the device states, or that of
        the memory that each die reads of the others, and take their area on each die.

    Raises:
        InfeasibleError: A die or the package is larger than a wafer, or than its interposer may be,
            at the value of the area; at its high end costs are open.
        UnsupportedError: The area of such a chip, or the price of its second memory, is not known.

    Example:
        >>> from perfatlas.cost import chip_cost
        >>> from perfatlas.hardware import resolve_system
        >>> 600 < chip_cost(resolve_system("h100_sxm").device).area_mm2[0] < 1000
        True
    """
    data = chip_data()
    architecture = data["architectures"].get(device.architecture)
    if device.kind != "gpu" or device.vendor != "NVIDIA" or architecture is None:
        raise UnsupportedError(
            f"the cost of {device.name} is not predicted: areas are known for NVIDIA dies of"
            f" {', '.join(data['architectures'])}"
        )
    die, stacks, memory_gb = _die_of(device, architecture)
    unlinked = float(die.features() @ _unit_areas(tuple(known_dies().values())))
    spread = _area_spread()
    made: list[dict[str, float]] = []
    areas, prices, open_end = [], [], ""
    for end, ratio in (("value", 1.0), ("low", 1.0 / (1.0 + spread)), ("high", 1.0 + spread)):
        mm2 = unlinked * ratio + _links_mm2(device, end)
        try:
            package = package_of(mm2, device.dies, stacks, data["package"], device.interposer)
            usd = _made_usd(device, die.node, mm2, memory_gb, package, end)
        except InfeasibleError as problem:
            if not made:  # the value
                raise
            usd, open_end = dict.fromkeys(made[0].keys() - {SECOND}, math.nan), str(problem)
        second_usd = _second_usd(device, end)
        areas.append(mm2)
        prices.append(sum(usd.values()) / (1.0 - _term("margin", end)) + second_usd)
        made.append(usd | ({SECOND: second_usd} if second_usd else {}))
    return ChipCost(
        area_mm2=tuple(areas),
        parts_usd={name: tuple(usd[name] for usd in made) for name in made[0]},
        price_usd=tuple(prices),
        margin=_term("margin", "value"),
        package=package_of(areas[0], device.dies, stacks, data["package"], device.interposer),
        open_end=open_end,
    )


def _die_of(device: Device, architecture: Mapping[str, Any]) -> tuple[Die, int, float]:
    """Return one die of a device, and the stacks of memory of all with their nominal size [GB]."""
    nodes, stated = chip_data()["nodes"], device.number("process")
    node = f"n{stated:g}" if stated else architecture["node"]
    if node not in nodes:
        raise UnsupportedError(
            f"device.process = {stated:g}: wafers of it have no published price; set one of"
            f" {', '.join(name.removeprefix('n') for name in nodes)}"
        )
    stack_bytes = device.number("stack_bytes") or architecture["module_gb"] * GIB
    stacks = math.ceil(device.memory_bytes / stack_bytes)
    die = Die(
        node=node,
        sms=device.number("sm_count") / device.dies / _term("enabled_share", "value"),
        flop_per_clock=device.number("flop_per_clock_per_sm"),
        cache_mib=device.number("l2_bytes") / MIB / device.dies,
        sm_kib=architecture["register_kib"] + device.number("shared_memory_bytes") / KIB,
        channels=stacks * architecture["module_channels"] / device.dies,
    )
    return die, stacks, stacks * stack_bytes / GIB


def _links_mm2(device: Device, end: str) -> float:
    """Return the area of a die's links to the others [mm2]."""
    others = 1.0 - 1.0 / device.dies
    needed = device.memory_bandwidth / device.dies * others  # in one direction
    one_way = (device.number("die_to_die_bandwidth") or needed) if others else 0.0
    return 2.0 * one_way / GB / _term("link_gbps_per_mm2", end)


def _second_usd(device: Device, end: str) -> float:
    """Return what the second memory costs [USD]."""
    gigabytes, each = device.number("second_memory_bytes") / GB, device.number("usd_per_gb")
    if gigabytes and not each:
        raise UnsupportedError(
            f"the cost of {device.name} is not predicted: no dated price of its second memory is"
            f" known; set {PRICE} to a price in USD"
        )
    is_assumed = gigabytes and device.sources[PRICE].kind == "assumed"
    own = PRICE in device.overridden
    return gigabytes * each * (_term("second_memory_ratio", end) if is_assumed and not own else 1.0)


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


def _made_usd(
    device: Device, node: str, mm2: float, memory_gb: float, package: Package, end: str
) -> dict[str, float]:
    """Return the cost of a chip by part, without its second memory [USD]."""
    row = chip_data()["nodes"][node]
    wafer, defects = row["wafer"][end], row["defects"][end]
    per_wafer = math.pi * (WAFER_MM / 2.0) ** 2 / mm2 - math.pi * WAFER_MM / math.sqrt(2.0 * mm2)
    if per_wafer <= 0.0:
        raise InfeasibleError(
            f"a die of {mm2:,.0f} mm2 does not fit on a wafer of {WAFER_MM:g} mm; set more"
            " device.dies, or fewer units"
        )
    cluster = _term("cluster", "value")
    good = (1.0 + mm2 / MM2_PER_CM2 * defects / cluster) ** -cluster
    parts = {
        "dies": device.dies * wafer / (per_wafer * good),
        "memory": memory_gb * _term("memory_usd_per_gb", end),
        "package": _term("interposer_wafer_usd", end) / (package.per_wafer * package.good_share),
    }
    kept = device.number("assembly_yield") or (1.0 - _term("attach_loss", end)) ** package.bonded
    parts["assembly"] = sum(parts.values()) * (1.0 / kept - 1.0)
    return parts | {"test": sum(parts.values()) * _term("test_share", end)}
