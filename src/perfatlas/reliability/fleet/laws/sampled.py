"""Draws from a distribution by the compiled code of the simulator.

Shape legend: N draws.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from perfatlas.compiled import entry, exponential, replica_key
from perfatlas.reliability.fleet.laws.hazards import age_at
from perfatlas.reliability.fleet.laws.laws import Law, PackedLaws
from perfatlas.reliability.fleet.laws.records import TICKS_PER_SECOND

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfatlas.reliability.fleet.laws.columns import FloatArray


@entry
def _fill(
    law_L: NDArray[Any],
    knots_2K: NDArray[np.float64],
    place: int,
    seed: int,
    value_N: NDArray[np.float64],
) -> None:
    key = replica_key(seed, 0)
    for n in range(value_N.shape[0]):
        value_N[n] = age_at(law_L[place], knots_2K, exponential(key, 0, n))


def sample_s(law: Law, count: int, *, seed: int) -> FloatArray:
    """Return independent draws from a distribution [s] (N,).

    Args:
        seed: The same seed gives the same draws.

    Raises:
        InvalidSpecError: The parameters of the distribution are invalid.

    Example:
        >>> from perfatlas.reliability.fleet.laws import Constant
        >>> from perfatlas.reliability.fleet.laws import sample_s
        >>> sample_s(Constant(value_s=2.0), 2, seed=1).tolist()
        [2.0, 2.0]
    """
    laws = PackedLaws()
    place = laws.add(law, "law")
    value_N = np.empty(count)
    _fill(laws.rows(), laws.knots(), place, seed, value_N)
    return value_N / TICKS_PER_SECOND
