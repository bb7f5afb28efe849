"""Planned maintenance: the job drains to its next checkpoint, pauses and restarts.

Shape legend: C candidates. All times in seconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from perfatlas.reliability.fleet.closed_form.renewal import renewal_efficiency
from perfatlas.reliability.fleet.laws import Validity, not_negative, positive

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

MIN_INTERVALS_APART: float = (
    5.0  # intervals, restarts and downtimes between two maintenances, at least
)


class Plain(NamedTuple):
    """A job with one kind of checkpoint."""

    interval_s: ArrayLike  # Work between two checkpoints [s] (C,)
    write_s: ArrayLike  # Blocking write of one [s] (C,)
    restart_s: ArrayLike  # Recovery, restarted by a failure during recovery [s] (C,)
    mtti_s: ArrayLike  # Mean time between interruptions while it is exposed [s] (C,)
    detection_s: ArrayLike = 0.0  # Downtime after each failure, without further failures [s] (C,)


def maintained_efficiency(job: Plain, every_s: ArrayLike, lasts_s: ArrayLike) -> Validity:
    """Return the long-run share of useful time of a job with planned maintenance (C,).

    Args:
        every_s: Time between the starts of two maintenances [s] (C,).
        lasts_s: Duration of one [s] (C,), without failures.

    Returns:
        Efficiencies; valid where maintenance is rare compared with checkpoints and restarts.

    Raises:
        InvalidSpecError: A negative time, or an interval or MTTI of zero.

    Source: renewal theory. A share lasts/every of the time is maintenance. The job reaches its next
        checkpoint with probability q and then needs one more restart, of mean (e^(R/M) - 1) (M +
        D); otherwise a failure stops it first and its own restart follows the maintenance. With L
        the length of a segment, a running job reaches it with probability (L/M) e^(-L/M) / (1 -
        e^(-L/M)), as the age of a segment is a truncated exponential; a restarting one with
        (R/M) e^(-R/M) / (1 - e^(-R/M)) e^(-L/M); one with an undetected failure never.

    Limits: memoryless failures, constant times, unlimited spares; maintenance intervals long enough
        to reach steady state.

    Example:
        >>> from perfatlas.reliability.fleet.closed_form import Plain, maintained_efficiency
        >>> job = Plain(1800.0, 60.0, 300.0, 8 * 3600.0)
        >>> print(f"{maintained_efficiency(job, 30 * 86400.0, 6 * 3600.0).value_C:.4f}")
        0.9193
    """
    tau, delta = positive("interval_s", job.interval_s), not_negative("write_s", job.write_s)
    restart, mtti = not_negative("restart_s", job.restart_s), positive("mtti_s", job.mtti_s)
    detection = not_negative("detection_s", job.detection_s)
    every, lasts = positive("every_s", every_s), not_negative("lasts_s", lasts_s)
    length = (tau + delta) / mtti
    noticing = detection / (mtti + detection)
    restarting = -mtti * np.expm1(-restart / mtti) / (mtti + detection)
    safe = np.where(restart > 0.0, restart / mtti, 1.0)
    passes = np.where(restart > 0.0, safe / np.expm1(safe), 1.0)
    reached = (1.0 - noticing - restarting) * length / np.expm1(length)
    reached = reached + restarting * passes * np.exp(-length)
    more = np.expm1(restart / mtti) * (mtti + detection)
    left = np.maximum(1.0 - (lasts + reached * more) / every, 0.0)
    value = renewal_efficiency(tau, delta, restart, mtti, detection).value_C * left
    seldom = every > lasts + MIN_INTERVALS_APART * (tau + delta + restart + detection + more)
    valid_C = np.broadcast_to(seldom, value.shape)
    early = "maintenance is due before the job has recovered: simulate it"
    return Validity(np.asarray(value, np.float64), valid_C, np.where(valid_C, "", early))
