"""How long the clients of a benchmark, which start together, stay together.

Shape legend: C candidates; K rounds at which a probability is averaged.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from perfatlas.operators import FloatArray

NODES: Final = 16  # of the mean over rounds
SMALLEST: Final = 1e-9  # steps; a scale of equal positions
PERIODS: Final = 3  # in either direction, in which another client may be a round ahead or behind
_erf = np.vectorize(math.erf, otypes=[np.float64])


class Drift(NamedTuple):
    """Clients of a benchmark, counted in decode steps, each (C,).

    Args:
        rounds: Requests of every client.
        steps: Decode steps of a mean output.
        deviation: Standard deviation of the steps of an output.
        stagger: Steps over which the prompts of all clients that start together end.
        window: Steps from the end of a request until the next one of the client is prefilled.
        others: Other clients.
    """

    rounds: FloatArray
    steps: FloatArray
    deviation: FloatArray
    stagger: FloatArray
    window: FloatArray
    others: FloatArray


def together_share(drift: Drift) -> FloatArray:
    """Return how much of the other clients' prompts a request meets as at the start (C,).

    All meet in the first round. While prompts run before all decodes, no sequence decodes; counted
    in decode steps, every client takes a random walk whose step is the length of its output, and
    after k rounds two of them are apart by a deviation of sqrt(2 k) outputs' deviations, modulo an
    output. They meet again where they are apart by less than the steps that one of them is away:
    equal outputs keep all together for ever, and different ones drift apart until the positions are
    independent. In steps shared with decodes, prompts that start together end in different ones.

    Args:
        drift: The clients.

    Limits: Positions are normal, uniform where they fill an output. Outputs are independent.

    Source: derived; the simulation is compared in docs/models/step.md.

    Example:
        >>> import numpy as np
        >>> from perfatlas.inference.client_rounds import Drift, together_share
        >>> one = np.ones(1)
        >>> equal = Drift(10 * one, 100 * one, 0 * one, 0 * one, 2 * one, 3 * one)
        >>> apart = equal._replace(deviation=30 * one)
        >>> [round(float(together_share(one)[0]), 3) for one in (equal, apart)]
        [1.0, 0.135]
    """
    later_C = np.maximum(drift.rounds - 1.0, 0.0)
    node_K, weight_K = np.polynomial.legendre.leggauss(NODES)
    first_C, last_C = math.sqrt(0.5), np.sqrt(later_C + 0.5)  # square roots of rounds
    half_C = np.maximum(last_C - first_C, 0.0) / 2.0
    root_CK = first_C + half_C[:, None] * (1.0 + node_K)
    met_CK = _meets(drift, root_CK**2)
    mean_C = np.sum(met_CK * 2.0 * root_CK * weight_K, axis=1) * half_C
    share_C: FloatArray = (1.0 + mean_C) / drift.rounds
    return share_C


def _meets(drift: Drift, round_CK: FloatArray) -> FloatArray:
    """Return the probability that another client meets a request of a round (C, K).

    Those who follow the first of a group within its window are prefilled right after it, and the
    next one begins a new group: of y that follow within a window on average, a group holds
    y (2 + y) / (1 + y) others of a member, 2 y where clients are far apart and y where not.
    """
    window_CK = np.broadcast_to(drift.window[:, None], round_CK.shape)
    following_CK = drift.others[:, None] * _apart_by_less(window_CK, drift, round_CK) / 2.0
    window_CK = window_CK * (1.0 + following_CK / 2.0) / (1.0 + following_CK)
    return _apart_by_less(window_CK, drift, round_CK)


def _apart_by_less(window_CK: FloatArray, drift: Drift, round_CK: FloatArray) -> FloatArray:
    """Return the probability that two clients are apart by less than some steps (C, K)."""
    steps_C1 = drift.steps[:, None]
    variance_CK = 2.0 * round_CK * drift.deviation[:, None] ** 2
    variance_CK = variance_CK + drift.stagger[:, None] ** 2 / 6.0  # of two uniform positions
    scale_CK = np.maximum(np.sqrt(2.0 * variance_CK), SMALLEST)
    less_CK = np.zeros_like(round_CK)
    for period in range(-PERIODS, PERIODS + 1):
        upper_CK, lower_CK = (
            _erf((period * steps_C1 + side * window_CK) / scale_CK) for side in (1.0, -1.0)
        )
        less_CK += (upper_CK - lower_CK) / 2.0
    uniform_CK = np.minimum(2.0 * window_CK / steps_C1, 1.0)
    return np.clip(less_CK, uniform_CK, 1.0)
