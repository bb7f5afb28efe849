"""Notes on collectives that were extrapolated, derived or substituted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

RANKS_NOTE: Final = (
    "collectives beyond the measured number of ranks are extrapolated, with the interval of fits on"
    " 2 and 4 ranks scored on 8; small messages are assumed to use a tree where it is shorter"
)
NODE_NOTE: Final = (
    "devices of one node in different domains communicate over the host link, with the parameters"
    " of the library's collectives inside a domain; this was not measured"
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
SWITCH_NOTE: Final = (
    "in-network all_reduce was not observed on the measured ranks; large ones are priced as rings"
    " on more ranks too, which is probably too slow"
)
EXPERTS_NOTE: Final = (
    "dispatch and combine use tier physics: measured rows of one size and number of ranks differ in"
    " tokens, experts and kernel"
)
SEND_NOTE: Final = "send_recv was not measured and is priced as one pair of an all_to_all"


def refused_groups(family: str, sizes: Sequence[int]) -> str:
    """Return the note on group sizes that an engine's custom all-reduce does not support.

    Args:
        family: The engine.
        sizes: Supported group sizes.

    Example:
        >>> from perfatlas.collectives.notes import refused_groups
        >>> refused_groups("vllm", (2, 4))
        "vllm's custom all-reduce supports groups of 2 or 4 ranks; others use the library"
    """
    *first, last = (str(size) for size in sizes)
    named = f"{', '.join(first)} or {last}" if first else last
    return f"{family}'s custom all-reduce supports groups of {named} ranks; others use the library"
