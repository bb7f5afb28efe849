"""Collectives between nodes: messages through NICs and switches, rings over all ranks, and trees.

Shape legend: U unique shapes, L levels, A algorithms and protocols.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfatlas.collectives import notes
from perfatlas.collectives.codes import EXCHANGES
from perfatlas.collectives.parameters import (
    fabric_cells,
    one_doubling,
    unseen_fabric_tails,
    widened,
)
from perfatlas.collectives.physics import NVLS, take_rows
from perfatlas.collectives.placement import DOMAIN, FABRIC, NODE
from perfatlas.collectives.wire import between_nodes_wire_bytes, ring_wire_bytes
from perfatlas.files import shipped_table
from perfatlas.operators import BOUND_LATENCY, BOUND_NETWORK, with_fields
from perfatlas.quantities import MICROSECOND_S

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfatlas.collectives.placement import Group, Links
    from perfatlas.collectives.query import CollectiveQuery, LevelTimes
    from perfatlas.operators import FloatArray

    FlagArray = NDArray[np.bool_]
    Names = NDArray[np.str_]

# An all-reduce makes two passes over the nodes: reduce and broadcast.
PASSES: Final = {"all_reduce": 2.0}
NODES_MEASURED: Final = 8.0  # largest number of nodes in the fabric's calibration
# Bytes that a tree of GPUs reduces per byte that a ring moves over a link.
TREE_RATE: Final = 0.92 * 0.5
RINGS: Final = "data/collectives/nccl_rings.toml"
LIBRARY_VENDOR: Final = "NVIDIA"  # of NCCL, whose constants these are
SMALLEST_BYTES: Final = 64.0  # of a message whose share is known [bytes]
# Trees serve all-reduce alone.
HOP_OPS: Final = ("all_gather", "reduce_scatter")


class FabricShape(NamedTuple):
    """An exchange between nodes, as columns (U,)."""

    nodes: FloatArray  # Communicating nodes
    wire_bytes: FloatArray  # Bytes through one rank's share of the NICs [bytes]
    bandwidth: FloatArray  # Bandwidth of that share [bytes/s]
    inside_s: FloatArray  # Time of the intra-node part [s]
    passes: FloatArray  # Passes over the nodes


class FabricParameters(NamedTuple):
    """Fitted parameters of an exchange between nodes, as columns (U,)."""

    overhead_s: FloatArray
    overhead_doubling_s: FloatArray
    efficiency_fabric: FloatArray


class Fabric(NamedTuple):
    """What a ring between nodes depends on besides its ranks."""

    # Transfer through a rank's share of the NICs at the full speed of a ring (U,) [s]
    wire_s_U: FloatArray
    nics_U: FloatArray  # Bandwidth of the NICs of a group's node (U,) [bytes/s]
    pcie_U: FlagArray  # Where hops inside a node use PCIe (U,)
    network_s_U: FloatArray  # Minimum latency of a hop between nodes (U,) [s]
    least_s_U: FloatArray  # Minimum latency of the whole operation (U,) [s]
    inside_s_U: FloatArray  # Transfer inside nodes, at the same time (U,) [s]


class FabricTimes(NamedTuple):
    """The fastest algorithm and protocol of each group."""

    latency_s_U: FloatArray  # Its hops, one after the other (U,) [s]
    moving_s_U: FloatArray  # Its transfer between nodes (U,) [s]
    pat_U: FlagArray  # Where it is PAT, not a ring (U,)


class SumTimes(NamedTuple):
    """The fastest algorithm and protocol of all-reduces between nodes."""

    time_s_U: FloatArray  # Beside the levels inside nodes (U,) [s]
    latency_s_U: FloatArray  # Its hops, one after the other (U,) [s]
    tree_U: FlagArray  # Where it is a tree (U,)


def fabric_time_s(
    shape: FabricShape, parameters: FabricParameters
) -> tuple[FloatArray, NDArray[np.int8]]:
    """Return the time of an inter-node exchange (U,) [s] and its bound code.

    t = inside + overhead + passes x doubling x log2(nodes) + wire/(efficiency x NIC share);
    only `inside` on a single node.

    Source:
        Own formula, fitted to low-latency dispatch and combine times of DeepEP over 1 to 8 nodes
        of H100 and H200 with one 400 Gb/s NIC per GPU (aiconfigurator-core 0.12.0).

    Limits:
        No congestion beyond oversubscription, by which the caller divides the bandwidth.
    """
    doublings_s_U = shape.passes * parameters.overhead_doubling_s
    latency_U = parameters.overhead_s + doublings_s_U * np.log2(np.maximum(shape.nodes, 1.0))
    moved_U = shape.wire_bytes / (parameters.efficiency_fabric * shape.bandwidth)
    time_U: FloatArray = shape.inside_s + np.where(shape.nodes > 1.0, latency_U + moved_U, 0.0)
    code_U = np.where(moved_U > latency_U, BOUND_NETWORK, BOUND_LATENCY)
    return time_U, code_U.astype(np.int8)


def with_fabric(query: CollectiveQuery, inner: LevelTimes) -> LevelTimes:
    """Return the levels with the fabric added, for groups that span nodes."""
    nodes_U = query.group.ranks_LU[FABRIC]
    crosses_U = nodes_U > 1.0
    if not np.any(crosses_U & (inner.match_U >= 0)):
        return inner
    query = _with_switches(query)
    cells = fabric_cells(query.systems, FabricParameters)
    parameters = take_rows(cells.parameters_S, query.index_U)
    doubling_s_U = np.maximum(parameters.overhead_doubling_s, query.links.latency_s_LU[FABRIC])
    parameters = parameters._replace(overhead_doubling_s=doubling_s_U)
    time_U, latency_U, tree_U, hops = _between_nodes_s(query, inner, parameters)
    # Only exchanges between up to 8 nodes were measured. The error of one doubling of the ranks is
    # assumed to accumulate over further doublings of the nodes, on the slow side only: neglected
    # effects take time, and more nodes are not faster.
    seen, fewer = (NODES_MEASURED, 0.0) if exchanges(query.op) else (1.0, 1.0)
    doublings_U = np.log2(np.maximum(nodes_U / seen, 1.0))
    wide_U2 = np.column_stack((np.full_like(doublings_U, fewer), doublings_U))
    tails_U2 = widened(inner.tails_U2, cells.tails_S2[query.index_U])
    tails_U2 = tails_U2 + wide_U2 * one_doubling(query.op)
    slow_U = np.array([bool(notes.unseen_fabric(system)) for system in query.systems])
    slow_U = slow_U[query.index_U]
    tails_U2 = np.where(slow_U[:, None], widened(tails_U2, unseen_fabric_tails()[None]), tails_U2)
    # Inside a node, reductions and gathers are never faster than on that node alone.
    low_U, _ = inner.tails_U2.T
    inside_s_U = inner.time_s_LU[DOMAIN] * np.exp(low_U)
    hierarchical_U = crosses_U & (query.op not in EXCHANGES)
    added = [*cells.notes, *_fabric_notes(query, crosses_U)]
    added += [notes.TREE_NOTE] if _sums_by_trees(query, crosses_U, inner) else []
    added += [notes.PAIR_NOTE] if np.any(tree_U & _may_use_tree(query)) else []
    return with_fields(
        inner,
        time_s_LU=np.stack((*inner.time_s_LU[:FABRIC], time_U)),
        latency_s_LU=np.stack((*inner.latency_s_LU[:FABRIC], latency_U)),
        tails_U2=np.where(crosses_U[:, None], tails_U2, inner.tails_U2),
        least_s_U=np.where(hierarchical_U, inside_s_U, 0.0),
        algorithms=lambda: np.where(
            tree_U,
            "hierarchical_tree",
            _across_nodes(query, crosses_U, inner.algorithms(), hops),
        ),
        notes=(*inner.notes, *added),
    )


def exchanges(op: str) -> bool:
    """Return whether ranks send to all other ranks directly."""
    return op in EXCHANGES or op == "send_recv"


def _between_nodes_s(
    query: CollectiveQuery, inner: LevelTimes, parameters: FabricParameters
) -> tuple[FloatArray, FloatArray, FlagArray, FabricTimes | None]:
    """Return time and latency of the fabric, where a tree is used, and hops (U,) [s]."""
    nodes_U, wire_U = query.group.ranks_LU[FABRIC], _fabric_bytes(query)
    crosses_U, zero_U = nodes_U > 1.0, np.zeros_like(wire_U)
    slower_U = query.slowdown_U
    if slower_U is None:
        slower_U = uplink_slowdown(query.op, query.group, query.links)
    shape = FabricShape(
        nodes=np.minimum(nodes_U, 2.0) if query.op == "send_recv" else nodes_U,
        wire_bytes=wire_U,
        bandwidth=query.links.bandwidth_LU[FABRIC] / slower_U,
        inside_s=zero_U,
        passes=np.full_like(wire_U, PASSES.get(query.op, 1.0)),
    )
    time_U, _ = fabric_time_s(shape, parameters)
    latency_U, _ = fabric_time_s(shape._replace(wire_bytes=zero_U), parameters)
    hops = None
    if query.op in HOP_OPS:
        # Hops inside nodes are counted here, less the latency of the levels inside a node.
        inner_s_U = inner.latency_s_LU.sum(axis=0)
        ring = Fabric(
            wire_s_U=time_U - latency_U,
            nics_U=query.links.bandwidth_LU[FABRIC] * query.group.inside_LU[NODE],
            pcie_U=query.links.one_link_U > 0.0,
            network_s_U=query.links.latency_s_LU[FABRIC],
            least_s_U=inner_s_U + latency_U,
            inside_s_U=(inner.time_s_LU - inner.latency_s_LU).max(axis=0),
        )
        hops = ring_between_nodes_s(query.group.ranks_U, np.maximum(nodes_U, 1.0), ring)
        hops = hops._replace(latency_s_U=hops.latency_s_U - inner_s_U)
        latency_U = np.where(crosses_U, hops.latency_s_U, latency_U)
        time_U = np.where(crosses_U, latency_U + hops.moving_s_U, time_U)
    reached_U = shape.bandwidth * parameters.efficiency_fabric
    tree_time_U = latency_U + _tree_of_two_s(query, inner, reached_U)
    tree_U = _may_use_tree(query) & (tree_time_U < time_U)
    time_U = np.where(tree_U, tree_time_U, time_U)
    by_library_U = _sums_by_library(query)
    if np.any(by_library_U):
        sums = _sums_between_nodes_s(query, inner, time_U - latency_U)
        time_U = np.where(by_library_U, sums.time_s_U, time_U)
        latency_U = np.where(by_library_U, sums.latency_s_U, latency_U)
        tree_U = np.where(by_library_U, sums.tree_U, tree_U)
    return time_U, latency_U, tree_U, hops


def _sums_by_library(query: CollectiveQuery) -> FlagArray:
    """Return the all-reduces of NVIDIA's library between nodes, without switches that add (U,)."""
    ours = [system.device.vendor == LIBRARY_VENDOR for system in query.systems]
    crosses_U = (query.group.ranks_LU[FABRIC] > 1.0) & (query.links.fabric_adds_U == 0.0)
    sums_U: FlagArray = np.array(ours)[query.index_U] & crosses_U & (query.op == "all_reduce")
    return sums_U


