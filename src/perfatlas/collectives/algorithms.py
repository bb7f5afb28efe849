"""Names of the fastest algorithm according to the physics.

Shape legend: U unique shapes, D shape columns, P parameters.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.collectives.physics import bulk_times_s, latency_hops, one_shot_times_s

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfatlas.collectives.query import CollectiveQuery
    from perfatlas.collectives.rings import FabricTimes
    from perfatlas.operators import FloatArray


NVLS: Final = "nvls"  # the switch inside a domain reduces, which NCCL calls NVLS
LIBRARY_ALGORITHMS: Final = ("ring", "tree", NVLS)


def library_algorithm(op: str, shape_UD: FloatArray, parameters_UP: FloatArray) -> NDArray[np.str_]:
    """Return the algorithm of a library collective: ring, tree, nvls or pairwise (U,).

    Args:
        shape_UD: Columns of `COLLECTIVE_SHAPE` (U, D).
        parameters_UP: Columns of `LIBRARY_PARAMETERS` (U, P).
    """
    if op not in ("all_reduce", "all_gather", "reduce_scatter"):
        return np.full(shape_UD.shape[0], "pairwise")
    p_PU = parameters_UP.T
    ranks_U = shape_UD[:, 1]
    ring_s_U, switch_s_U = bulk_times_s(shape_UD, p_PU)
    small_U = shape_UD[:, 0] <= p_PU[9] * np.minimum(ranks_U, p_PU[11])
    tree_U = small_U & (latency_hops(ranks_U, p_PU[11]) < ranks_U - 1.0)
    named_U = np.where(tree_U, "tree", "ring")
    return np.where(~small_U & (switch_s_U < ring_s_U), NVLS, named_U)


def custom_algorithm(shape_UD: FloatArray, parameters_UP: FloatArray) -> NDArray[np.str_]:
    """Return the algorithm of an engine's all-reduce: one_shot, two_shot or library (U,).

    Args:
        shape_UD: Columns of `COLLECTIVE_SHAPE` (U, D).
        parameters_UP: Columns of `CUSTOM_PARAMETERS` (U, P).
    """
    p_PU = parameters_UP.T
    one_U, two_U = one_shot_times_s(shape_UD, p_PU)
    named_U = np.where(one_U <= two_U, "one_shot", "two_shot")
    return np.where(shape_UD[:, 0] > p_PU[5], "library", named_U)


def across_nodes(
    query: CollectiveQuery,
    crosses_U: NDArray[np.bool_],
    inside_U: NDArray[np.str_],
    hops: FabricTimes | None,
) -> NDArray[np.str_]:
    """Return the algorithms of groups, of those that span nodes with what they run inside (U,).

    Args:
        crosses_U: Groups that span nodes (U,).
        inside_U: Algorithms inside a node (U,).
        hops: Times of hops over all ranks; None for collectives without them.
    """
    if hops is not None:
        return np.where(crosses_U, np.where(hops.pat_U, "pat", "ring"), inside_U)
    alone_U = query.group.inside_LU[1] == 1.0
    sharp_U = query.links.fabric_adds_U > 0.0
    named_U = np.char.add("hierarchical_", inside_U.astype(np.str_))
    named_U = np.where(inside_U == NVLS, np.where(sharp_U, "nvls_sharp", "nvls_tree"), named_U)
    return np.where(crosses_U, np.where(alone_U, "fabric", named_U), inside_U)
