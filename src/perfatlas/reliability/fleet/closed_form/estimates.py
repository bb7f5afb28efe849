"""First-order goodput estimates from the literature and their limits of validity.

Shape legend: C candidates. All times in seconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.reliability.fleet.laws import (
    SIMULATE,
    FloatArray,
    Validity,
    not_negative,
    positive,
    with_validity,
)

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

MOST_LOST: Final = (
    0.3  # lost share of time by the estimate's own terms; arXiv 2410.21680 is linear in it
)
# Weights 2, master copy 4, Adam's two moments 8 (arXiv 1910.02054).
CHECKPOINT_BYTES_PER_PARAMETER: Final = 14.0
BROKEN: Final = (
    "restart and rework lose 30% of the time or more, where this linear estimate is not valid:"
    f" use the exact efficiency or {SIMULATE}"
)


def meta_ettr(
    interval_s: ArrayLike, write_s: ArrayLike, restart_s: ArrayLike, mtti_s: ArrayLike
) -> Validity:
    """Return the expected ETTR of Meta's formula without queue time (C,).

    Args:
        interval_s: Work between checkpoints dt [s] (C,).
        write_s: Blocking write w [s] (C,).
        restart_s: Recovery u0 [s] (C,).
        mtti_s: 1 / (N r_f) [s] (C,).

    Raises:
        InvalidSpecError: A negative time, or an interval or MTTI of zero.

    Source: arXiv 2410.21680 as read in public notes of the paper:
        (1 - N r_f (u0 + dt/2)) / (1 + w/dt).

    Limits: valid while N r_f (u0 + dt/2) < 0.3; 0 beyond 1, where the formula turns negative.
    """
    tau, delta, restart, mtti = _terms(interval_s, write_s, restart_s, mtti_s)
    lost = (restart + tau / 2.0) / mtti
    value = np.maximum((1.0 - lost) / (1.0 + delta / tau), 0.0)
    return with_validity(np.asarray(value), lost < MOST_LOST, BROKEN)


def linear_goodput(
    interval_s: ArrayLike, write_s: ArrayLike, restart_s: ArrayLike, mtti_s: ArrayLike
) -> Validity:
    """Return one minus the linear waste (C,): 1 - (delta/tau + tau/2M + R/M).

    Args:
        interval_s: Work between checkpoints [s] (C,).
        write_s: Blocking write [s] (C,).
        restart_s: Recovery [s] (C,).
        mtti_s: Mean time between interruptions [s] (C,).

    Raises:
        InvalidSpecError: A negative time, or an interval or MTTI of zero.

    Source: first-order expansion of `renewal_efficiency`; common in cost calculators.

    Limits: as for `meta_ettr`, with larger errors.
    """
    tau, delta, restart, mtti = _terms(interval_s, write_s, restart_s, mtti_s)
    lost = (restart + tau / 2.0) / mtti
    value = np.maximum(1.0 - delta / tau - lost, 0.0)
    return with_validity(value, lost + delta / tau < MOST_LOST, BROKEN)


def saxena_availability(
    interval_s: ArrayLike, write_s: ArrayLike, restart_s: ArrayLike, mtti_s: ArrayLike
) -> Validity:
    """Return the first-order availability that `saxena_interval_s` maximises (C,).

    Args:
        interval_s: Work between checkpoints, Tc - Ts [s] (C,).
        write_s: Blocking write Ts [s] (C,).
        restart_s: Recovery Tr [s] (C,).
        mtti_s: Mean time between interruptions Tf [s] (C,).

    Raises:
        InvalidSpecError: A negative time, or an interval or MTTI of zero.

    Source: Saxena, Hukerikar, Blaz and Raj, arXiv 2410.18124:
        (1 - Ts/Tc) Tf / (Tf + Tr + Tc/2).

    Limits: valid while (Tr + Tc/2) / Tf < 0.3.
    """
    tau, delta, restart, mtti = _terms(interval_s, write_s, restart_s, mtti_s)
    period = tau + delta
    value = (1.0 - delta / period) * mtti / (mtti + restart + period / 2.0)
    return with_validity(value, (restart + period / 2.0) / mtti < MOST_LOST, BROKEN)


def _terms(
    interval_s: ArrayLike, write_s: ArrayLike, restart_s: ArrayLike, mtti_s: ArrayLike
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    columns = np.broadcast_arrays(
        positive("interval_s", interval_s),
        not_negative("write_s", write_s),
        not_negative("restart_s", restart_s),
        positive("mtti_s", mtti_s),
    )
    return columns[0], columns[1], columns[2], columns[3]