def _sums_between_nodes_s(
    query: CollectiveQuery, inner: LevelTimes, moving_s_U: FloatArray
) -> SumTimes:
    """Return the times of all-reduces between nodes beside the levels inside.

    The fastest of trees and rings by protocol, as the library itself chooses; LL pays its hops
    least and its bytes most. What is slowest of all levels moves at the share of the protocol.

    Source: `sums` in data/collectives/nccl_rings.toml.

    Limits: Constants of NCCL's own choice, not times that were measured here. Where the switches
        of nodes add, large messages have the hops of rings: with the fewer hops that NCCL counts
        for NVLSTree, published sums of 64 to 256 MiB are 20 to 30% too fast. Shares between two
        sizes are interpolated.

    Args:
        moving_s_U: Transfer between nodes at the full speed of a ring (U,) [s].
    """
    ranks_U, nodes_U = query.group.ranks_U, np.maximum(query.group.ranks_LU[FABRIC], 1.0)
    network_us_U = query.links.latency_s_LU[FABRIC] / MICROSECOND_S
    inner_s_U = inner.latency_s_LU.sum(axis=0)
    moving_s_U = np.maximum(moving_s_U, (inner.time_s_LU - inner.latency_s_LU).max(axis=0))
    doublings_U = np.log2(np.maximum(query.bytes_U / SMALLEST_BYTES, 1.0))
    latency, moving, trees = [], [], []
    for row in shipped_table(RINGS)["sums"]["protocol"]:
        trees.append(row["algorithm"] == "tree")
        hop_us_U = np.where(query.links.one_link_U > 0.0, row["pcie_us"], row["nvlink_us"])
        between_us_U = np.maximum(row["network_us"], network_us_U)
        inside_U, between_U = ranks_U / nodes_U - 1.0, np.log2(nodes_U)
        if not trees[-1]:
            inside_U, between_U = ranks_U - nodes_U, nodes_U - 1.0
        inside_us_U = np.where(inside_U > 0.0, hop_us_U, 0.0) * inside_U
        node_us_U = np.maximum(row["base_us"] + 2.0 * inside_us_U, inner_s_U / MICROSECOND_S)
        hops_us_U = node_us_U + 2.0 * between_U * between_us_U
        latency.append(hops_us_U * row.get("latency_times", 1.0))
        shares = row.get("by_size", [1.0])
        share_U = np.interp(doublings_U, np.arange(len(shares)), shares) * row["bandwidth"]
        capped_s_U = query.bytes_U / row["most_bytes_per_s"]
        moving.append(np.maximum(moving_s_U / share_U, capped_s_U))
    latency_s_AU = np.stack(latency) * MICROSECOND_S
    fastest_U = (latency_s_AU + np.stack(moving)).argmin(axis=0)
    at_U = np.arange(fastest_U.size)
    latency_s_U = np.maximum(latency_s_AU[fastest_U, at_U] - inner_s_U, 0.0)
    time_s_U = latency_s_U + np.stack(moving)[fastest_U, at_U]
    return SumTimes(time_s_U, latency_s_U, np.array(trees)[fastest_U])


