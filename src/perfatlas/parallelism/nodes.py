"""Placement of workers on nodes: which deployments fit without a worker that crosses nodes.

Collectives are priced as if a worker that fits on a node, or in a larger scale-up domain, is on
one, and a larger one on as few whole ones as hold it. Here a node is whichever of the two is
larger. Deployments are placed in the same way; the last node may have fewer GPUs than the others.

Shape legend: P plans.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.compiled import part
from perfatlas.parallelism.plan import IN_REPLICA

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perfatlas.hardware import System
    from perfatlas.operators import FloatArray
    from perfatlas.parallelism.plan import BoolArray, PlanColumns

# ranks of a group, and the sizes that multiply to the distance between its first and last rank
EXTENTS: Final = {
    "tp": ("tp",),
    "attention_dp": ("tp", "attention_dp"),
    "ep": ("tp", "attention_dp"),
    "moe_tp": ("moe_tp",),
    "cp": ("tp", "attention_dp", "cp"),
    "pp": IN_REPLICA,
}


def node_gpus(system: System) -> float:
    """Return the GPUs of a node, or of the scale-up domain where it is larger."""
    return float(max(system.device.scale_up.domain_size, system.node.devices))


def most_replicas(size: FloatArray, per_node: FloatArray | float, gpus: FloatArray) -> FloatArray:
    """Return the replicas that fit on nodes that hold whole ones, or are whole of one (P,).

    Args:
        size: GPUs of a replica (P,).
        gpus: All GPUs (P,); the last node may have fewer than the others.

    Example:
        >>> import numpy as np
        >>> from perfatlas.parallelism import most_replicas
        >>> most_replicas(np.array([3.0, 8.0, 12.0]), 8.0, np.full(3, 24.0)).tolist()
        [6.0, 3.0, 1.0]
    """
    nodes, rest = np.divmod(gpus, per_node)
    whole = np.ceil(size / per_node)  # nodes of a replica
    on_nodes = np.floor(nodes / whole) * np.maximum(np.floor(per_node / size), 1.0)
    unused = np.mod(nodes, whole) * per_node + rest
    most: FloatArray = on_nodes + np.floor(unused / size)
    return most


def gpus_of_nodes(size: FloatArray, per_node: float, replicas: FloatArray) -> FloatArray:
    """Return the GPUs of the nodes that replicas occupy, idle ones included (P,).

    Args:
        size: GPUs of a replica (P,).
        replicas: Replicas (P,).

    Example:
        >>> import numpy as np
        >>> from perfatlas.parallelism import gpus_of_nodes
        >>> gpus_of_nodes(np.array([6.0, 3.0, 12.0]), 8.0, np.array([3.0, 4.0, 1.0])).tolist()
        [24.0, 16.0, 16.0]
    """
    on_node = np.maximum(np.floor(per_node / size), 1.0)  # replicas
    nodes = np.ceil(size / per_node) * np.ceil(replicas / on_node)
    gpus: FloatArray = nodes * per_node
    return gpus


@part
def pools_fit(
    sizes: tuple[float, float], counts: tuple[float, float], gpus: float, per_node: float
) -> bool:
    """Return whether the workers of two pools fit on the nodes of a number of GPUs.

    The larger workers are placed first, on the last node if it has fewer GPUs than the others.

    Args:
        gpus: All GPUs; the last node may have fewer than the others.

    Limits: Where the larger workers leave room for fewer smaller ones than another order would,
        the answer is no; it is exact where the smaller size divides the larger one and a node.

    Example:
        >>> from perfatlas.parallelism import pools_fit
        >>> pools_fit((4.0, 12.0), (1.0, 1.0), 16.0, 8.0)  # 12 GPUs take two nodes
        False
        >>> pools_fit((4.0, 12.0), (2.0, 1.0), 24.0, 8.0)
        True
    """
    first = 0 if sizes[0] >= sizes[1] else 1
    larger, count = sizes[first], counts[first]
    smaller, wanted = sizes[1 - first], counts[1 - first]
    nodes, last = gpus // per_node, gpus % per_node  # free nodes, and GPUs of the last one
    full, spare, begun = 0.0, 0.0, 0.0  # nodes full of larger ones, what they leave, and one more
    if larger > per_node:
        whole = -(-larger // per_node)
        if last > 0.0 and count > 0.0 and (whole - 1.0) * per_node + last >= larger:
            nodes, last = nodes + 1.0, 0.0
        nodes -= count * whole
    else:
        on_node = per_node // larger
        on_last = min(last // larger, count)
        last -= on_last * larger
        full, over = (count - on_last) // on_node, (count - on_last) % on_node
        spare = per_node - on_node * larger
        begun = per_node - over * larger if over > 0.0 else 0.0
        nodes -= full + (1.0 if over > 0.0 else 0.0)
    if nodes < 0.0:
        return False
    if smaller > per_node:
        whole = -(-smaller // per_node)
        if (whole - 1.0) * per_node + last >= smaller:
            nodes += 1.0
        return nodes // whole >= wanted
    room = nodes * (per_node // smaller) + full * (spare // smaller)
    return room + begun // smaller + last // smaller >= wanted


def nodes_of_pools(
    sizes: tuple[float, float], counts: tuple[float, float], per_node: float
) -> float:
    """Return the fewest whole nodes on which the workers of two pools fit.

    Example:
        >>> from perfatlas.parallelism import nodes_of_pools
        >>> nodes_of_pools((4.0, 12.0), (1.0, 1.0), 8.0)
        3.0
    """
    least = -(-(sizes[0] * counts[0] + sizes[1] * counts[1]) // per_node)
    separate = gpus_of_nodes(np.array(sizes), per_node, np.array(counts))  # on nodes of their own
    most = float(separate.sum()) // per_node
    while least < most:  # workers that fit on some nodes fit on more
        middle = (least + most) // 2.0
        if pools_fit(sizes, counts, middle * per_node, per_node):
            most = middle
        else:
            least = middle + 1.0
    return most


def cuts_groups(plan: PlanColumns, per_node: FloatArray | float) -> BoolArray:
    """Return whether the nodes of a replica cut a group that is priced inside a node (P,).

    A replica that is larger than a node has as few nodes as hold it. A group that fits on a node is
    priced inside it, so that every node holds whole groups of all kinds.
    """
    gpus = plan.gpus_per_replica
    unit = np.ones_like(gpus)
    for names in EXTENTS.values():
        extent = np.prod([getattr(plan, name) for name in names], axis=0)
        inside = (extent <= per_node) & (extent >= 1.0)
        unit = np.lcm(unit.astype(np.int64), np.where(inside, extent, 1.0).astype(np.int64))
    whole = np.floor(per_node / unit) * unit  # GPUs of a node that hold whole groups
    nodes = np.ceil(gpus / np.maximum(whole, 1.0))
    cut: BoolArray = (gpus > per_node) & ((whole == 0.0) | (nodes > np.ceil(gpus / per_node)))
    return cut


def crossing_groups(sizes: Mapping[str, float], per_node: float) -> list[str]:
    """Return the sizes of a replica whose groups communicate across nodes.

    Args:
        sizes: Sizes of a replica by name; missing ones are 1.

    Example:
        >>> from perfatlas.parallelism import crossing_groups
        >>> crossing_groups({"tp": 2, "attention_dp": 6, "moe_tp": 12, "ep": 1}, 8.0)
        ['attention_dp', 'moe_tp']
        >>> crossing_groups({"tp": 8, "pp": 2, "moe_tp": 8}, 8.0)
        ['pp']
    """
    crossing = []
    for name, names in EXTENTS.items():
        extent = float(np.prod([sizes.get(axis, 1) or 1 for axis in names]))
        if (sizes.get(name, 1) or 1) > 1 and extent > per_node:
            crossing.append(name)
    return crossing
