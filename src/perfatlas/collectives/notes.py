"""Notes on collectives that were extrapolated, derived or substituted."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.collectives.parameters import nic_share, seen_nic_share, unseen_fabric_tails
from perfatlas.collectives.scheduled import are_scheduled
from perfatlas.collectives.torus import are_tori
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
    "devices of one node in different domains communicate over the host link, with the parameters"
    " of the library's collectives inside a domain; this is in no fit, and the interval is that of"
    " unseen fabrics"
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
    "inter-node transfers were measured on at most 8 nodes; congestion beyond that is left out"
)
SWITCH_NOTE: Final = (
    "in-network all_reduce cannot be told from rings on the measured ranks; on more ranks the"
    " switch is assumed to reduce large messages at the algorithm bandwidth reached there"
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
    found: dict[str, None] = {}
    for system in systems:
        source = system.sources.get("fabric")
        if source is not None and source.kind == "assumed":
            note = (
                f"the network between nodes is assumed: {system.fabric.name}, {system.node.nics}"
                f" NICs of {significant(system.node.nic_bandwidth / 1e9, 4)} GB/s per node of"
                f" {system.device.name}"
            )
            found[note] = None
    return tuple(found)


def unseen_fabric(system: System) -> str:
    """Return a note on NICs slower than those of the fits, "" for others and for direct links.

    Example:
        >>> from perfatlas.collectives.notes import unseen_fabric
        >>> from perfatlas.hardware import resolve_system
        >>> unseen_fabric(resolve_system("h100_sxm"))
        ''
    """
    share, seen = nic_share(system), seen_nic_share()
    if share >= seen or are_tori([system])[0] or are_scheduled([system])[0]:
        return ""
    return (
        f"no exchange between nodes with {significant(share / 1e9, 3)} GB/s of NICs per GPU, as in"
        f" nodes of {system.device.name}, is among those that collectives are fitted to"
        f" ({significant(seen / 1e9, 3)} GB/s): the interval is that of unseen fabrics, whose times"
        f" are up to {math.exp(unseen_fabric_tails()[1]):.2g} times as predicted"
    )


def library_notes(
    query: CollectiveQuery,
    refused_U: FlagArray,
    pcie_U: FlagArray,
    unmeasured_U: FlagArray,
    likely_U: FlagArray,
) -> list[str]:
    """Return the notes on groups that an engine's custom all-reduce leaves to the library.

    Args:
        refused_U: Groups of unsupported sizes (U,).
        pcie_U: Groups of sizes that are unsupported over PCIe (U,).
        unmeasured_U: Groups of more ranks than were measured (U,).
        likely_U: Groups whose interval begins at the extrapolated kernel (U,).
    """
    notes = []
    if refused_U.any():
        notes.append(refused_groups(query.family, query.custom_groups))
    if pcie_U.any():
        notes.append(refused_pcie_groups(query.family, query.pcie_groups))
    if unmeasured_U.any():
        found = np.unique(query.index_U[unmeasured_U]).tolist()
        notes.append(
            unmeasured_groups(query.family, [query.systems[place].name for place in found])
        )
    if likely_U.any():
        notes.append(
            f"the interval of larger groups than {query.family}'s custom all-reduce was measured on"
            " begins at this kernel, extrapolated, and ends at the library"
        )
    return notes


def refused_groups(family: str, sizes: Sequence[int]) -> str:
    """Return the note on group sizes that an engine's custom all-reduce does not support.

    Example:
        >>> from perfatlas.collectives.notes import refused_groups
        >>> refused_groups("vllm", (2, 4))
        "vllm's custom all-reduce supports groups of 2 or 4 ranks; others use the library"
    """
    *first, last = (str(size) for size in sizes)
    named = f"{', '.join(first)} or {last}" if first else last
    return f"{family}'s custom all-reduce supports groups of {named} ranks; others use the library"


def unmeasured_groups(family: str, names: Sequence[str]) -> str:
    """Return the note on groups larger than those that an engine's all-reduce was measured on.

    Example:
        >>> from perfatlas.collectives.notes import unmeasured_groups
        >>> unmeasured_groups("vllm", ["gb200"])
        "vllm's custom all-reduce was measured on fewer ranks of gb200; larger groups use NCCL"
    """
    return (
        f"{family}'s custom all-reduce was measured on fewer ranks of {', '.join(names)}; larger"
        " groups use NCCL"
    )


def refused_pcie_groups(family: str, sizes: Sequence[int]) -> str:
    """Return the note on groups without NVLink that an engine leaves to the library.

    Args:
        sizes: Group sizes that its custom all-reduce supports over PCIe; empty for none.

    Example:
        >>> from perfatlas.collectives.notes import refused_pcie_groups
        >>> refused_pcie_groups("vllm", (2,))
        "vllm's custom all-reduce supports groups of 2 ranks over PCIe; others use the library"
    """
    named = " or ".join(str(size) for size in sizes) or "no"
    return (
        f"{family}'s custom all-reduce supports groups of {named} ranks over PCIe; others use the"
        " library"
    )
