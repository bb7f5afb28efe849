"""Energy of priced operators, and the power of nodes and facilities.

Shape legend: C candidates, O operators, D distinct devices, F number formats.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.energy.boards import board_energy, energy_data
from perfatlas.files import shipped_table
from perfatlas.formats import get_format

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from perfatlas.hardware import Node
    from perfatlas.machines import DeviceColumns
    from perfatlas.operators import FloatArray, IntArray, Operator
    from perfatlas.pricing import PricedOperators

ZEROS: Final = "zeros"  # values of the tensors with an entry in `[inputs]` of the data file
ZEROS_UNUSED: Final = (
    "input_distribution = zeros has no effect here: it lowers power, which is not predicted"
)
HOST: Final = ("cpu", "c2c", "switch", "other")  # parts of a node that draw the same at any load
PARTS: Final = (*HOST, "nic", "fans", "efficiency")
OPPOSITE: Final = {"value": "value", "low": "high", "high": "low"}
NODE_COLUMNS: Final = ("power_w", "power_w_low", "power_w_high", "gpus")


def with_energy(
    operators: Sequence[Operator],
    prices: PricedOperators,
    devices: DeviceColumns,
    zeros_C: NDArray[np.bool_] | None = None,
) -> PricedOperators:
    """Return prices with the energy of one execution of each operator.

    Chip: FLOP, bytes between last-level cache and SMs, and issuing, at the voltage of the highest
    clock; `energy_share` is what a lower voltage leaves of it. SMs issue for a share of the time of
    an operator; those of experts for all of the time beyond the roofline. Memory and links: bytes.
    The power that a board draws without kernels is no part of it.

    Args:
        zeros_C: Whether all tensors hold zeros instead of random values (C,); None for none.

    Source: data/energy/energies.toml.
    Limits: Minimum traffic, as the roofline counts it; what kernels move beyond is part of the
        energy of a FLOP. Links carry no energy of the copies in device memory.
    """
    boards = [board_energy(device) for device in devices.devices]
    zeros = energy_data()["inputs"][ZEROS]
    effect: dict[str, Any] = dict.fromkeys(zeros, 1.0)
    if zeros_C is not None:
        effect = {n: np.where(zeros_C, zero["value"], 1.0)[:, None] for n, zero in zeros.items()}
    peaks = [
        get_format(operator.compute_format, arithmetic=True).tensor_peak for operator in operators
    ]
    keys = tuple(dict.fromkeys(peaks))
    flop_j_DF = np.array([[board.flop_j[key] for key in keys] for board in boards])
    format_O = np.array([keys.index(key) for key in peaks], np.int64)
    shares = {name: share["value"] for name, share in energy_data()["issue_share"].items()}
    share_O, excess_O = np.array([_issue_shares(operator, shares) for operator in operators]).T

    def of_device(values: list[float]) -> FloatArray:
        column: FloatArray = np.array(values)[devices.index_C][:, None]
        return column

    # of one device the same row for all candidates
    place_C = devices.index_C if len(boards) > 1 else np.zeros(1, np.int64)
    flop_j_CO = effect["flop"] * flop_j_DF[place_C][:, format_O]
    chip_j_CO = prices.flop_CO * flop_j_CO
    chip_j_CO += (
        effect["sram"] * prices.chip_bytes_CO * of_device([b.sram_j_per_byte for b in boards])
    )
    issue_s_CO = share_O * prices.time_s_CO
    late = np.flatnonzero(excess_O)
    if late.size:
        beyond_s = np.maximum(prices.time_s_CO[:, late] - prices.bound_s_CO[:, late], 0.0)
        issue_s_CO[:, late] += excess_O[late] * beyond_s
    chip_j_CO += of_device([b.issue_w for b in boards]) * issue_s_CO
    memory_j_CO = (
        effect["memory"] * prices.memory_bytes_CO * of_device([b.memory_j_per_byte for b in boards])
    )
    memory_j_CO += prices.link_bytes_CO * of_device([b.link_j_per_byte for b in boards])
    return replace(prices, chip_energy_j_CO=chip_j_CO, memory_energy_j_CO=memory_j_CO)


def _issue_shares(operator: Operator, shares: Mapping[str, float]) -> tuple[float, float]:
    """Return the shares of the time, and of that beyond the roofline, in which SMs issue."""
    layout = get_format(operator.compute_format, arithmetic=True)
    # SMs convert the weights to the format of the activations
    converts = layout.quantize == "none" and layout.weight_bytes < layout.activation_bytes
    share = (
        shares["converted" if converts else "products"] if operator.multiplies else shares["others"]
    )
    share = 0.0 if operator.communicates else share
    return share, max(shares["grouped"] - share, 0.0) if operator.routed else 0.0


@dataclass(frozen=True, kw_only=True)
class NodePower:
    """Power of a node as a line over that of its accelerators."""

    devices: int
    host_w: float  # Processors, switches, NICs, memory and storage [W]
    factor: float  # AC power over that of the components: fans and conversion

    def node_w(self, gpu_w: float) -> float:
        """Return the AC power of a node whose accelerators all draw a power [W].

        Example:
            >>> from perfatlas.energy import node_power
            >>> from perfatlas.hardware import resolve_system
            >>> round(node_power(resolve_system("h100_sxm").node).node_w(700.0))
            7822
        """
        return (self.devices * gpu_w + self.host_w) * self.factor

    def gpu_w(self, node_w: float) -> float:
        """Return what a node leaves to each of its accelerators, 0 or less for nothing [W]."""
        return (node_w / self.factor - self.host_w) / self.devices


@cache
def node_parts(name: str) -> Mapping[str, Any] | None:
    """Return the power of each part of a node with interval and source, None without data.

    A share of fans that was fitted to one node is derived for those that are like it.
    """
    row = shipped_table("data/energy/nodes.toml").get(name)
    if row is None:
        return None
    shared: dict[str, Any] = {}
    for part, value in (node_parts(row["like"]) or {} if "like" in row else {}).items():
        shared[part] = value
        if value["kind"] == "fitted":  # to other nodes
            ends = {end: value[f"unmeasured_{end}"] for end in ("low", "high")}
            known = {"kind": "derived", "ref": f"derived: as {row['like']}"}
            shared[part] = {"value": value["value"], **ends, **known}
    parts = {**shared, **row}
    return {n: parts[n] for n in PARTS if n in parts and n not in row.get("none", ())}


def node_note(name: str) -> str:
    """Return how the power of the parts of a node is known, "" for a node without data."""
    by_kind: dict[str, list[str]] = {}
    for part, value in (node_parts(name) or {}).items():
        by_kind.setdefault(value["kind"], []).append(part)
    if not by_kind:
        return ""
    kinds = ", ".join(f"{' and '.join(parts)} {kind}" for kind, parts in by_kind.items())
    compared = shipped_table("data/energy/nodes.toml")[name].get("compared")
    known = f"compared with {compared}" if compared else "no AC power of such a node was compared"
    return f"power of nodes {name}: {kinds}; {known}"


def node_power(node: Node, end: str = "value") -> NodePower:
    """Return the power of a node beside its accelerators, NaN for a node without data.

    Args:
        node: The node; its NICs and accelerators are counted as stated.
        end: "value", or "low" or "high" for an end of the interval.

    Source: data/energy/nodes.toml, one source per value.
    Limits: Processors and switches draw the same power at any load; of switches between nodes
        their optics alone, where `node.switch_optics` is set.
    """
    node_data = node_parts(node.name)
    if node_data is None:
        return NodePower(devices=node.devices, host_w=math.nan, factor=math.nan)
    host_w = sum(node_data[name][end] for name in HOST if name in node_data)
    host_w += node.nics * switch_optics_w(node, end)
    return NodePower(
        devices=node.devices,
        host_w=host_w + node.nics * node_data["nic"][end],
        factor=(1.0 + node_data["fans"][end]) / node_data["efficiency"][OPPOSITE[end]],
    )


def switch_optics_w(node: Node, end: str = "value") -> float:
    """Return the power of the optics of switches between nodes for each NIC [W].

    Example:
        >>> from perfatlas.energy import switch_optics_w
        >>> from perfatlas.hardware import resolve_system
        >>> node = resolve_system("h100_sxm{node.switch_optics=pluggable}").node
        >>> switch_optics_w(node)  # three ends of 15.5 W at 800 Gbit/s, at half of that rate
        23.25
    """
    if node.switch_optics == "none":
        return 0.0
    data = shipped_table("data/energy/optics.toml")
    rate = node.nic_bandwidth / data["rate_bytes_per_s"]["value"]
    return float(rate * data["ends"][end] * data[node.switch_optics]["port_w"][end])


def optics_note(node: Node) -> str:
    """Return what the optics of the switches between nodes are taken to draw, "" without any."""
    if node.switch_optics == "none":
        return ""
    row = shipped_table("data/energy/optics.toml")[node.switch_optics]
    return (
        f"optics of switches between nodes ({node.switch_optics}) add {switch_optics_w(node):.3g} W"
        f" ({switch_optics_w(node, 'low'):.3g} to {switch_optics_w(node, 'high'):.3g}) for each NIC"
        f" to the power of a node: {row['port_w']['ref']}; no dated price is known, and failures"
        f" count with a fleet: rate {row['failures']} per port (perfatlas catalog rates)"
    )


def node_columns(
    columns: Mapping[str, FloatArray],
    nodes: tuple[Sequence[Node], IntArray],
    pue_C: FloatArray,
    metered_C: NDArray[np.bool_],
    limit_w_C: FloatArray | float = math.inf,
) -> dict[str, FloatArray]:
    """Return the power of nodes, and of the facility where it is asked for, each (C,).

    Args:
        columns: Those of `NODE_COLUMNS`, each (C,).
        nodes: Distinct nodes, and that of the accelerators of each candidate (C,).
        pue_C: Power of the facility over that of its nodes (C,), NaN if not given: then 1.
        metered_C: Whether a price or the carbon of its energy is asked for (C,).
        limit_w_C: Power limit of a node, which no end of an interval exceeds (C,) [W].
    """
    powers: dict[str, FloatArray] = {}
    shown_C = metered_C | np.isfinite(pue_C)
    overhead_C = np.where(shown_C, np.where(np.isfinite(pue_C), pue_C, 1.0), np.nan)
    distinct, place_C = nodes
    for suffix, end in (("", "value"), ("_low", "low"), ("_high", "high")):
        nodes_power = [node_power(node, end) for node in distinct]
        rows = [(float(power.devices), power.host_w, power.factor) for power in nodes_power]
        devices_C, host_w_C, factor_C = np.reshape(rows, (-1, 3))[place_C].T
        drawn_w_C = (devices_C * columns[f"power_w{suffix}"] + host_w_C) * factor_C
        powers[f"node_power_w{suffix}"] = node_w_C = np.minimum(drawn_w_C, limit_w_C)
        if shown_C.any():
            share_C = overhead_C * columns["gpus"] / devices_C
            powers[f"facility_power_w{suffix}"] = share_C * node_w_C
    return powers
