"""Silent data corruption: work, a verification that detects it, then a clean checkpoint.

Shape legend: C candidates. All times in seconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from perfatlas.reliability.fleet.laws import FloatArray, not_negative, positive

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


class VerifiedPattern(NamedTuple):
    """Periodic pattern of work, verification and checkpoint, with its failure rates."""

    verify_s: ArrayLike  # Verification after the work [s] (C,)
    write_s: ArrayLike  # Checkpoint after the verification [s] (C,)
    restart_s: ArrayLike  # Recovery, exposed to failures [s] (C,)
    detection_s: ArrayLike  # Downtime after each failure, without further failures [s] (C,)
    failure_per_s: ArrayLike  # Rate of failures that stop the job [1/s] (C,)
    silent_per_s: ArrayLike  # Rate of silent errors, which occur only during work [1/s] (C,)


def verified_time_s(work_s: ArrayLike, pattern: VerifiedPattern) -> FloatArray:
    """Return the expected time to complete and save one segment of work [s] (C,).

    Args:
        work_s: Work between verified checkpoints [s] (C,).
        pattern: The other times and the rates of the pattern.

    Raises:
        InvalidSpecError: A negative time or rate, no work.

    Source: Aupy, Benoit, Herault, Robert, Vivien and Zaidouni, PRDC'13: the pattern; expectation by
        conditioning on the outcome of one attempt.

    Limits: exponential failures and errors; verification detects every error.

    Example:
        >>> from perfatlas.reliability.fleet.closed_form import VerifiedPattern, verified_time_s
        >>> h = 3600.0
        >>> rates = 1 / (1.8 * h), 1 / (24 * h)
        >>> pattern = VerifiedPattern(0.02 * h, 0.03 * h, 0.2 * h, 0.05 * h, *rates)
        >>> print(f"{verified_time_s(0.5 * h, pattern) / h:.6f}")
        0.758325
    """
    work = positive("work_s", work_s)
    verify, write, restart, detection, failing, silent = (
        not_negative(name, values)
        for name, values in zip(VerifiedPattern._fields, pattern, strict=True)
    )
    with np.errstate(over="ignore", under="ignore"):
        until_verified = np.exp(-failing * (work + verify))
        clean = until_verified * np.exp(-silent * work)
        done = clean * np.exp(-failing * write)
        length = _span(failing, work + verify) + clean * _span(failing, write)
        stopped = -np.expm1(-failing * (work + verify)) - clean * np.expm1(-failing * write)
        caught = -until_verified * np.expm1(-silent * work)
        recovery = np.exp(failing * restart) * _span(failing, restart) + detection * np.expm1(
            failing * restart
        )
    with np.errstate(divide="ignore"):  # an attempt that never succeeds takes infinite time
        time = (length + stopped * (detection + recovery) + caught * recovery) / done
    return np.asarray(time, np.float64)


def _span(rate: FloatArray, length: FloatArray) -> FloatArray:
    """Return the expected time to the first failure or the end of a span [s]."""
    safe = np.where(rate > 0.0, rate, 1.0)
    return np.where(rate > 0.0, -np.expm1(-rate * length) / safe, length)
