"""Asynchronous checkpoints: a short stall, then a lag until the copy is durable.

Shape legend: C candidates. All times in seconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from perfatlas.reliability.fleet.closed_form.renewal import renewal_efficiency
from perfatlas.reliability.fleet.laws import FloatArray, Validity, not_negative, positive

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


def asynchronous_efficiency(
    interval_s: ArrayLike,
    stall_s: ArrayLike,
    lag_s: ArrayLike,
    restart_s: ArrayLike,
    mtti_s: ArrayLike,
) -> Validity:
    """Return the long-run efficiency with asynchronous snapshots (C,).

    Args:
        interval_s: Work between snapshots [s] (C,).
        stall_s: Blocking part of a snapshot [s] (C,).
        lag_s: From the end of the stall until the snapshot is durable [s] (C,).
        restart_s: Recovery, exposed to failures [s] (C,).
        mtti_s: Mean time between interruptions [s] (C,).

    Returns:
        Efficiencies; not valid where a snapshot is due before the previous one is durable, which
        requires several snapshots in flight.

    Raises:
        InvalidSpecError: A negative time, or an interval or MTTI of zero.

    Source: a failure at age X banks tau floor((X - L) / (tau + s)); hence e^(-L/M) times the
        efficiency of blocking writes of length s. The optimum interval is that of s alone.

    Limits: exponential failures; a failure discards every snapshot in flight.

    Example:
        >>> from perfatlas.reliability.fleet.closed_form import asynchronous_efficiency
        >>> h = 3600.0
        >>> found = asynchronous_efficiency(0.5 * h, 10.0, 0.1 * h, 0.2 * h, 1.8 * h)
        >>> print(f"{found.value_C:.6f}")
        0.729704
    """
    blocking = renewal_efficiency(interval_s, stall_s, restart_s, mtti_s)
    return with_durability_lag(blocking, interval_s, stall_s, lag_s, mtti_s)


def with_durability_lag(
    blocking: Validity,
    interval_s: ArrayLike,
    stall_s: ArrayLike,
    lag_s: ArrayLike,
    mtti_s: ArrayLike,
) -> Validity:
    """Return the efficiency of asynchronous snapshots from that of blocking writes (C,).

    Args:
        blocking: Efficiency if every snapshot were durable at the end of its stall.
        interval_s: Work between snapshots [s] (C,).
        stall_s: Blocking part of a snapshot [s] (C,).
        lag_s: From the end of the stall until the snapshot is durable [s] (C,).
        mtti_s: Mean time between interruptions [s] (C,).
    """
    lag, mtti = not_negative("lag_s", lag_s), positive("mtti_s", mtti_s)
    value = np.asarray(np.exp(-lag / mtti) * blocking.value_C, np.float64)
    alone = np.broadcast_to(snapshots_in_flight(interval_s, stall_s, lag_s) <= 1.0, value.shape)
    reason = np.where(
        alone,
        np.broadcast_to(blocking.reason_C, value.shape),
        "a snapshot is due before the previous one is durable: allow several in flight, "
        "lengthen the interval or raise the bandwidth",
    )
    return Validity(value, alone, reason)


def snapshots_in_flight(interval_s: ArrayLike, stall_s: ArrayLike, lag_s: ArrayLike) -> FloatArray:
    """Return the maximum number of snapshots in flight (C,).

    Args:
        interval_s: Work between snapshots [s] (C,).
        stall_s: Blocking part of a snapshot [s] (C,).
        lag_s: From the end of the stall until durable [s] (C,), the bytes over the bandwidth of the
            level.
    """
    cycle = positive("interval_s", interval_s) + not_negative("stall_s", stall_s)
    return np.asarray(np.ceil(not_negative("lag_s", lag_s) / cycle), np.float64)
