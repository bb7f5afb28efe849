"""The nodes of a plan: how many it takes, and which of its groups communicate across them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from perfatlas import parallelism
from perfatlas.hardware import resolve_system
from perfatlas.quantities import counted
from perfatlas.studies.deployments.find import PLAN
from perfatlas.studies.deployments.launch import ROLES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perfatlas.hardware import System


class _Workers(NamedTuple):
    """Equal workers of a plan, or its replicas, which have no role."""

    role: str  # Pool, "" for replicas
    sizes: Mapping[str, Any]
    system: System
    number: float  # How many there are

    @property
    def nodes(self) -> float:
        """Nodes that they occupy alone."""
        each, per_node = (
            np.array([float(parallelism.gpus_of_sizes(self.sizes))]),
            parallelism.node_gpus(self.system),
        )
        return (
            float(parallelism.gpus_of_nodes(each, per_node, np.array([self.number]))[0]) / per_node
        )


def placement_of(row: Mapping[str, Any]) -> str:
    """Return the nodes of a plan and what crosses them.

    Example:
        >>> from perfatlas.studies.deployments import placement_of
        >>> placement_of({"system": "h200_sxm", "tp": 8, "pp": 2, "dp": 2})
        '4 nodes of 8 GPUs, crossed by pp'
    """
    pools = _workers_of(row)
    first, last = pools[0], pools[-1]
    if first.system == last.system:
        nodes = first.nodes
        if first.role:
            sizes = (
                float(parallelism.gpus_of_sizes(first.sizes)),
                float(parallelism.gpus_of_sizes(last.sizes)),
            )
            nodes = parallelism.nodes_of_pools(
                sizes, (first.number, last.number), parallelism.node_gpus(first.system)
            )
        placed = _named(nodes, first.system)
    else:
        placed = "; ".join(f"{pool.role}: {_named(pool.nodes, pool.system)}" for pool in pools)
    crossing = crossing_of(row)
    return f"{placed}, crossed by {'; '.join(crossing)}" if crossing else placed


def crossing_of(row: Mapping[str, Any]) -> list[str]:
    """Return the groups of a plan that communicate across nodes, in a text for each pool.

    Example:
        >>> from perfatlas.studies.deployments import crossing_of
        >>> crossing_of({"system": "h200_sxm", "tp": 16, "pp": 2, "dp": 1})
        ['tp, pp']
    """
    return [
        ", ".join(names) + (f" of {worker.role} workers" if worker.role else "")
        for worker in _workers_of(row)
        if (
            names := parallelism.crossing_groups(worker.sizes, parallelism.node_gpus(worker.system))
        )
    ]


def _workers_of(row: Mapping[str, Any]) -> list[_Workers]:
    """Return the workers of each pool of a plan, or its replicas."""
    if "prefill_workers" not in row:
        return [_Workers("", row, resolve_system(str(row["system"])), float(row["dp"]))]
    return [
        _Workers(
            role=role,
            sizes={name: row.get(f"{role}_{name}", 1) for name in PLAN},
            system=resolve_system(str(row[f"{role}_system"])),
            number=float(row[f"{role}_workers"]),
        )
        for role in ROLES
    ]


def _named(nodes: float, system: System) -> str:
    """Return a number of nodes, or of scale-up domains where they are larger."""
    per_node = parallelism.node_gpus(system)
    kind = "node" if per_node == system.node.devices else "domain"
    return f"{counted(int(nodes), kind)} of {counted(int(per_node), 'GPU')}"
