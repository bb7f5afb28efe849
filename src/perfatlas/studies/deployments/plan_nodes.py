"""The nodes of a plan: how many it takes, and which of its groups communicate across them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from perfatlas import parallelism
from perfatlas.hardware import resolve_system
from perfatlas.quantities import counted
from perfatlas.studies.deployments.choices import SIZES, listed_names
from perfatlas.studies.deployments.find import PLAN
from perfatlas.studies.deployments.launch import ROLES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

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


def plan_text(plan: Mapping[str, Any]) -> str:
    """Return the sizes of a plan that are not 1, and its draft tokens, in short.

    Example:
        >>> from perfatlas.studies.deployments import plan_text
        >>> plan_text({"tp": 4, "pp": 1, "dp": 2})
        'tp 4, dp 2'
    """
    if "prefill_workers" in plan:
        return "; ".join([*(_pool_text(role, plan) for role in ROLES), *_common_text(plan)])
    sizes = [f"{name} {plan[name]}" for name in SIZES if plan.get(name, 1) != 1]
    if plan.get("spare_replicas"):
        sizes.append(f"{plan['spare_replicas']} spare")
    return ", ".join([*sizes, *_common_text(plan)]) or "tp 1"


def _common_text(plan: Mapping[str, Any]) -> list[str]:
    """Return what a plan has besides sizes, and both of its pools alike."""
    words = []
    if copies := plan.get("redundant_experts"):
        words.append(f"{copies} redundant")
    if drafts := plan.get("speculative_depth"):
        words.append(f"{drafts} drafts")
    for name, of in (("weight_offload", "weights"), ("kv_offload", "KV")):
        if share := plan.get(name):
            words.append(f"{share:.0%} of {of} offloaded")
    if plan.get("prefix_caching") is False:
        words.append("no prefix caching")
    return words


def _pool_text(role: str, plan: Mapping[str, Any]) -> str:
    own = {name: plan.get(f"{role}_{name}", 1) for name in SIZES}
    workers, batch = plan[f"{role}_workers"], plan[f"{role}_batch"]
    own_format = plan.get(f"{role}_gemm_format")
    formatted = f", {own_format}" if own_format else ""
    return f"{workers} {role} of {plan_text(own)}{formatted}, batch {batch}"


def setting_text(name: str, plan: Mapping[str, Any]) -> str:
    """Return a setting of a plan, or those of its prefill and decode pools."""
    names = (name, *(f"{role}_{name}" for role in ROLES))
    return " and ".join(dict.fromkeys(str(plan[key]) for key in names if key in plan))


VARIED: Final[dict[str, Callable[[Mapping[str, Any]], str]]] = {
    "system": partial(setting_text, "system"),
    "engine": partial(setting_text, "engine"),
    "exchange": lambda plan: str(plan.get("expert_exchange", "")),
    "overlap": lambda plan: str(plan.get("batch_overlap", "")),
    "format": lambda plan: str(plan.get("gemm_format", "")),  # pools may differ
    "KV": lambda plan: str(plan["kv_format"]),
}
"""Cells of what a search may vary, by title."""


def varied_columns(
    scenario: Mapping[str, Any],
) -> dict[str, Callable[[Mapping[str, Any]], str]]:
    """Return what several values are searched of beside sizes of a plan: title and cell of a plan.

    Example:
        >>> from perfatlas.studies.deployments import varied_columns
        >>> list(varied_columns({"systems": ["mi300x"], "engine": "vllm", "formats": ["fp8"]}))
        ['system', 'format']
    """
    asked = {"system": "systems", "format": "formats", "KV": "kv_formats"}
    listed = listed_names(scenario.get("choices"))
    named = {"engine": "engine", "exchange": "expert_exchange", "overlap": "batch_overlap"}
    own_engines = bool(scenario.get("systems")) and "engine" not in scenario
    return {
        title: cell
        for title, cell in VARIED.items()
        if (scenario.get(asked[title]) if title in asked else named[title] in listed)
        or (title == "engine" and own_engines)
    }


def plan_name(plan: Mapping[str, Any], scenario: Mapping[str, Any]) -> str:
    """Return a plan with its system and formats, of each that a search varies.

    Example:
        >>> from perfatlas.studies.deployments import plan_name
        >>> plan_name({"system": "mi300x", "tp": 4}, {"systems": ["mi300x"]})
        'mi300x, tp 4'
    """
    cells = [cell(plan) for cell in varied_columns(scenario).values()]
    return ", ".join([*filter(None, cells), plan_text(plan)])
