"""What an answer says of a collective that was extrapolated, derived or substituted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

RANKS_NOTE: Final = (
    "collectives beyond the measured ranks are extrapolated: interval of fits on 2 and 4 ranks"
    " against 8; small messages switch to a tree (assumption) where it is shorter"
)
NODE_NOTE: Final = (
    "devices of one node but different domains talk over the host link with the parameters of the"
    " domain's library collectives: not measured"
)
FABRIC_NOTE: Final = (
    "collectives between nodes are derived: DeepEP exchanges over 1 to 8 nodes give the NIC"
    " efficiency and the cost of a hop; levels pipeline their chunks (latencies add, the slowest"
    " level sets the rest; over PCIe all bytes share the host link); interval of one doubling of"
    " the ranks for each of the nodes, on its slow side"
)
NODES_NOTE: Final = (
    "nothing was measured between more than 8 nodes: extrapolated, congestion and the latency of"
    " rings over many ranks left out, so rather too fast"
)
SWITCH_NOTE: Final = (
    "no all_reduce inside the switch was seen on the ranks measured: on more ranks large ones stay"
    " rings, rather too slow"
)
EXPERTS_NOTE: Final = (
    "dispatch and combine answer in physics: rows of one size and number of ranks differ in tokens,"
    " experts and kernel, so none of them is a hit"
)
SEND_NOTE: Final = "send_recv was not measured: priced as one pair of an all_to_all"


def refused_groups(family: str, sizes: Sequence[int]) -> str:
    """Return the note on groups that an engine's own all-reduce does not take.

    Args:
        family: The engine.
        sizes: Ranks of the groups it takes.

    Example:
        >>> from perfatlas.collectives.notes import refused_groups
        >>> refused_groups("vllm", (2, 4))
        'vllm reduces groups of 2 or 4 ranks itself: the library reduces the others'
    """
    *first, last = (str(size) for size in sizes)
    named = f"{', '.join(first)} or {last}" if first else last
    return f"{family} reduces groups of {named} ranks itself: the library reduces the others"
