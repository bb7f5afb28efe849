"""Fields of the cluster that jobs of fleet schedule share."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Final

from perfatlas.vocabulary.fields import conditions
from perfatlas.vocabulary.fields.clusters import GPUS_PER_NODE, SYSTEM
from perfatlas.vocabulary.fields.numbers import Count, Number
from perfatlas.vocabulary.fields.rows import group
from perfatlas.vocabulary.fields.subject import SystemName

LEAVES: Final = conditions.WithMessage(
    conditions.AnyOf(
        conditions.NotSet("nodes_per_domain", ""),  # otherwise domains act as leaves
        conditions.Equals("together", "leaf"),
        conditions.AllOf(
            conditions.Equals("together", "domain"), conditions.NotEqual("required", True)
        ),
    ),
    "no job asks for nodes within a leaf",
    "set together = leaf",
    "together = leaf, together = domain without required, or no nodes_per_domain",
)


@group("Cluster", 2)
class SharedCluster:
    """The shared nodes and their network domains."""

    nodes: Annotated[int, Number(at_least=1, at_most=10**6)] | None = None
    system: Annotated[
        SystemName | None,
        replace(
            SYSTEM,
            text="System of the nodes: its topology gives gpus_per_node, nodes_per_domain and"
            " nodes_per_leaf where they are not set.",
        ),
    ] = None
    gpus_per_node: Annotated[
        Annotated[int, Number(at_least=1, at_most=1024)] | None,
        replace(GPUS_PER_NODE, default="the fleet's or the system's, otherwise 8"),
    ] = None
    nodes_per_domain: Count | None = None
    nodes_per_leaf: Annotated[Count | None, LEAVES] = None
