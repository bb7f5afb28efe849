"""Availability with redundant parts, and the blast radius of one failed part.

Shape legend: C candidates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.quantities import InvalidSpecError
from perfatlas.reliability.fleet.laws import FloatArray, probability, whole

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

ROUNDING: Final = 1e-9  # of a number of replicas


def at_least(needed: ArrayLike, parts: ArrayLike, unavailability: ArrayLike) -> FloatArray:
    """Return the probability that at least `needed` of `parts` are up (C,).

    Args:
        needed: Parts that must be up (C,).
        parts: Number of parts (C,).
        unavailability: Probability that one part is down (C,).

    Raises:
        InvalidSpecError: More parts needed than exist, or a number outside its range.

    Source: binomial tail by the incomplete beta function; parts fail independently.

    Example:
        >>> from perfatlas.reliability.fleet.closed_form import at_least
        >>> print(f"{at_least(72, 72, 1e-3):.4f} {at_least(71, 72, 1e-3):.5f}")
        0.9305 0.99756
    """
    from scipy.special import bdtr

    k, n = np.broadcast_arrays(whole("needed", needed), whole("parts", parts, lowest=1))
    if np.any(k > n):
        raise InvalidSpecError(
            f"needed = {k.max()}: expected at most the number of parts, {n[k > n].flat[0]}"
        )
    down = probability("unavailability", unavailability)
    return np.asarray(bdtr((n - k).astype(np.float64), n, down), np.float64)


def usable_share(needed: ArrayLike, parts: ArrayLike, unavailability: ArrayLike) -> FloatArray:
    """Return the mean share of parts in use where each domain needs k of n (C,).

    Args:
        needed: Parts of a domain in use; the others are spares (C,).
        parts: Parts of a domain (C,).
        unavailability: Probability that one part is down (C,).

    Raises:
        InvalidSpecError: A number outside its range.

    Source: (k / n) P(at least k up).
    """
    ratio = whole("needed", needed) / whole("parts", parts, lowest=1)
    return np.asarray(ratio * at_least(needed, parts, unavailability), np.float64)


def blast_usable(domain: ArrayLike, unavailability: ArrayLike) -> FloatArray:
    """Return the usable share of devices where one failed device idles its whole domain (C,).

    Args:
        domain: Devices of a domain (C,).
        unavailability: Probability that one device is down (C,).

    Raises:
        InvalidSpecError: A number outside its range.

    Source: (1 - u)^d; independent devices.

    Example:
        >>> from perfatlas.reliability.fleet.closed_form import blast_usable
        >>> print(f"{blast_usable(64, 1e-3):.3f}")
        0.938
    """
    size = whole("domain", domain, lowest=1)
    down = probability("unavailability", unavailability)
    with np.errstate(divide="ignore"):
        return np.asarray(np.exp(size * np.log1p(-down)), np.float64)


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
        found_C = bdtr(np.maximum(full_C - units_C, 0.0), full_C.astype(np.int64), down_C)
        return np.asarray(np.where(units_C > full_C, 0.0, found_C), np.float64)

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
        own = needed[left], needed[left] + count, nodes_each[left]
        reached = replicas_up(*own, unavailability) >= target
        spares_C[left[reached]] = count
        left = left[~reached]
        count += 1
        left = left[needed[left] + count <= most[left]]
    return spares_C
