"""Censored and left-truncated lifetimes.

Units still alive at the end are censored; units first observed at an age are left-truncated. Units
of unknown age, in a fleet in steady state, are of mixed ages.

Shape legend: L lifetimes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from perfatlas.quantities import InvalidSpecError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Float = NDArray[np.float64]
    Bool = NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class Lifetimes:
    """Ages of units at the first and last observation, and whether they failed.

    Any unit of time may be used; results have the same unit. Equal rows are stored once, with a
    weight.
    """

    entry_L: Float  # Age at the first observation (L,); 0 where observed from new
    exit_L: Float  # Age at failure or at the last observation (L,)
    failed_L: Bool  # Whether it failed at that age (L,); otherwise it is censored
    weight_L: Float  # Number of units of the row (L,)
    # Units of mixed ages: observation time until failure or the last observation, from 0; None for
    # none
    mixed: Lifetimes | None = None

    @property
    def units(self) -> int:
        """Number of units."""
        return int(self.weight_L.sum())

    @property
    def failures(self) -> int:
        """Number of failures."""
        return int(self.weight_L[self.failed_L].sum())

    @property
    def exposure(self) -> float:
        """Total observation time of all units [unit of the ages]."""
        return float(self.weight_L @ (self.exit_L - self.entry_L))


def lifetimes(exit_L: ArrayLike, failed_L: ArrayLike, entry_L: ArrayLike = 0.0) -> Lifetimes:
    """Return lifetimes from columns.

    Args:
        exit_L: Age at failure or at the last observation (L,), in any unit of time.
        failed_L: Whether it failed at that age (L,).
        entry_L: Age at the first observation (L,), or a scalar.

    Raises:
        InvalidSpecError: The columns differ in length, an age is negative or not finite, or a last
            observation is not after the first; the message names the row.

    Example:
        >>> from perfatlas.reliability.telemetry.history import lifetimes
        >>> seen = lifetimes([2.0, 3.0, 3.0], [True, False, False])
        >>> seen.units, seen.failures, seen.exposure
        (3, 1, 8.0)
    """
    exit_N = np.asarray(exit_L, np.float64)
    failed_N = np.asarray(failed_L)
    if exit_N.ndim != 1 or failed_N.shape != exit_N.shape:
        raise InvalidSpecError(
            f"lifetimes: {exit_N.shape} ages and {failed_N.shape} failure flags; expected one per"
            " unit"
        )
    if failed_N.dtype != np.bool_ and not np.isin(failed_N, (0, 1)).all():
        raise InvalidSpecError("lifetimes: a failure flag is neither true nor false")
    entry_N = np.broadcast_to(np.asarray(entry_L, np.float64), exit_N.shape)
    if not exit_N.size:
        raise InvalidSpecError("lifetimes: no rows")
    no_age_N = ~(np.isfinite(exit_N) & np.isfinite(entry_N) & (entry_N >= 0.0))
    for wrong_N, problem in (
        (no_age_N, "expected finite ages of at least 0"),
        (exit_N <= entry_N, "it is observed for no time"),
    ):
        if wrong_N.any():
            row = int(np.argmax(wrong_N))
            raise InvalidSpecError(
                f"lifetimes, row {row + 1} of {exit_N.size}: first seen at {entry_N[row]:g}, last"
                f" seen at {exit_N[row]:g}: {problem}"
            )
    rows_N3 = np.stack([entry_N, exit_N, failed_N.astype(np.float64)], axis=1)
    rows_L3, count_L = np.unique(rows_N3, axis=0, return_counts=True)
    return Lifetimes(
        entry_L=np.ascontiguousarray(rows_L3[:, 0]),
        exit_L=np.ascontiguousarray(rows_L3[:, 1]),
        failed_L=rows_L3[:, 2] > 0.0,
        weight_L=count_L.astype(np.float64),
    )
