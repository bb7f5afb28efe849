"""One job with periodic blocking checkpoints and memoryless failures: exact efficiency, optimum.

Shape legend: C candidates. All times in seconds.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.reliability.fleet.laws import FloatArray, Validity, not_negative, positive

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

MAX_SHARE: Final = float(np.nextafter(1.0, 0.0))  # of the MTTI: its logarithm is finite
NEWTON_STEPS: Final = 5  # leave less than the last digit of any interval
FASTER: Final = "the MTTI is shorter than a restart"
CUT_SHORT: Final = "most restarts are interrupted by the next failure"
HARDLY_ANY: Final = "almost no work is completed"
LOW_GOODPUT: Final = 0.01  # goodput


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
    lost = np.where(value < LOW_GOODPUT, f"{FASTER}: {HARDLY_ANY}", f"{FASTER}: {CUT_SHORT}")
    reason = np.where(slow, lost, "")
    return Validity(value, np.ones(value.shape, np.bool_), reason)


def what_is_lost(goodput: float) -> str:
    """Return the effect of an MTTI shorter than a restart, as text.

    Source: memoryless failures leave e^(-R/M) of the restarts uninterrupted, under 37% where R
        exceeds M.
    """
    return HARDLY_ANY if goodput < LOW_GOODPUT else CUT_SHORT


def optimal_interval_s(write_s: ArrayLike, mtti_s: ArrayLike) -> FloatArray:
    """Return the work between checkpoints that maximises `renewal_efficiency` [s] (C,).

    It depends neither on recovery nor on detection.

    Args:
        write_s: Blocking write of a checkpoint [s] (C,), above zero.
        mtti_s: Mean time between interruptions [s] (C,).

    Raises:
        InvalidSpecError: A time of zero or less: free checkpoints have no optimum.

    Source: setting the derivative to zero gives e^(x + d) (1 - x) = 1 with x = tau / M and
        d = delta / M, so x = 1 + W0(-e^(-1 - d)) with Lambert's W. Newton steps solve
        -ln(1 - x) - x = d, which has no cancellation at small d; the left side is convex, and they
        start above the root: it is at least x^2 / 2, and x is at most 1 - e^(-1 - d).

    Example:
        >>> from perfatlas.reliability.fleet.closed_form import optimal_interval_s
        >>> print(f"{optimal_interval_s(60.0, 7.9 * 3600) / 60:.3f} min")
        30.127 min
    """
    mtti = positive("mtti_s", mtti_s)
    d = positive("write_s", write_s) / mtti
    x = np.minimum(np.minimum(np.sqrt(2.0 * d), -np.expm1(-1.0 - d)), MAX_SHARE)
    for _ in range(NEWTON_STEPS):
        x = np.minimum(x - (_deficit(x) - d) * (1.0 - x) / x, MAX_SHARE)
    return np.asarray(mtti * x, np.float64)


def _deficit(x: FloatArray) -> FloatArray:
    """Return -ln(1 - x) - x without cancellation."""
    small = x * x * (1 / 2 + x * (1 / 3 + x * (1 / 4 + x * (1 / 5 + x / 6))))
    return np.where(x < 1e-2, small, -np.log1p(-x) - x)


def best_goodput(
    gpus: ArrayLike, *, devices: int, node_mtbf_s: float, write_s: float, restart_s: float
) -> FloatArray:
    """Return the goodput of jobs at their best checkpoint interval (C,).

    Args:
        gpus: GPUs of each job (C,).
        devices: GPUs of a node, which fail together.
        node_mtbf_s: Mean time between the failures of a node [s].
        write_s: Blocking write of a checkpoint [s].
        restart_s: Restart after a failure [s].

    Limits: Nodes fail independently and without memory.
    """
    mtti_s = node_mtbf_s / np.ceil(np.asarray(gpus, np.float64) / devices)
    interval_s = optimal_interval_s(write_s, mtti_s)
    return np.asarray(renewal_efficiency(interval_s, write_s, restart_s, mtti_s).value_C)


def renewal_shares(
    interval_s: float, write_s: float, restart_s: float, mtti_s: float, detection_s: float
) -> dict[str, float]:
    """Return the share of the time of a job by category, exact in steady state; they sum to 1.

    Args:
        interval_s: Work between checkpoints [s].
        write_s: Blocking write of a checkpoint [s].
        restart_s: Recovery [s].
        mtti_s: Mean time between interruptions while the job is exposed [s].
        detection_s: Downtime after each failure, without further failures [s].

    Source: failures come once per MTTI and detection; each is followed by one attempt to restart,
        of mean M (1 - e^(-R/M)); one write per completed interval, and interrupted writes; the rest
        is lost.

    Example:
        >>> from perfatlas.reliability.fleet.closed_form import renewal_shares
        >>> shares = renewal_shares(1807.6, 60.0, 300.0, 7.9 * 3600, 0.0)
        >>> print(f"{shares['restart']:.4f} {sum(shares.values()):.1f}")
        0.0105 1.0
    """
    cycle_s = mtti_s + detection_s
    efficiency = renewal_efficiency(interval_s, write_s, restart_s, mtti_s, detection_s)
    productive = float(efficiency.value_C)
    cut_short_s = _cut_short_s(interval_s, write_s, restart_s, mtti_s)
    shares = {
        "productive": productive,
        "checkpoint": productive * write_s / interval_s + cut_short_s / cycle_s,
        "detection": detection_s / cycle_s,
        "restart": mtti_s * -math.expm1(-restart_s / mtti_s) / cycle_s,
    }
    shares["lost_work"] = max(1.0 - sum(shares.values()), 0.0)
    return shares


def _cut_short_s(interval_s: float, write_s: float, restart_s: float, mtti_s: float) -> float:
    """Return the mean time in an interrupted write, per failure [s].

    Source: after a successful restart (e^(-R/M)) the time into a segment at the failure is a
        truncated exponential; its part beyond the work is the write.
    """
    write, segment = write_s / mtti_s, (interval_s + write_s) / mtti_s
    into = -math.expm1(-write) - write * math.exp(-write)
    reached = math.exp(-(restart_s + interval_s) / mtti_s)
    return mtti_s * reached * into / -math.expm1(-segment)