def uplink_slowdown(op: str, group: Group, links: Links) -> FloatArray:
    """Return the slowdown of a node's traffic by oversubscribed uplinks, 1 within a leaf (U,).

    In exchanges, all nodes of a leaf or pod send their share for others through its uplinks at the
    same time. A ring or tree ordered by leaf crosses an uplink once per leaf.
    """
    nodes_U = group.ranks_LU[FABRIC]
    slower_U: FloatArray = np.ones_like(nodes_U)
    for tier_U, ratio_U in zip(links.unit_TU, links.oversubscription_TU, strict=True):
        unit_U = np.minimum(tier_U, nodes_U)
        beyond_U = (nodes_U - unit_U) / np.maximum(nodes_U - 1.0, 1.0)
        crossing_U = beyond_U if exchanges(op) else (nodes_U > unit_U) / unit_U
        np.maximum(slower_U, ratio_U * crossing_U, out=slower_U)
    return slower_U


def _with_switches(query: CollectiveQuery) -> CollectiveQuery:
    """Return the query with the latency of two more switches for each tier that a group spans."""
    links, nodes_U = query.links, query.group.ranks_LU[FABRIC]
    tiers_U = (nodes_U > links.unit_TU).sum(axis=0)
    latency_s_LU = links.latency_s_LU.copy()
    latency_s_LU[FABRIC] += 2.0 * tiers_U * links.switch_s_U
    return with_fields(query, links=links._replace(latency_s_LU=latency_s_LU))


