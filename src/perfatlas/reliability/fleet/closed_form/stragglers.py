"""The slowest of many ranks: the cost of synchronisation.

Shape legend: C candidates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from perfatlas.reliability.fleet.laws import FloatArray, not_negative, positive, whole
from perfatlas.sampling import expected_slowdown

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


class SlowestStep(NamedTuple):
    """The parts of a synchronous step.

    Args:
        mean_s: Step time of an average rank [s] (C,).
        persistent_s: Added by persistent differences between ranks alone [s] (C,).
        transient_s: Added further by variation between synchronisations [s] (C,).
        step_s: Total [s] (C,).
    """

    mean_s: FloatArray
    persistent_s: FloatArray
    transient_s: FloatArray
    step_s: FloatArray


def largest_normal(ranks: ArrayLike) -> FloatArray:
    """Return the mean of the largest of n standard normals (C,), by quadrature.

    Args:
        ranks: n (C,).

    Raises:
        InvalidSpecError: Less than one rank, or a fraction of one.

    Example:
        >>> from perfatlas.reliability.fleet.closed_form import largest_normal
        >>> [f"{value:.3f}" for value in largest_normal([8, 64, 1024, 16384])]
        ['1.424', '2.344', '3.248', '3.971']
    """
    n = np.atleast_1d(whole("ranks", ranks, lowest=1)).astype(np.int64)
    value = expected_slowdown("normal", np.ones(n.shape), n)
    return np.asarray(value.reshape(np.shape(ranks)), np.float64)


def slowest_step(
    mean_s: ArrayLike,
    persistent_s: ArrayLike,
    transient_s: ArrayLike,
    ranks: ArrayLike,
    synchronisations: ArrayLike = 1,
) -> SlowestStep:
    """Return the mean of a synchronous step over ranks that differ and jitter.

    Args:
        mean_s: Step of an average rank [s] (C,).
        persistent_s: Standard deviation between ranks, the same in every step [s] (C,).
        transient_s: Standard deviation of one rank between steps [s] (C,).
        ranks: Ranks that synchronise (C,).
        synchronisations: Synchronisations per step, equally spaced (C,).

    Raises:
        InvalidSpecError: A negative time or a count below one.

    Source: maximum of sums of normals. A segment of a step varies by s_p/K between ranks and by
        s_t/sqrt(K) in time, so K maxima add up to z_n sqrt(s_p^2 + K s_t^2).

    Limits: normal, independent noise. Slow events (fail-slow) belong in the simulator.
    """
    mean, persistent = positive("mean_s", mean_s), not_negative("persistent_s", persistent_s)
    transient = not_negative("transient_s", transient_s)
    pieces = whole("synchronisations", synchronisations, lowest=1)
    z = largest_normal(ranks)
    lasting = z * persistent
    both = z * np.sqrt(persistent**2 + pieces * transient**2)
    parts = np.broadcast_arrays(mean, lasting, both - lasting, mean + both)
    return SlowestStep(*(np.asarray(part, np.float64) for part in parts))
