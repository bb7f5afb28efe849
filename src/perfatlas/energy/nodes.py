"""Power of nodes and of their share of a facility, from that of their accelerators.

Shape legend: C candidates.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.files import shipped_table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from perfatlas.hardware import Node
    from perfatlas.operators import FloatArray

NODES: Final = "data/energy/nodes.toml"
HOST: Final = ("cpu", "c2c", "switch", "other")  # parts of a node that draw the same at any load
OPPOSITE: Final = {"value": "value", "low": "high", "high": "low"}


@dataclass(frozen=True, kw_only=True)
class NodePower:
    """Power of a node as a line over that of its accelerators."""

    devices: int
    host_w: float  # Processors, switches, NICs, memory and storage [W]
    factor: float  # AC power over that of the components: fans and conversion

    def node_w(self, gpu_w: float) -> float:
        """Return the AC power of a node whose accelerators all draw a power [W].

        Args:
            gpu_w: Power of one accelerator [W].

        Example:
            >>> from perfatlas.energy import node_power
            >>> from perfatlas.hardware import resolve_system
            >>> round(node_power(resolve_system("h100_sxm").node).node_w(700.0))
            8498
        """
        return (self.devices * gpu_w + self.host_w) * self.factor

    def gpu_w(self, node_w: float) -> float:
        """Return what a node leaves to each of its accelerators, 0 or less for nothing [W].

        Args:
            node_w: AC power of the node [W].

        Example:
            >>> from perfatlas.energy import node_power
            >>> from perfatlas.hardware import resolve_system
            >>> power = node_power(resolve_system("h100_sxm").node)
            >>> round(power.gpu_w(power.node_w(500.0)))
            500
        """
        return (node_w / self.factor - self.host_w) / self.devices


def node_power(node: Node, end: str = "value") -> NodePower:
    """Return the power of a node beside its accelerators.

    Args:
        node: The node; its NICs and accelerators are counted as stated.
        end: "value", or "low" or "high" for an end of the interval.

    Source: data/energy/nodes.toml, one source per value.

    Returns:
        The power; NaN for a node without data.

    Limits: Processors and switches draw the same power at any load.
    """
    own = node_data().get(node.name)
    if own is None:
        return NodePower(devices=node.devices, host_w=math.nan, factor=math.nan)
    host_w = sum(own[name][end] for name in HOST if name in own)
    return NodePower(
        devices=node.devices,
        host_w=host_w + node.nics * own["nic"][end],
        factor=(1.0 + own["fans"][end]) / own["efficiency"][OPPOSITE[end]],
    )


# power with its interval, and GPUs
NODE_COLUMNS: Final = ("power_w", "power_w_low", "power_w_high", "gpus")


def node_columns(
    columns: Mapping[str, FloatArray],
    nodes: Sequence[Node],
    pue_C: FloatArray,
    metered_C: NDArray[np.bool_],
    limit_w_C: FloatArray | float = math.inf,
) -> dict[str, FloatArray]:
    """Return the power of nodes and facility, each (C,).

    Args:
        columns: Those of `NODE_COLUMNS`, each (C,).
        nodes: Node of the accelerators of each candidate (C).
        pue_C: Power of the facility over that of its nodes (C,), NaN if not given.
        metered_C: Whether a price or the carbon of its energy is asked for (C,).
        limit_w_C: Power limit of a node, which no end of an interval exceeds (C,) [W]; inf for
            none.

    Returns:
        `node_power_w` with its interval. If any PUE is given or energy is metered,
        `facility_power_w` with its interval, for a PUE of 1 where none is given. NaN where unknown.
    """
    found: dict[str, FloatArray] = {}
    shown_C = metered_C | np.isfinite(pue_C)
    overhead_C = np.where(shown_C, np.where(np.isfinite(pue_C), pue_C, 1.0), np.nan)
    distinct = {id(node): node for node in nodes}
    places = {key: index for index, key in enumerate(distinct)}
    place_C = np.array([places[id(node)] for node in nodes], np.int64)
    for suffix, end in (("", "value"), ("_low", "low"), ("_high", "high")):
        own = [node_power(node, end) for node in distinct.values()]
        devices_C, host_w_C, factor_C = (
            np.array([getattr(power, name) for power in own], np.float64)[place_C]
            for name in ("devices", "host_w", "factor")
        )
        drawn_w_C = (devices_C * columns[f"power_w{suffix}"] + host_w_C) * factor_C
        node_w_C = np.minimum(drawn_w_C, limit_w_C)
        found[f"node_power_w{suffix}"] = node_w_C
        if shown_C.any():
            share_C = overhead_C * columns["gpus"] / devices_C
            found[f"facility_power_w{suffix}"] = share_C * node_w_C
    return found


def node_data() -> dict[str, Any]:
    """Return the shipped powers of nodes, each with its interval and source."""
    return shipped_table(NODES)
