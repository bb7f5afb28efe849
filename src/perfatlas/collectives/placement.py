"""Placement of a group of ranks: which members share a domain, a node, or only the fabric.

Shape legend: U unique shapes, L levels (scale-up domain, node, fabric), T tiers of the fabric.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfatlas.hardware import System
    from perfatlas.operators import FloatArray, IntArray


DOMAIN, NODE, FABRIC = range(3)  # levels of links, innermost first
# Scale-up networks without a switch between devices.
POINT_TO_POINT: Final = (
    *("infinity_fabric", "ici", "nvlink_mesh", "c2c_mesh"),
    *("neuronlink", "roce_mesh"),
)
TORUS_LINKS: Final = ("ici", "neuronlink")  # of these, whose links lead to neighbours alone
# Scale-up network that is the host link, which also carries the traffic of the NICs.
HOST_LINK: Final = "pcie"


class Links(NamedTuple):
    """The links available to a group, per level, as columns."""

    size_LU: FloatArray  # Ranks in one unit of the level; infinite for the fabric (L, U)
    bandwidth_LU: FloatArray  # Bandwidth of one rank per direction (L, U) [bytes/s]
    latency_s_LU: FloatArray  # Latency of one hop (L, U) [s]
    in_network_U: FloatArray  # 1 where the switch of the domain reduces (U,)
    # NICs below a leaf and a pod over their uplinks (T, U)
    oversubscription_TU: FloatArray
    unit_TU: (
        FloatArray  # Nodes, or domains of several, per leaf and per pod; infinite without (T, U)
    )
    switch_s_U: FloatArray  # Latency of one more switch of the fabric (U,) [s]
    fabric_adds_U: FloatArray  # 1 where the switches of the fabric reduce (U,)
    direct_U: FloatArray  # Devices that a device has direct links to, 0 with a switch (U,)
    one_link_U: FloatArray  # 1 where all levels share the device's host link (PCIe) (U,)


class Group(NamedTuple):
    """Placement of a group of ranks."""

    ranks_LU: FloatArray  # Members that communicate on each level; 1 where none do (L, U)
    inside_LU: FloatArray  # Members within one unit of the level (L, U)
    ranks_U: FloatArray  # Size of the group (U,)


def link_columns(systems: Sequence[System], system_index_U: IntArray) -> Links:
    """Return the links of the system of each shape.

    Where a domain is smaller than the node, a device reaches the rest of the node over its host
    link. The devices of a node share its NICs equally.

    Args:
        system_index_U: Position in `systems` of each shape (U,).

    Limits:
        All groups of a system communicate at once, so no group uses idle NICs of another.
    """
    rows = [_links_of(system) for system in systems]
    columns = (np.array(column, dtype=np.float64).T for column in zip(*rows, strict=True))
    return Links(*(column[..., system_index_U] for column in columns))


def _links_of(system: System) -> Links:
    """Return the links of one system, of which each field is one row."""
    device, node, fabric = system.device, system.node, system.fabric
    scale_up = device.scale_up
    domain, inner, host = (
        float(scale_up.domain_size),
        scale_up.bandwidth,
        device.host_link_bandwidth,
    )
    servers = max(domain / node.devices, 1.0)  # of one domain
    peers = scale_up.links if scale_up.kind in TORUS_LINKS else domain - 1.0
    if scale_up.kind == HOST_LINK:  # one link for both
        inner = min(inner, host)
    row: dict[str, Any] = {
        "size_LU": (domain, max(domain, float(node.devices)), np.inf),
        "bandwidth_LU": (inner, host, node.nics * node.nic_bandwidth / node.devices),
        "latency_s_LU": (scale_up.latency_s, scale_up.latency_s, fabric.latency_s),
        "in_network_U": scale_up.in_network_reduction,
        "oversubscription_TU": (fabric.oversubscription, fabric.pod_oversubscription),
        "unit_TU": (
            max(fabric.leaf_nodes / servers, 1.0),
            max(fabric.pod_nodes / servers, 1.0) if fabric.pod_nodes else np.inf,
        ),
        "switch_s_U": fabric.switch_latency_s,
        "fabric_adds_U": fabric.in_network_reduction,
        "direct_U": min(scale_up.links, peers) if scale_up.kind in POINT_TO_POINT else 0.0,
        "one_link_U": scale_up.kind == HOST_LINK,
    }
    return Links(**row)


def within_group(links: Links, group: Group) -> Links:
    """Return the links with the bandwidth available to a group inside its domain.

    Without a switch, a device has as many links to each other device, so a group of n uses at most
    those to n - 1 of them.

    Limits:
        In the hybrid cube mesh of a DGX-1, GPUs 0 and 1 have one link and 2 and 3 two; all pairs
        have one here.
    """
    usable_U = np.minimum(group.ranks_LU[DOMAIN] - 1.0, links.direct_U)
    share_U = np.where(usable_U > 0.0, usable_U / np.maximum(links.direct_U, 1.0), 1.0)
    bandwidth_LU = links.bandwidth_LU.copy()
    bandwidth_LU[DOMAIN] *= share_U
    return links._replace(bandwidth_LU=bandwidth_LU)


def place_group(ranks_U: FloatArray, stride_U: FloatArray, links: Links) -> Group:
    """Return the placement of each group over domains, nodes and fabric.

    A unit of `size` consecutive ranks holds floor(size/stride) members of a group, at least 1 and
    at most all. On the node level, the members inside a domain count as one; on the fabric level,
    those inside a node count as one.

    Args:
        ranks_U: Size of the group (U,).
        stride_U: Distance between neighbours in the global rank order (U,).

    Limits:
        Groups start at the first rank of a unit; a partially filled last unit counts as full.
    """
    fits_LU = np.floor(links.size_LU / np.maximum(stride_U, 1.0))
    inside_LU = np.clip(fits_LU, 1.0, np.maximum(ranks_U, 1.0))
    ranks_LU = np.empty_like(inside_LU)
    ranks_LU[DOMAIN] = inside_LU[DOMAIN]
    ranks_LU[NODE:] = np.ceil(inside_LU[NODE:] / inside_LU[:FABRIC])
    return Group(ranks_LU=ranks_LU, inside_LU=inside_LU, ranks_U=ranks_U)


def fabric_units(system: System, ranks: float) -> int:
    """Return the nodes, or scale-up domains of several, of a group of consecutive ranks."""
    one = np.zeros(1, np.int64)
    group = place_group(np.array([ranks]), np.ones(1), link_columns([system], one))
    return int(group.ranks_LU[FABRIC, 0])


def talking_group(op: str, group: Group) -> Group:
    """Return the members that communicate at once; a send has two ends in any group."""
    if op != "send_recv":
        return group
    ranks_LU = group.ranks_LU.copy()
    ranks_LU[:FABRIC] = np.minimum(ranks_LU[:FABRIC], 2.0)
    return group._replace(ranks_LU=ranks_LU)


def level_bytes(op: str, bytes_U: FloatArray, group: Group) -> FloatArray:
    """Return the size of the operation on each level, as counted by nccl-tests (L, U) [bytes].

    all_reduce, all_gather and reduce_scatter are hierarchical: the shard of one member of the inner
    unit crosses the outer level. Exchanges send to every member directly: the share of the buffer
    for members outside the inner unit crosses the outer level.
    """
    if op == "send_recv":
        return np.broadcast_to(bytes_U, group.ranks_LU.shape)
    if op in ("all_reduce", "all_gather", "reduce_scatter"):
        inner_LU = np.ones_like(group.ranks_LU)
        inner_LU[NODE:] = np.cumprod(group.ranks_LU, axis=0)[:FABRIC]
        shard_LU: FloatArray = bytes_U / inner_LU
        return shard_LU
    sent_LU: FloatArray = bytes_U * group.inside_LU / np.maximum(group.ranks_U, 1.0)
    return sent_LU
