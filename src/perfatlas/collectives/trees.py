"""All-reduce by trees: of all GPUs of two nodes, or of nodes whose switches reduce inside.

Shape legend: U unique shapes, L levels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.collectives.algorithms import NVLS
from perfatlas.collectives.wire import ring_wire_bytes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfatlas.collectives.query import CollectiveQuery, LevelTimes
    from perfatlas.operators import FloatArray

# Bytes that a tree of GPUs reduces per byte that a ring moves over a link.
TREE_RATE: Final = 0.92 * 0.5


def sums_by_trees(query: CollectiveQuery, crosses_U: NDArray[np.bool_], inner: LevelTimes) -> bool:
    """Return whether a group reduces in the switches of its nodes and by trees between them.

    Args:
        crosses_U: Where the group spans nodes (U,).
        inner: Times inside a node.
    """
    between_U = crosses_U & (query.links.fabric_adds_U == 0.0)
    if query.op != "all_reduce" or not np.any(between_U):
        return False
    return bool(np.any(between_U & (inner.algorithms() == NVLS)))


def two_by_tree(query: CollectiveQuery, adds_inside_U: FloatArray) -> NDArray[np.bool_]:
    """Return where a tree of all GPUs of two nodes may reduce (U,).

    Args:
        adds_inside_U: 1 where the switch inside a node reduces, else 0 (U,).

    Limits:
        Not over PCIe, whose rings were measured, and not over one GPU per node, whose ring sends as
        many bytes.
    """
    linked_U = (query.links.one_link_U == 0.0) & (query.group.ranks_LU[0] > 1.0)
    pair_U = (query.group.ranks_LU[2] == 2.0) & (adds_inside_U == 0.0)
    by_tree_U: NDArray[np.bool_] = linked_U & pair_U & (query.op == "all_reduce")
    return by_tree_U


def tree_of_two_s(
    query: CollectiveQuery, inner: LevelTimes, nic_bytes_per_s_U: FloatArray
) -> FloatArray:
    """Return the transfer of an all-reduce of two nodes by a tree, on the slower level (U,) [s].

    Each node sends all bytes once, about half of what a ring sends. Inside a node, a tree is slower
    than the ring.

    Args:
        inner: Times inside a node.
        nic_bytes_per_s_U: Reached bandwidth of one rank's share of the NICs (U,) [bytes/s].

    Source: NVIDIA/nccl@5067397c src/graph/tuning.cc: `busBw*.92` and the ratio .5 of trees, and
        `bwIntra` for up to two nodes; NVIDIA/nccl-tests issues 160 and 196: two nodes use a tree.

    Limits: Latency is that of the ring's formula.
    """
    inside_s_U = (inner.time_s_LU - inner.latency_s_LU).max(axis=0)
    ring_bytes_U = ring_wire_bytes("all_reduce", query.bytes_U, query.group.ranks_LU[0])
    chain_s_U = inside_s_U * query.bytes_U / np.maximum(ring_bytes_U, 1.0) / TREE_RATE
    share_U = query.bytes_U / query.group.inside_LU[1]
    slower_U: FloatArray = np.maximum(share_U / nic_bytes_per_s_U, chain_s_U)
    return slower_U
