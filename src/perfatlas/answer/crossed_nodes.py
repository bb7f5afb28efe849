"""Warnings about workers that cross nodes although their price assumes that they do not.

Shape legend: C candidates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas import parallelism
from perfatlas.quantities import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from perfatlas.operators import FloatArray
    from perfatlas.step import Candidates

SHARES: Final = "share a node with another"
SPANS: Final = "span more nodes than its price assumes"


def node_notes(question: Candidates) -> Iterator[tuple[int, str]]:
    """Yield candidates whose replicas do not fit on nodes as they are priced, and a warning."""
    yield from _cut_groups(question)
    plan, node_C = question.plan, question.placement.node()
    each_C = plan.gpus_per_replica
    crowded_C = plan.dp > parallelism.most_replicas(each_C, node_C, plan.ranks)
    for c in np.flatnonzero(crowded_C).tolist():
        row = slice(c, c + 1)
        whole = float(parallelism.gpus_of_nodes(each_C[row], float(node_C[c]), plan.dp[row])[0])
        yield (
            c,
            (
                f"{counted(int(plan.dp[c]), 'replica')} of {counted(int(each_C[c]), 'GPU')} take"
                f" {_left_idle(whole, float(node_C[c]), float(plan.ranks[c]))}:"
                f" {_unpriced((float(each_C[c]),), float(node_C[c]))}"
            ),
        )


def _cut_groups(question: Candidates) -> Iterator[tuple[int, str]]:
    """Yield candidates with groups that are priced inside a node, and that nodes cut."""
    node_C = question.placement.node()
    for c in np.flatnonzero(parallelism.cuts_groups(question.plan, node_C)).tolist():
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
    for pool in pools:
        yield from _cut_groups(pool)
    for c in range(prefill.size):
        systems = [pool.placement.systems[int(pool.placement.index_C[c])] for pool in pools]
        if systems[0] != systems[1]:
            continue
        per_node = parallelism.node_gpus(systems[0])
        sizes = tuple(
            float(candidates.plan.gpus_per_replica[c]) for candidates in (prefill, decode)
        )
        counts = tuple(float(number_C[c]) for number_C in workers)
        total = sizes[0] * counts[0] + sizes[1] * counts[1]
        both = (sizes[0], sizes[1]), (counts[0], counts[1])
        if parallelism.pools_fit(*both, total, per_node):
            continue
        nodes = parallelism.nodes_of_pools(*both, per_node)
        yield (
            c,
            (
                f"{counted(int(counts[0]), 'prefill worker')} of {counted(int(sizes[0]), 'GPU')}"
                f" and {counted(int(counts[1]), 'decode worker')} of {sizes[1]:,.0f} take"
                f" {_left_idle(nodes * per_node, per_node, total)}: {_unpriced(sizes, per_node)}"
            ),
        )


def _left_idle(whole: float, per_node: float, used: float) -> str:
    """Return the nodes of a number of GPUs, and how many of the GPUs have no worker."""
    nodes, idle = counted(int(whole / per_node), "node"), counted(int(whole - used), "GPU")
    return f"{nodes} of {counted(int(per_node), 'GPU')} and leave {idle} idle"


def _unpriced(sizes: Sequence[float], per_node: float) -> str:
    """Return what one of some workers would do on fewer nodes."""
    smaller, larger = min(sizes), max(sizes)
    ways = [SHARES] if larger > per_node else []
    if larger <= per_node or (smaller < per_node and per_node % smaller > 0.0):
        ways.append(SPANS)
    return f"on fewer nodes, one would {' or '.join(ways)}"
