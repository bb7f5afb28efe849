"""Notes on collectives that were extrapolated, derived or substituted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.collectives.direct_links import direct_algorithm
from perfatlas.collectives.parameters import nic_share, seen_nic_share, unseen_fabric_tails
from perfatlas.quantities import significant

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from perfatlas.collectives.query import CollectiveQuery
    from perfatlas.hardware import System

    FlagArray = NDArray[np.bool_]

RANKS_NOTE: Final = (
    "collectives beyond the measured number of ranks are extrapolated, with the interval of fits on"
    " 2 and 4 ranks scored on 8; small messages are assumed to use a tree where it is shorter"
)
NODE_NOTE: Final = (
    "devices of one node in different domains communicate over the host link, in one ring where"
    " they reduce or gather, with the parameters of the library's collectives inside a domain; no"
    " fit covers this, and the interval is that of unseen fabrics"
)
FABRIC_NOTE: Final = (
    "inter-node collectives are modelled: NIC efficiency and hop cost come from DeepEP exchanges"
    " over 1 to 8 nodes; levels pipeline their chunks (latencies add, the slowest level sets the"
    " bandwidth; over PCIe all bytes share the host link); the upper end of the interval grows with"
    " each doubling of the nodes"
)
NODES_NOTE: Final = (
    "inter-node collectives were measured on at most 8 nodes; beyond that they are extrapolated"
    " without congestion or ring latency over many ranks, and are probably too fast"
)
HOPS_NOTE: Final = (
    "all_gather and reduce_scatter between nodes pass all ranks one after the other; their hops"
    " have the latencies by which NCCL chooses its algorithms, not measured ones, where these are"
    " longer"
)
CONGESTION_NOTE: Final = (
    "inter-node transfers were measured on at most 8 nodes; congestion beyond that is not modelled"
)
SWITCH_NOTE: Final = (
    "in-network all_reduce cannot be distinguished from rings on the measured ranks; on more ranks"
    " the switch is assumed to reduce large messages at the algorithm bandwidth reached there"
)
KERNEL_NOTE: Final = (
    "custom all-reduce kernels on more ranks than were measured are extrapolated, with the interval"
    " of NCCL fits on 2 and 4 ranks scored on 8"
)
TREE_NOTE: Final = (
    "NVLink switches reduce inside each node and trees of nodes exchange the sums over the NICs"
    " (NCCL NVLSTree), so that the bus bandwidth of two nodes may exceed that of their NICs;"
    " switches between nodes reduce only with fabric.in_network_reduction = true (SHARP)"
)
PAIR_NOTE: Final = (
    "two nodes reduce by a tree of all GPUs, which sends every byte once over the NICs, where these"
    " hold a ring back"
)
EXPERTS_NOTE: Final = (
    "dispatch and combine use tier physics: measured rows of one size and number of ranks differ in"
    " tokens, experts and kernel"
)
SEND_NOTE: Final = "send_recv was not measured and is priced as one pair of an all_to_all"


def assumed_fabrics(systems: Sequence[System]) -> tuple[str, ...]:
    """Return a note for each network between nodes that is assumed and not documented.

    Example:
        >>> from perfatlas.collectives.notes import assumed_fabrics
        >>> from perfatlas.hardware import resolve_system
        >>> assumed_fabrics([resolve_system("h100_sxm")])
        ()
    """
    remarks: dict[str, None] = {}
    for system in systems:
        source = system.sources.get("fabric")
        if source is not None and source.kind == "assumed":
            note = (
                f"the network between nodes is assumed: {system.fabric.name}, {system.node.nics}"
                f" NICs of {significant(system.node.nic_bandwidth / 1e9, 4)} GB/s per node of"
                f" {system.device.name}"
            )
            remarks[note] = None
    return tuple(remarks)


def unseen_fabric(system: System) -> str:
    """Return a note on NICs slower than those of the fits, "" for others and for direct links.

    Example:
        >>> from perfatlas.collectives.notes import unseen_fabric
        >>> from perfatlas.hardware import resolve_system
        >>> unseen_fabric(resolve_system("h100_sxm"))
        ''
    """
    share, seen = nic_share(system), seen_nic_share()
    if share >= seen or direct_algorithm(system):
        return ""
    _, slowest = np.exp(unseen_fabric_tails())
    return (
        f"no exchange between nodes with {significant(share / 1e9, 3)} GB/s of NICs per GPU, as in"
        f" nodes of {system.device.name}, is among those that collectives are fitted to"
        f" ({significant(seen / 1e9, 3)} GB/s): the interval is that of unseen fabrics, whose times"
        f" are up to {slowest:.2g} times as predicted"
    )


def library_notes(
    query: CollectiveQuery,
    refused_U: FlagArray,
    pcie_U: FlagArray,
    unmeasured_U: FlagArray,
    likely_U: FlagArray,
) -> list[str]:
    """Return the notes on groups that an engine's custom all-reduce leaves to the library."""
    notes, kernel = [], f"{query.family}'s custom all-reduce"
    if refused_U.any():
        *first, last = map(str, query.custom_groups)
        sizes = f"{', '.join(first)} or {last}" if first else last
        notes.append(f"{kernel} supports groups of {sizes} ranks; others use the library")
    if pcie_U.any():
        sizes = " or ".join(map(str, query.pcie_groups)) or "no"
        notes.append(f"{kernel} supports groups of {sizes} ranks over PCIe; others use the library")
    if unmeasured_U.any():
        indexes = np.unique(query.index_U[unmeasured_U]).tolist()
        names = ", ".join(query.systems[index].name for index in indexes)
        notes.append(f"{kernel} was measured on fewer ranks of {names}; larger groups use NCCL")
    if likely_U.any():
        notes.append(
            f"the interval of larger groups than {kernel} was measured on"
            " begins at this kernel, extrapolated, and ends at the library"
        )
    return notes
