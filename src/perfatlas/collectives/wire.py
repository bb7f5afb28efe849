"""Bytes that cross one rank's link, per algorithm, and the least of any algorithm.

`bytes` is counted as nccl-tests counts it: all_reduce the buffer, all_gather the gathered output,
reduce_scatter the input, all_to_all one rank's send buffer, send_recv the message.

Shape legend: U unique shapes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.collectives.codes import check_op

if TYPE_CHECKING:
    from perfatlas.operators import FloatArray

# Bus-bandwidth factor over (n - 1)/n; send_recv moves the message whatever the group.
RING_PASSES: Final = {
    "all_reduce": 2.0,
    "all_gather": 1.0,
    "reduce_scatter": 1.0,
    "all_to_all": 1.0,
    "dispatch": 1.0,
    "combine": 1.0,
}


def ring_wire_bytes(op: str, bytes_U: FloatArray, ranks_U: FloatArray) -> FloatArray:
    """Return the bytes a rank sends, and receives, without help from the switch (U,) [bytes].

    all_reduce 2 S (n-1)/n, the others S (n-1)/n, send_recv S; 0 for one rank. Ring, two-shot and
    pairwise exchange all move exactly this much.

    Args:
        op: Collective operation.
        bytes_U: Size as nccl-tests counts it (U,) [bytes].
        ranks_U: Ranks of the group (U,).

    Raises:
        UsageError: There is no such operation.

    Source:
        NVIDIA/nccl-tests, doc/PERFORMANCE.md.

    Example:
        >>> import numpy as np
        >>> from perfatlas.collectives import ring_wire_bytes
        >>> float(ring_wire_bytes("all_reduce", np.array([8e6]), np.array([4.0]))[0])
        12000000.0
    """
    if check_op(op) == "send_recv":
        return np.where(ranks_U > 1.0, bytes_U, 0.0)
    wire_U: FloatArray = RING_PASSES[op] * bytes_U * (ranks_U - 1.0) / ranks_U
    return wire_U


def between_nodes_wire_bytes(
    op: str,
    bytes_U: FloatArray,
    ranks_U: FloatArray,
    nodes_U: FloatArray,
    adds_inside_U: FloatArray,
) -> FloatArray:
    """Return the bytes a node sends to the others in a reduction or gather (U,) [bytes].

    A library runs one ring over all ranks: each byte of the buffer passes a node's NICs as often as
    it passes a rank's link. Where the switch inside the node adds, trees of nodes take the sums:
    every node sends S up and S down, on two nodes one of the two.

    Args:
        op: all_reduce, all_gather or reduce_scatter.
        bytes_U: Size as nccl-tests counts it (U,) [bytes].
        ranks_U: Ranks of the whole group (U,).
        nodes_U: Nodes it is spread over (U,).
        adds_inside_U: 1 where the switch inside a node reduces, else 0 (U,).

    Source:
        NCCL's ring and double binary trees (NVLSTree); its engineers in NVIDIA/nccl-tests issues
        160 and 196: a ring's bus bandwidth is what the NICs carry, two nodes run a tree.

    Limits:
        Neither is the least possible: a hierarchy of rails would send 2 S (nodes-1)/nodes.

    Example:
        >>> import numpy as np
        >>> from perfatlas.collectives.wire import between_nodes_wire_bytes
        >>> group = (np.array([8e6]), np.array([16.0]), np.array([2.0]))
        >>> float(between_nodes_wire_bytes("all_reduce", *group, np.array([1.0]))[0])
        8000000.0
        >>> float(between_nodes_wire_bytes("all_reduce", *group, np.array([0.0]))[0])
        15000000.0
    """
    ring_U = np.where(nodes_U > 1.0, ring_wire_bytes(op, bytes_U, ranks_U), 0.0)
    if op != "all_reduce":
        return ring_U
    tree_U = bytes_U * np.minimum(2.0, np.maximum(nodes_U - 1.0, 0.0))
    return np.where(adds_inside_U > 0.0, tree_U, ring_U)


def in_network_wire_bytes(bytes_U: FloatArray, ranks_U: FloatArray) -> FloatArray:
    """Return the bytes per direction of an all-reduce summed in the switch (U,) [bytes].

    Every rank reads its shard's sum out of the switch (S out of each rank in total, S/n in) and
    multicasts it back (S/n out, S in): S (1 + 1/n) each way; 0 for one rank.

    Args:
        bytes_U: Buffer (U,) [bytes].
        ranks_U: Ranks of the group (U,).

    Source:
        Derived from the multimem load-reduce and store of NVLink SHARP (NVLS).

    Example:
        >>> import numpy as np
        >>> from perfatlas.collectives import in_network_wire_bytes
        >>> float(in_network_wire_bytes(np.array([8e6]), np.array([8.0]))[0])
        9000000.0
    """
    return np.where(ranks_U > 1.0, bytes_U * (1.0 + 1.0 / ranks_U), 0.0)


def one_shot_wire_bytes(bytes_U: FloatArray, ranks_U: FloatArray) -> FloatArray:
    """Return the bytes a rank receives when it reads every peer's buffer (U,) [bytes].

    Args:
        bytes_U: Buffer (U,) [bytes].
        ranks_U: Ranks of the group (U,).
    """
    wire_U: FloatArray = bytes_U * (ranks_U - 1.0)
    return wire_U


def least_wire_bytes(
    op: str, bytes_U: FloatArray, ranks_U: FloatArray, in_network_U: FloatArray
) -> FloatArray:
    """Return the least bytes per direction over a rank's link (U,) [bytes].

    Args:
        op: Collective operation.
        bytes_U: Size as nccl-tests counts it (U,) [bytes].
        ranks_U: Ranks on this level (U,).
        in_network_U: 1 where the switch reduces, else 0 (U,).

    Raises:
        UsageError: There is no such operation.

    Limits:
        The switch is credited with all_reduce only: the receiving side of all_gather and the
        sending side of reduce_scatter move S (n-1)/n with or without it.
    """
    ring_U = ring_wire_bytes(op, bytes_U, ranks_U)
    if op != "all_reduce":
        return ring_U
    switch_U = in_network_wire_bytes(bytes_U, ranks_U)
    return np.where(in_network_U > 0.0, np.minimum(ring_U, switch_U), ring_U)


def bus_bandwidth(
    op: str, bytes_U: FloatArray, ranks_U: FloatArray, time_s_U: FloatArray
) -> FloatArray:
    """Return the bus bandwidth nccl-tests would print (U,) [bytes/s]; 0 where nothing moves.

    Args:
        op: Collective operation.
        bytes_U: Size as nccl-tests counts it (U,) [bytes].
        ranks_U: Ranks of the group (U,).
        time_s_U: Time (U,) [s].

    Raises:
        UsageError: There is no such operation.

    Limits:
        The factor assumes a ring; with in-network reduction it can exceed the link.

    Example:
        The 8-GPU all-reduce of 512 MiB on H200 that takes 2.040 ms:

        >>> import numpy as np
        >>> from perfatlas.collectives import bus_bandwidth
        >>> size, ranks, time_s = np.array([2.0**29]), np.array([8.0]), np.array([2.040e-3])
        >>> round(float(bus_bandwidth("all_reduce", size, ranks, time_s)[0]) / 1e9, 1)
        460.6
    """
    wire_U = ring_wire_bytes(op, bytes_U, ranks_U)
    return np.where(time_s_U > 0.0, wire_U / np.where(time_s_U > 0.0, time_s_U, 1.0), 0.0)