def _fabric_bytes(query: CollectiveQuery) -> FloatArray:
    """Return the bytes through one rank's share of its node's NICs (U,) [bytes]."""
    group, bytes_U = query.group, query.bytes_U
    nodes_U = group.ranks_LU[FABRIC]
    if exchanges(query.op):
        return ring_wire_bytes(query.op, query.size_LU[FABRIC], nodes_U)
    adds_U = query.adds_inside() * (group.ranks_LU[DOMAIN] > 1.0)
    node_U = between_nodes_wire_bytes(query.op, bytes_U, group.ranks_U, nodes_U, adds_U)
    if query.op == "all_reduce":  # in-network reduction: each node sends S and receives S
        once_U = np.where(nodes_U > 1.0, bytes_U, 0.0)
        node_U = np.where(query.links.fabric_adds_U > 0.0, np.minimum(node_U, once_U), node_U)
    shared_U: FloatArray = node_U / group.inside_LU[NODE]
    return shared_U


def ring_between_nodes_s(ranks_U: FloatArray, nodes_U: FloatArray, fabric: Fabric) -> FabricTimes:
    """Return latency and transfer of the fastest all-gather or reduce-scatter over nodes (U,) [s].

    A ring passes its n ranks one after the other, n - nodes hops inside nodes and nodes - 1 between
    them. Groups with one rank per node may use PAT, whose latency has a logarithmic and a linear
    part.

    Source: `ncclTopoTuneModel` in src/graph/tuning.cc of NVIDIA/nccl.

    Limits: Constants of NCCL's own choice of algorithms, not times that were measured here.

    Example:
        >>> import numpy as np
        >>> from perfatlas.collectives.fabric import Fabric, ring_between_nodes_s
        >>> one = np.ones(1)
        >>> fabric = Fabric(1e-3 * one, 400e9 * one, one < 0.0, 0.0 * one, 0.0 * one, 0.0 * one)
        >>> ring = ring_between_nodes_s(512.0 * one, 64.0 * one, fabric)
        >>> float(ring.latency_s_U[0].round(7))  # 14 us, 448 hops of 1.9 us and 63 of 4 us
        0.0011172
    """
    data, alone_U = shipped_table(RINGS), ranks_U == nodes_U
    network_us_U = fabric.network_s_U / MICROSECOND_S
    latency, moving = [], []
    for protocol in data["protocol"]:
        hop_us_U = np.where(fabric.pcie_U, protocol["pcie_us"], protocol["nvlink_us"])
        inside_us_U = np.where(alone_U, 0.0, hop_us_U) * (ranks_U - nodes_U)
        usual_us_U = np.where(alone_U, protocol["alone_us"], protocol["network_us"])
        between_us_U = (nodes_U - 1.0) * np.maximum(usual_us_U, network_us_U)
        latency.append(protocol["base_us"] + inside_us_U + between_us_U)
        speed_U = np.minimum(protocol["bandwidth"], protocol["most_bytes_per_s"] / fabric.nics_U)
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


