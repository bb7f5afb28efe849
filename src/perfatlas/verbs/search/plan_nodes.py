"""The nodes of a plan: how many it takes, and which of its groups communicate across them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from perfatlas.hardware import resolve_system
from perfatlas.parallelism import crossing_groups, gpus_of_nodes, node_gpus, nodes_of_pools
from perfatlas.quantities import counted
from perfatlas.verbs.search.find import PLAN
from perfatlas.verbs.search.pool_rows import ROLES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perfatlas.hardware import System


def placement_of(row: Mapping[str, Any]) -> str:
    """Return the nodes of a plan and what crosses them.

    Args:
        row: A row of the answer.

    Example:
        >>> from perfatlas.verbs.search.plan_nodes import placement_of
        >>> placement_of({"system": "h200_sxm", "tp": 8, "pp": 2, "dp": 2})
        '4 nodes of 8 GPUs, crossed by pp'
    """
    if "prefill_workers" not in row:
        return _placed(row, resolve_system(str(row["system"])), int(row["dp"]))
    pools = [{name: row.get(f"{role}_{name}", 1) for name in PLAN} for role in ROLES]
    systems = [resolve_system(str(row[f"{role}_system"])) for role in ROLES]
    counts = [int(row[f"{role}_workers"]) for role in ROLES]
    if systems[0] != systems[1]:
        placed = map(_placed, pools, systems, counts)
        return "; ".join(f"{role}: {text}" for role, text in zip(ROLES, placed, strict=True))
    per_node = node_gpus(systems[0])
    sizes, both = (_gpus(pools[0]), _gpus(pools[1])), (float(counts[0]), float(counts[1]))
    crossing = [
        f"{', '.join(names)} of {role} workers"
        for role, pool in zip(ROLES, pools, strict=True)
        if (names := crossing_groups(pool, per_node))
    ]
    nodes = _named(nodes_of_pools(sizes, both, per_node), systems[0])
    return f"{nodes}, crossed by {'; '.join(crossing)}" if crossing else nodes


def crosses(placement: str) -> bool:
    """Return whether a group of a plan communicates across nodes.

    Args:
        placement: Its placement.
    """
    return "crossed by" in placement


def _placed(sizes: Mapping[str, Any], system: System, replicas: int) -> str:
    """Return the nodes of equal replicas and what crosses them."""
    each, per_node = np.array([_gpus(sizes)]), node_gpus(system)
    whole = float(gpus_of_nodes(each, per_node, np.array([float(replicas)]))[0])
    crossing = crossing_groups(sizes, per_node)
    nodes = _named(whole / per_node, system)
    return f"{nodes}, crossed by {', '.join(crossing)}" if crossing else nodes


def _named(nodes: float, system: System) -> str:
    """Return a number of nodes, or of scale-up domains where they are larger."""
    per_node = node_gpus(system)
    kind = "node" if per_node == system.node.devices else "domain"
    return f"{counted(int(nodes), kind)} of {counted(int(per_node), 'GPU')}"


def _gpus(sizes: Mapping[str, Any]) -> float:
    """Return the GPUs of a worker."""
    return float(np.prod([sizes.get(name, 1) for name in ("tp", "pp", "cp", "attention_dp")]))
