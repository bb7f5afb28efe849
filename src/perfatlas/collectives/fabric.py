"""The scale-out level: messages between nodes through NICs and switches.

Shape legend: U unique shapes, D shape columns, S silicon fields, P parameters.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.collectives.codes import EXCHANGES
from perfatlas.operators import BOUND_LATENCY, BOUND_NETWORK

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfatlas.collectives.query import CollectiveQuery
    from perfatlas.operators import FloatArray

# Column layout of `shape_UD`: communicating nodes, bytes through one rank's share of the NICs, the
# bandwidth of that share, the time of the intra-node part, passes over the nodes.
FABRIC_SHAPE: Final = ("nodes", "wire_bytes", "bandwidth", "inside_s", "passes")
FABRIC_PARAMETERS: Final = ("overhead_s", "overhead_doubling_s", "efficiency_fabric")
# An all-reduce makes two passes over the nodes: reduce and broadcast.
PASSES: Final = {"all_reduce": 2.0}


def fabric_time_s(
    shape_UD: FloatArray, silicon_US: FloatArray, parameters_UP: FloatArray
) -> tuple[FloatArray, NDArray[np.int8]]:
    """Return the time of an inter-node exchange and its bound code.

    t = inside + overhead + passes x doubling x log2(nodes) + wire/(efficiency x NIC share);
    only `inside` on a single node.

    Args:
        shape_UD: Columns of `FABRIC_SHAPE` (U, D).
        silicon_US: Unused, as links are part of the shape (U, S).
        parameters_UP: Columns of `FABRIC_PARAMETERS` (U, P).

    Returns:
        Times (U,) [s] and bound codes (U,).

    Source:
        Own formula, fitted to low-latency dispatch and combine times of DeepEP over 1 to 8 nodes
        of H100 and H200 with one 400 Gb/s NIC per GPU (aiconfigurator-core 0.12.0).

    Limits:
        No congestion beyond oversubscription, by which the caller divides the bandwidth.
    """
    del silicon_US
    nodes_U, wire_U, bandwidth_U, inside_U, passes_U = shape_UD.T
    p_PU = parameters_UP.T
    latency_U = p_PU[0] + passes_U * p_PU[1] * np.log2(np.maximum(nodes_U, 1.0))
    moved_U = wire_U / (p_PU[2] * bandwidth_U)
    crosses_U = nodes_U > 1.0
    time_U: FloatArray = inside_U + np.where(crosses_U, latency_U + moved_U, 0.0)
    code_U = np.where(moved_U > latency_U, BOUND_NETWORK, BOUND_LATENCY)
    return time_U, code_U.astype(np.int8)


def exchanges(op: str) -> bool:
    """Return whether ranks send to all other ranks directly.

    Args:
        op: Collective operation.
    """
    return op in EXCHANGES or op == "send_recv"


def slowdown(query: CollectiveQuery) -> FloatArray:
    """Return the slowdown of a node's traffic by oversubscribed uplinks, 1 within a leaf (U,).

    In exchanges, all nodes of a leaf send their share for other leaves through its uplinks at the
    same time. A ring or tree ordered by leaf crosses an uplink once per leaf.
    """
    links, nodes_U = query.links, query.group.ranks_LU[2]
    leaf_U = np.minimum(links.leaf_nodes_U, nodes_U)
    beyond_U = (nodes_U - leaf_U) / np.maximum(nodes_U - 1.0, 1.0)
    crossing_U = beyond_U if exchanges(query.op) else 1.0 / leaf_U
    slower_U = np.maximum(links.oversubscription_U * crossing_U, 1.0)
    return np.where(nodes_U > leaf_U, slower_U, 1.0)
