"""One job with periodic blocking checkpoints and memoryless failures: exact efficiency, optimum.

Shape legend: C candidates. All times in seconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.reliability.fleet.closed_form.lambert import lambert_w
from perfatlas.reliability.fleet.laws import FloatArray, Validity, not_negative, positive

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

SMALLEST_WRITE: Final = (
    1e-12  # relative to the mean time to interruption; below, Young's value holds to 5e-7
)
FASTER: Final = "the MTTI is shorter than a restart"
CUT_SHORT: Final = "most restarts are interrupted by the next failure"
HARDLY_ANY: Final = "almost no work is completed"
LITTLE: Final = 0.01  # goodput


def renewal_efficiency(
    interval_s: ArrayLike,
    write_s: ArrayLike,
    restart_s: ArrayLike,
    mtti_s: ArrayLike,
    detection_s: ArrayLike = 0.0,
    *,
    restart_exposed: bool = True,
) -> Validity:
    """Return the long-run share of time spent on work that is never rolled back.

    Args:
        interval_s: Work between two checkpoints [s] (C,).
        write_s: Blocking write of a checkpoint [s] (C,).
        restart_s: Recovery after a failure, restarted by a failure during recovery [s] (C,).
        mtti_s: Mean time between interruptions of this job while it is exposed [s] (C,).
        detection_s: Downtime after each failure, without further failures [s] (C,).
        restart_exposed: Whether failures can occur during recovery.

    Returns:
        Efficiencies 0 to 1; exact everywhere, with a remark where restarts exposed to failures
        exceed `mtti_s`.

    Raises:
        InvalidSpecError: A negative time, or an interval or MTTI of zero.

    Source: Daly, FGCS 22(3), 2006, "complete" model; E[T] = e^(R/M) (M + D) (e^((tau+delta)/M) - 1)
        for tau of work, with (M + R + D) in place of the first two factors if recovery is safe.

    Limits: exponential failures, constant times, unlimited spares, steady state.

    Example:
        >>> from perfatlas.reliability.fleet.closed_form import renewal_efficiency
        >>> found = renewal_efficiency(1807.6, 60.0, 300.0, 7.9 * 3600)
        >>> print(f"{found.value_C:.5f}")
        0.92662
    """
    tau, delta = positive("interval_s", interval_s), not_negative("write_s", write_s)
    restart, mtti = not_negative("restart_s", restart_s), positive("mtti_s", mtti_s)
    detection = not_negative("detection_s", detection_s)
    with np.errstate(over="ignore"):
        growth = np.expm1((tau + delta) / mtti)
    if restart_exposed:
        value = np.exp(-restart / mtti) * (tau / (mtti + detection)) / growth
    else:
        value = tau / (mtti + restart + detection) / growth
    value = np.asarray(value, np.float64)
    slow = np.broadcast_to((mtti < restart) & restart_exposed, value.shape)
    lost = np.where(value < LITTLE, f"{FASTER}: {HARDLY_ANY}", f"{FASTER}: {CUT_SHORT}")
    reason = np.where(slow, lost, "")
    return Validity(value, np.ones(value.shape, np.bool_), reason)


def what_is_lost(goodput: float) -> str:
    """Return the effect of an MTTI shorter than a restart, as text.

    Args:
        goodput: Useful share of its time.

    Source: memoryless failures leave e^(-R/M) of the restarts uninterrupted, under 37% where R
        exceeds M.
    """
    return HARDLY_ANY if goodput < LITTLE else CUT_SHORT


def optimal_interval_s(write_s: ArrayLike, mtti_s: ArrayLike) -> FloatArray:
    """Return the work between checkpoints that maximises `renewal_efficiency` [s] (C,).

    It depends neither on recovery nor on detection.

    Args:
        write_s: Blocking write of a checkpoint [s] (C,), above zero.
        mtti_s: Mean time between interruptions [s] (C,).

    Raises:
        InvalidSpecError: A time of zero or less: free checkpoints have no optimum.

    Source: setting the derivative to zero gives e^(x + d) (1 - x) = 1 with x = tau / M and
        d = delta / M, so x = 1 + W0(-e^(-1 - d)); for small d two Newton steps on
        x + d + ln(1 - x) = 0 correct the cancellation of W0 near its branch point.

    Example:
        >>> from perfatlas.reliability.fleet.closed_form import optimal_interval_s
        >>> print(f"{optimal_interval_s(60.0, 7.9 * 3600) / 60:.3f} min")
        30.127 min
    """
    mtti = positive("mtti_s", mtti_s)
    d = positive("write_s", write_s) / mtti
    young = np.sqrt(2.0 * d)
    x = np.where(d < 1e-6, young, 1.0 + lambert_w(-np.exp(-1.0 - np.maximum(d, 1e-6))))
    for _ in range(2):
        near = np.minimum(x, 0.5)
        x = np.where(d < 0.1, near - (_deficit(near) - d) * (1.0 - near) / near, x)
    return np.asarray(mtti * np.where(d < SMALLEST_WRITE, young, x), np.float64)


def _deficit(x: FloatArray) -> FloatArray:
    """Return -ln(1 - x) - x without cancellation."""
    small = x * x * (1 / 2 + x * (1 / 3 + x * (1 / 4 + x * (1 / 5 + x / 6))))
    return np.where(x < 1e-2, small, -np.log1p(-x) - x)
