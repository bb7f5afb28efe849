"""Availability of a service with spare replicas.

Shape legend: C candidates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from perfatlas.reliability.fleet.laws import FloatArray

ROUNDING: Final = 1e-9  # of a number of replicas


def replicas_up(
    needed: FloatArray, replicas: FloatArray, nodes_each: FloatArray, unavailability: float
) -> FloatArray:
    """Return the probability that enough replicas of a service work (C,).

    Args:
        needed: Replicas that must work (C,).
        replicas: All replicas, placed on as few nodes as hold them (C,).
        nodes_each: Nodes of a replica, a fraction where several share a node (C,).
        unavailability: Probability that one node is down.

    Source: binomial tails. A replica works if all of its nodes do; replicas that share a node fail
        together, and the node that is not full has the remaining ones.

    Limits: Nodes fail independently; replicas of several nodes share none.

    Example:
        >>> import numpy as np
        >>> from perfatlas.reliability.fleet.closed_form import replicas_up
        >>> two, three = np.array([2.0]), np.array([3.0])
        >>> print(f"{replicas_up(two, three, np.array([1.0]), 0.1)[0]:.3f}")  # 0.9^3 + 3 0.9^2 0.1
        0.972
        >>> print(f"{replicas_up(two, three, np.array([0.5]), 0.1)[0]:.3f}")  # the full node works
        0.900
    """
    from scipy.special import bdtr

    each_C = np.maximum(np.floor(1.0 / nodes_each + ROUNDING), 1.0)  # replicas of a node
    down_C = 1.0 - (1.0 - unavailability) ** np.maximum(np.ceil(nodes_each), 1.0)
    full_C, rest_C = np.floor(replicas / each_C), np.mod(replicas, each_C)

    def enough(least_C: FloatArray) -> FloatArray:
        """Return the probability that full nodes hold so many working replicas."""
        units_C = np.ceil(np.maximum(least_C, 0.0) / each_C)
        share_C = bdtr(np.maximum(full_C - units_C, 0.0), full_C.astype(np.int64), down_C)
        return np.asarray(np.where(units_C > full_C, 0.0, share_C), np.float64)

    with_rest_C, without_C = enough(needed - rest_C), enough(needed)
    return np.where(
        rest_C > 0.0, (1.0 - down_C) * with_rest_C + down_C * without_C, without_C
    ).astype(np.float64)


def spare_replicas(
    needed: FloatArray,
    most: FloatArray,
    nodes_each: FloatArray,
    unavailability: float,
    target: float,
) -> FloatArray:
    """Return the fewest replicas beyond the needed ones with which a service is available (C,).

    Args:
        needed: Replicas that must work (C,).
        most: Largest number of all replicas (C,).
        nodes_each: Nodes of a replica, a fraction where several share a node (C,).
        unavailability: Probability that one node is down.
        target: Least probability that enough replicas work.

    Returns:
        Spare replicas, inf where more than `most` replicas would be needed.
    """
    spares_C = np.full(needed.shape, np.inf)
    left = np.flatnonzero(needed <= most)
    count = 0
    while left.size:
        group = needed[left], needed[left] + count, nodes_each[left]
        reached = replicas_up(*group, unavailability) >= target
        spares_C[left[reached]] = count
        left = left[~reached]
        count += 1
        left = left[needed[left] + count <= most[left]]
    return spares_C
