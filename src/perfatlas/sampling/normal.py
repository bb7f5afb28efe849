"""The standard normal distribution, without the half second in which scipy's functions load.

Shape legend: C candidates.
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.compiled import compiled

if TYPE_CHECKING:
    from numpy.typing import NDArray

    FloatArray = NDArray[np.float64]

_STANDARD: Final = NormalDist()


def normal_quantile(probability: float) -> float:
    """Return the value that a standard normal variable stays below with a probability.

    Args:
        probability: From 0, for minus infinity, to 1, for infinity.

    Example:
        >>> from perfatlas.sampling import normal_quantile
        >>> round(normal_quantile(0.95), 4)
        1.6449
    """
    if not 0.0 < probability < 1.0:
        return -math.inf if probability <= 0.0 else math.inf
    return _STANDARD.inv_cdf(probability)


def normal_probability(value_C: FloatArray) -> FloatArray:
    """Return the probability that a standard normal variable stays below each value (C,).

    Args:
        value_C: The values (C,).

    Example:
        >>> import numpy as np
        >>> from perfatlas.sampling import normal_probability
        >>> normal_probability(np.array([-np.inf, 0.0, 1.6449])).round(3).tolist()
        [0.0, 0.5, 0.95]
    """
    found_C = np.empty(value_C.shape)
    _probabilities(value_C, found_C)
    return found_C


@compiled
def _probabilities(value_C: FloatArray, found_C: FloatArray) -> None:
    for index in range(value_C.shape[0]):
        # of the complement, which keeps its digits where the probability is small
        found_C[index] = 0.5 * math.erfc(-value_C[index] * math.sqrt(0.5))
