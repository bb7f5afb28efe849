"""NCCL between nodes: latency that grows with the ranks of an all-gather or a reduce-scatter.

Shape legend: U unique shapes, A algorithms and protocols.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfatlas.files import shipped_table
from perfatlas.quantities import MICROSECOND_S

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfatlas.operators import FloatArray

RINGS: Final = "data/collectives/nccl_rings.toml"
# Trees serve all-reduce alone.
HOP_OPS: Final = ("all_gather", "reduce_scatter")


class Fabric(NamedTuple):
    """What a ring between nodes depends on besides its ranks."""

    # Transfer through a rank's share of the NICs at the full speed of a ring (U,) [s]
    wire_s_U: FloatArray
    nics_U: FloatArray  # Bandwidth of the NICs of a group's node (U,) [bytes/s]
    pcie_U: NDArray[np.bool_]  # Where hops inside a node use PCIe (U,)
    network_s_U: FloatArray  # Minimum latency of a hop between nodes (U,) [s]
    least_s_U: FloatArray  # Minimum latency of the whole operation (U,) [s]
    inside_s_U: FloatArray  # Transfer inside nodes, at the same time (U,) [s]


class FabricTimes(NamedTuple):
    """The fastest algorithm and protocol of each group."""

    latency_s_U: FloatArray  # Its hops, one after the other (U,) [s]
    moving_s_U: FloatArray  # Its transfer between nodes (U,) [s]
    pat_U: NDArray[np.bool_]  # Where it is PAT, not a ring (U,)


def ring_between_nodes_s(ranks_U: FloatArray, nodes_U: FloatArray, fabric: Fabric) -> FabricTimes:
    """Return latency and transfer of the fastest all-gather or reduce-scatter over nodes (U,) [s].

    A ring passes its n ranks one after the other, n - nodes hops inside nodes and nodes - 1 between
    them. Groups with one rank per node may use PAT, whose latency has a logarithmic and a linear
    part.

    Args:
        ranks_U: Ranks of the group (U,).
        nodes_U: Nodes of the group (U,).

    Source: `ncclTopoTuneModel` in src/graph/tuning.cc of NVIDIA/nccl.

    Limits: Constants of NCCL's own choice of algorithms, not times that were measured here.

    Example:
        >>> import numpy as np
        >>> from perfatlas.collectives.rings import Fabric, ring_between_nodes_s
        >>> one = np.ones(1)
        >>> fabric = Fabric(1e-3 * one, 400e9 * one, one < 0.0, 0.0 * one, 0.0 * one, 0.0 * one)
        >>> ring = ring_between_nodes_s(512.0 * one, 64.0 * one, fabric)
        >>> float(ring.latency_s_U[0].round(7))  # 14 us, 448 hops of 1.9 us and 63 of 4 us
        0.0011172
    """
    data, alone_U = shipped_table(RINGS), ranks_U == nodes_U
    network_us_U = fabric.network_s_U / MICROSECOND_S
    latency, moving = [], []
    for one in data["protocol"]:
        hop_us_U = np.where(fabric.pcie_U, one["pcie_us"], one["nvlink_us"])
        inside_us_U = np.where(alone_U, 0.0, hop_us_U) * (ranks_U - nodes_U)
        usual_us_U = np.where(alone_U, one["alone_us"], one["network_us"])
        between_us_U = (nodes_U - 1.0) * np.maximum(usual_us_U, network_us_U)
        latency.append(one["base_us"] + inside_us_U + between_us_U)
        speed_U = np.minimum(one["bandwidth"], one["most_bytes_per_s"] / fabric.nics_U)
        moving.append(fabric.wire_s_U / speed_U)
    pat = data["pat"]
    doubling_us_U = np.maximum(pat["doubling_us"], network_us_U)
    tree_us_U = pat["base_us"] + np.log2(nodes_U) * doubling_us_U + ranks_U * pat["rank_us"]
    latency.append(np.where(alone_U, tree_us_U, np.inf))
    moving.append(fabric.wire_s_U / pat["bandwidth"])
    latency_s_AU = np.maximum(np.stack(latency) * MICROSECOND_S, fabric.least_s_U)
    moving_s_AU = np.stack(moving)
    fastest_U = (latency_s_AU + np.maximum(moving_s_AU, fabric.inside_s_U)).argmin(axis=0)
    at_U = np.arange(fastest_U.size)
    return FabricTimes(
        latency_s_AU[fastest_U, at_U],
        moving_s_AU[fastest_U, at_U],
        fastest_U == len(data["protocol"]),
    )
