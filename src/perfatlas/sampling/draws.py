"""Seeded subsets and sample quantiles: the same seed gives the same rows everywhere.

Shape legend: K kept rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

FIVE_QUANTILES: Final[Mapping[str, float]] = {
    "q05": 0.05,
    "q25": 0.25,
    "q50": 0.5,
    "q75": 0.75,
    "q95": 0.95,
}


def seeded_subset(count: int, keep: int, seed: int) -> NDArray[np.int64]:
    """Return the indices of a sorted subset without repetition (K,); all of them if few.

    Args:
        keep: Maximum number of rows to keep.

    Example:
        >>> from perfatlas.sampling import seeded_subset
        >>> seeded_subset(3, 10, seed=1).tolist()
        [0, 1, 2]
    """
    if count <= keep:
        return np.arange(count, dtype=np.int64)
    chosen = np.random.default_rng(seed).choice(count, keep, replace=False)
    return np.sort(chosen).astype(np.int64)


def five_quantiles(values: NDArray[np.float64]) -> dict[str, float]:
    """Return the 5%, 25%, 50%, 75% and 95% quantiles of a sample as q05 ... q95.

    Args:
        values: The sample (N,).

    Source: linear interpolation between order statistics, Hyndman and Fan 1996, type 7.

    Example:
        >>> import numpy as np
        >>> from perfatlas.sampling import five_quantiles
        >>> five_quantiles(np.arange(101.0))["q05"]
        5.0
    """
    levels = np.quantile(values, list(FIVE_QUANTILES.values()))
    return {name: float(level) for name, level in zip(FIVE_QUANTILES, levels, strict=True)}
