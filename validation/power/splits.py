"""Which measured watts are fitted, and which are scored.

Shape legend: U measured rows, D columns of a geometry.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from validation.scoring import read_data

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perfatlas.operators import FloatArray, IntArray


@dataclass(frozen=True, kw_only=True)
class PowerSplits:
    """Rows that are fitted and scored, as stated in the data file."""

    kernels: Mapping[str, Any]  # Tables of kernel watts, their geometry columns and number of folds
    # Studies of sustained loads that are fitted, and those that are scored
    loads: Mapping[str, Any]
    served: Mapping[str, Any]  # Runs of served models: assumed inputs, systems, goals
    nodes: Mapping[str, Any]  # Logs of nodes: workloads that are fitted, and what others are asked


@cache
def power_splits() -> PowerSplits:
    """Return the splits of the shipped data file."""
    return PowerSplits(**read_data("power.toml"))


def fold_of(geometry_UD: FloatArray, folds: int) -> IntArray:
    """Return the fold of each row (U,); equal geometries share a fold.

    Args:
        geometry_UD: Integer numbers that describe the geometry (U, D).
        folds: Number of folds.

    Example:
        >>> import numpy as np
        >>> from validation.power import fold_of
        >>> fold_of(np.array([[64, 8, 128, 0], [64, 8, 128, 0], [64, 8, 256, 0]]), 2).tolist()
        [1, 1, 0]
    """
    distinct, place_U = np.unique(np.asarray(geometry_UD, np.int64), axis=0, return_inverse=True)
    digests = [
        hashlib.sha256(",".join(map(str, one)).encode()).digest()[0] % folds
        for one in distinct.tolist()
    ]
    return np.array(digests, np.int64)[place_U.reshape(-1)]
