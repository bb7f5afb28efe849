"""Bytes over one rank's link, per algorithm, and the minimum over all algorithms.

`bytes` is counted as in nccl-tests: the buffer of all_reduce, the gathered output of all_gather,
the input of reduce_scatter, one rank's send buffer of all_to_all, the message of send_recv.

Shape legend: U unique shapes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.collectives.codes import check_op

if TYPE_CHECKING:
    from perfatlas.operators import FloatArray

# Bus-bandwidth factor divided by (n - 1)/n; send_recv is independent of the group size.
RING_PASSES: Final = {
    "all_reduce": 2.0,
    "all_gather": 1.0,
    "reduce_scatter": 1.0,
    "all_to_all": 1.0,
    "dispatch": 1.0,
    "combine": 1.0,
}


def ring_wire_bytes(op: str, bytes_U: FloatArray, ranks_U: FloatArray) -> FloatArray:
    """Return the bytes a rank sends (and receives) without in-network reduction (U,) [bytes].

    all_reduce 2 S (n-1)/n, send_recv S, others S (n-1)/n; 0 for one rank. Valid for ring, two-shot
    and pairwise exchange.

    Args:
        op: Collective operation.
        bytes_U: Size as counted by nccl-tests (U,) [bytes].
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
    """Return the bytes a node sends to other nodes in a reduction or gather (U,) [bytes].

    A library runs one ring over all ranks, so a node's NICs carry as many bytes as a rank's link.
    With in-network reduction inside the node, trees of nodes exchange the sums: every node sends S
    up and S down; with two nodes, only one of the two.

    Source:
        NCCL's ring and double binary trees (NVLSTree); NVIDIA/nccl-tests issues 160 and 196: a
        ring's bus bandwidth equals that of the NICs, two nodes use a tree.

    Limits:
        Neither is optimal: a rail-optimized hierarchy would send 2 S (nodes-1)/nodes.

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
    """Return the bytes per direction of an in-network all-reduce (U,) [bytes].

    Every rank reads the sum of its shard from the switch (S sent per rank in total, S/n received)
    and multicasts it (S/n sent, S received): S (1 + 1/n) per direction; 0 for one rank.

    Args:
        bytes_U: Buffer size (U,) [bytes].
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
    """Return the bytes a rank receives when it reads every peer's buffer (U,) [bytes]."""
    wire_U: FloatArray = bytes_U * (ranks_U - 1.0)
    return wire_U


def least_wire_bytes(
    op: str, bytes_U: FloatArray, ranks_U: FloatArray, in_network_U: FloatArray
) -> FloatArray:
    """Return the minimum bytes per direction over a rank's link (U,) [bytes].

    Args:
        op: Collective operation.
        bytes_U: Size as counted by nccl-tests (U,) [bytes].
        ranks_U: Ranks on this level (U,).
        in_network_U: 1 where the switch reduces, else 0 (U,).

    Raises:
        UsageError: There is no such operation.

    Limits:
        In-network reduction reduces the bytes of all_reduce only: the receiving side of
        all_gather and the sending side of reduce_scatter move S (n-1)/n in any case.
    """
    ring_U = ring_wire_bytes(op, bytes_U, ranks_U)
    if op != "all_reduce":
        return ring_U
    switch_U = in_network_wire_bytes(bytes_U, ranks_U)
    return np.where(in_network_U > 0.0, np.minimum(ring_U, switch_U), ring_U)


def bus_bandwidth(
    op: str, bytes_U: FloatArray, ranks_U: FloatArray, time_s_U: FloatArray
) -> FloatArray:
    """Return the bus bandwidth as printed by nccl-tests (U,) [bytes/s]; 0 without traffic.

    Args:
        op: Collective operation.
        bytes_U: Size as counted by nccl-tests (U,) [bytes].
        ranks_U: Ranks of the group (U,).
        time_s_U: Time (U,) [s].

    Raises:
        UsageError: There is no such operation.

    Limits:
        The factor assumes a ring; with in-network reduction it can exceed the link bandwidth.

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
