"""Availability with redundant parts, and the blast radius of one failed part.

Shape legend: C candidates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from perfatlas.fleet.laws import FloatArray, probability, whole
from perfatlas.quantities import InvalidSpecError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


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
        >>> from perfatlas.fleet.closed_form import at_least
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
        >>> from perfatlas.fleet.closed_form import blast_usable
        >>> print(f"{blast_usable(64, 1e-3):.3f}")
        0.938
    """
    size = whole("domain", domain, lowest=1)
    down = probability("unavailability", unavailability)
    with np.errstate(divide="ignore"):
        return np.asarray(np.exp(size * np.log1p(-down)), np.float64)
