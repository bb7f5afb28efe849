"""Warnings about workers that cross nodes although their price assumes that they do not.

Shape legend: C candidates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.parallelism import (
    cuts_groups,
    gpus_of_nodes,
    most_replicas,
    node_gpus,
    nodes_of_pools,
    pools_fit,
)
from perfatlas.quantities import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from perfatlas.operators import FloatArray
    from perfatlas.step import Candidates

NOT_PRICED: Final = "on fewer nodes, one would span more nodes than its price assumes"


def node_notes(question: Candidates) -> Iterator[tuple[int, str]]:
    """Yield candidates whose replicas do not fit on nodes as they are priced, and a warning.

    Args:
        question: The candidates.
    """
    yield from _cut_groups(question)
    plan, node_C = question.plan, question.placement.node()
    each_C = plan.gpus_per_replica
    crowded_C = plan.dp > most_replicas(each_C, node_C, plan.ranks)
    for c in np.flatnonzero(crowded_C).tolist():
        one = slice(c, c + 1)
        whole = float(gpus_of_nodes(each_C[one], float(node_C[c]), plan.dp[one])[0])
        yield (
            c,
            (
                f"{plan.dp[c]:g} replicas of {each_C[c]:g} GPUs take {whole / node_C[c]:g} nodes of"
                f" {node_C[c]:g} GPUs and leave {whole - plan.ranks[c]:g} GPUs idle: {NOT_PRICED}"
            ),
        )


def _cut_groups(question: Candidates) -> Iterator[tuple[int, str]]:
    """Yield candidates with groups that are priced inside a node, and that nodes cut."""
    node_C = question.placement.node()
    for c in np.flatnonzero(cuts_groups(question.plan, node_C)).tolist():
        yield (
            c,
            (
                f"nodes of {node_C[c]:g} GPUs cut groups of this plan that are priced inside a"
                " node: their collectives are slower than predicted; choose sizes that divide a"
                " node"
            ),
        )


def pool_node_notes(
    pools: Sequence[Candidates], workers: Sequence[FloatArray]
) -> Iterator[tuple[int, str]]:
    """Yield candidates whose two pools do not fit on nodes as they are priced, and a warning.

    Pools with different systems have nodes of their own.

    Args:
        pools: A prefill worker and a decode worker of each candidate.
        workers: Numbers of workers of each pool, each (C,).
    """
    prefill, decode = pools
    for one in pools:
        yield from _cut_groups(one)
    for c in range(prefill.size):
        systems = [one.placement.systems[int(one.placement.index_C[c])] for one in pools]
        if systems[0] != systems[1]:
            continue
        per_node = node_gpus(systems[0])
        sizes = tuple(float(one.plan.gpus_per_replica[c]) for one in (prefill, decode))
        counts = tuple(float(number_C[c]) for number_C in workers)
        total = sizes[0] * counts[0] + sizes[1] * counts[1]
        both = (sizes[0], sizes[1]), (counts[0], counts[1])
        if pools_fit(*both, total, per_node):
            continue
        nodes = nodes_of_pools(*both, per_node)
        yield (
            c,
            (
                f"{counted(int(counts[0]), 'prefill worker')} of {sizes[0]:g} GPUs and"
                f" {counted(int(counts[1]), 'decode worker')} of {sizes[1]:g} take {nodes:g} nodes"
                f" of {per_node:g} GPUs and leave {nodes * per_node - total:g} GPUs idle:"
                f" {NOT_PRICED}"
            ),
        )