def _sums_by_trees(query: CollectiveQuery, crosses_U: FlagArray, inner: LevelTimes) -> bool:
    """Return whether a group reduces in the switches of its nodes and by trees between them."""
    between_U = crosses_U & (query.links.fabric_adds_U == 0.0)
    if query.op != "all_reduce" or not np.any(between_U):
        return False
    return bool(np.any(between_U & (inner.algorithms() == NVLS)))


def _may_use_tree(query: CollectiveQuery) -> FlagArray:
    """Return where a tree of all GPUs of two nodes may reduce (U,).

    Limits:
        Not over PCIe, whose rings were measured, and not over one GPU per node, whose ring sends as
        many bytes.
    """
    linked_U = (query.links.one_link_U == 0.0) & (query.group.ranks_LU[DOMAIN] > 1.0)
    pair_U = (query.group.ranks_LU[FABRIC] == 2.0) & (query.adds_inside() == 0.0)
    by_tree_U: FlagArray = linked_U & pair_U & (query.op == "all_reduce")
    return by_tree_U


def _tree_of_two_s(
    query: CollectiveQuery, inner: LevelTimes, nic_bytes_per_s_U: FloatArray
) -> FloatArray:
    """Return the transfer of an all-reduce of two nodes by a tree, on the slower level (U,) [s].

    Each node sends all bytes once, about half of what a ring sends. Inside a node, a tree is slower
    than the ring.

    `nic_bytes_per_s_U` is the reached bandwidth of one rank's share of the NICs (U,) [bytes/s].

    Source: NVIDIA/nccl@5067397c src/graph/tuning.cc: `busBw*.92` and the ratio .5 of trees, and
        `bwIntra` for up to two nodes; NVIDIA/nccl-tests issues 160 and 196: two nodes use a tree.

    Limits: Latency is that of the ring's formula.
    """
    inside_s_U = (inner.time_s_LU - inner.latency_s_LU).max(axis=0)
    ring_bytes_U = ring_wire_bytes("all_reduce", query.bytes_U, query.group.ranks_LU[DOMAIN])
    chain_s_U = inside_s_U * query.bytes_U / np.maximum(ring_bytes_U, 1.0) / TREE_RATE
    share_U = query.bytes_U / query.group.inside_LU[NODE]
    slower_U: FloatArray = np.maximum(share_U / nic_bytes_per_s_U, chain_s_U)
    return slower_U


def _across_nodes(
    query: CollectiveQuery, crosses_U: FlagArray, inside_U: Names, hops: FabricTimes | None
) -> Names:
    """Return the algorithms of groups, of those that span nodes with what they run inside (U,)."""
    if hops is not None:
        return np.where(crosses_U, np.where(hops.pat_U, "pat", "ring"), inside_U)
    alone_U = query.group.inside_LU[NODE] == 1.0
    sharp_U = query.links.fabric_adds_U > 0.0
    named_U = np.char.add("hierarchical_", inside_U.astype(np.str_))
    named_U = np.where(inside_U == NVLS, np.where(sharp_U, "nvls_sharp", "nvls_tree"), named_U)
    return np.where(crosses_U, np.where(alone_U, "fabric", named_U), inside_U)


def _fabric_notes(query: CollectiveQuery, crosses_U: FlagArray) -> list[str]:
    """Return the notes on groups that span nodes."""
    indexes = np.flatnonzero(np.bincount(query.index_U[crosses_U])).tolist()
    crossed = [query.systems[index] for index in indexes]
    hops, many = [], notes.NODES_NOTE
    if query.op in HOP_OPS:
        hops, many = [notes.HOPS_NOTE], notes.CONGESTION_NOTE
    unseen = filter(None, map(notes.unseen_fabric, crossed))
    beyond = np.any(crosses_U & (query.group.ranks_LU[FABRIC] > NODES_MEASURED))
    remarks = [notes.FABRIC_NOTE, *hops, *notes.assumed_fabrics(crossed), *unseen]
    return [*remarks, *([many] if beyond else [])]
