"""Exchanges over links whose transfers a compiler schedules: hops and bytes, without contention.

Shape legend: U unique shapes, S distinct systems, L levels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.collectives.codes import EXCHANGES
from perfatlas.collectives.placement import level_bytes
from perfatlas.collectives.wire import ring_wire_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from perfatlas.collectives.placement import Group, Links
    from perfatlas.hardware import System
    from perfatlas.operators import FloatArray

LINK_TYPES: Final = ("c2c", "roce")
DIRECT: Final = "scheduled_direct"  # name of the algorithm
TWO_PHASES: Final = "all_reduce"  # every chip sums its share, then sends the sum to all others


def are_scheduled(systems: Sequence[System]) -> NDArray[np.bool_]:
    """Return whether a compiler schedules the transfers of each system (S,)."""
    return np.array(
        [system.device.scale_up.link_type in LINK_TYPES for system in systems], np.bool_
    )


def scheduled_levels(
    op: str, bytes_U: FloatArray, group: Group, links: Links
) -> tuple[FloatArray, FloatArray]:
    """Return the latency and the transfer of each level of a scheduled exchange (L, U), (L, U) [s].

    Each member sends its share to every other directly: a phase takes one hop of its level, then
    the bytes of a rank over its links. A reduction to all has two phases. Levels of reductions and
    gathers follow each other; other transfers pass theirs at the same time, and the slowest counts.

        domain of 8, all_reduce of S bytes: 2 (hop + S / 8 / (bytes/s of one link))

    Args:
        op: Collective operation.
        bytes_U: Size as counted by nccl-tests (U,) [bytes].
        group: Placement of the ranks.
        links: Links, with the bandwidth available to the group.

    Source: Abts et al., A software-defined tensor streaming multiprocessor, ISCA 2022.

    Limits: Transfers are not rounded up to vectors; adding takes no time beside receiving; the
        fabric has one latency for any distance.

    Example:
        >>> import numpy as np
        >>> from perfatlas.collectives import CollectiveShapes, price_collectives
        >>> from perfatlas.hardware import resolve_system
        >>> priced = price_collectives(
        ...     CollectiveShapes(
        ...         op="all_reduce", bytes=np.array([16384.0]), ranks=np.array([8.0]),
        ...         stride=np.ones(1),
        ...     ),
        ...     systems=[resolve_system("lpu")],
        ...     system_index_U=np.array([0]),
        ...     tier="auto",
        ... )
        >>> round(float(priced.prices.time_s_CO[0, 0]) * 1e9)  # 2 x (240 + 2048 B / 50 GB/s)
        562
    """
    size_LU = level_bytes(op, bytes_U, group)
    talks_LU = group.ranks_LU > 1.0
    wire_LU = np.stack(
        [ring_wire_bytes(op, *pair) for pair in zip(size_LU, group.ranks_LU, strict=True)]
    )
    phases = 2.0 if op == TWO_PHASES else 1.0
    latency_LU = np.where(talks_LU, phases * links.latency_s_LU, 0.0)
    moving_LU = np.where(talks_LU, wire_LU / links.bandwidth_LU, 0.0)
    if op in (*EXCHANGES, "send_recv"):
        slowest_LU = np.arange(latency_LU.shape[0])[:, None] == np.argmax(
            latency_LU + moving_LU, axis=0
        )
        return np.where(slowest_LU, latency_LU, 0.0), np.where(slowest_LU, moving_LU, 0.0)
    return latency_LU, moving_LU
