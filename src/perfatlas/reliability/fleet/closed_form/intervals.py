"""Checkpoint intervals from the literature, compared with the exact optimum.

Shape legend: C candidates. All times in seconds; an interval is the work between checkpoints,
without the write.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.reliability.fleet.closed_form.renewal import optimal_interval_s
from perfatlas.reliability.fleet.laws import (
    FloatArray,
    Validity,
    not_negative,
    positive,
    with_validity,
)

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

ALLOWED_LOSS: Final = 1e-3  # relative to the efficiency at the exact optimum
TOO_LONG: Final = "costs more than 0.1% of the optimum's efficiency: use the exact optimum"


def young_interval_s(write_s: ArrayLike, mtti_s: ArrayLike) -> Validity:
    """Return Young's interval [s] (C,): sqrt(2 delta M).

    Args:
        write_s: Blocking write [s] (C,).
        mtti_s: Mean time between interruptions [s] (C,).

    Raises:
        InvalidSpecError: A time of zero or less.

    Source: Young, CACM 17(9), 1974.

    Limits: write and restart far below the MTTI. Valid here means it costs at most 0.1% of the
        efficiency at the exact optimum; that ratio depends on neither restart nor detection.
    """
    delta, mtti = positive("write_s", write_s), positive("mtti_s", mtti_s)
    return _against_optimum(np.sqrt(2.0 * delta * mtti), delta, mtti)


def daly_higher_order_s(write_s: ArrayLike, mtti_s: ArrayLike) -> Validity:
    """Return Daly's higher-order interval [s] (C,).

    Args:
        write_s: Blocking write [s] (C,).
        mtti_s: Mean time between interruptions [s] (C,).

    Raises:
        InvalidSpecError: A time of zero or less.

    Source: Daly, FGCS 22(3), 2006: sqrt(2 delta M) [1 + sqrt(delta/2M)/3 + (delta/2M)/9] - delta
        below delta = 2 M, else M.
    """
    delta, mtti = positive("write_s", write_s), positive("mtti_s", mtti_s)
    half = delta / (2.0 * mtti)
    series = np.sqrt(2.0 * delta * mtti) * (1.0 + np.sqrt(half) / 3.0 + half / 9.0) - delta
    return _against_optimum(np.where(delta < 2.0 * mtti, series, mtti), delta, mtti)


def saxena_interval_s(write_s: ArrayLike, mtti_s: ArrayLike, restart_s: ArrayLike) -> Validity:
    """Return the interval that maximises the first-order availability of Saxena et al. [s] (C,).

    Args:
        write_s: Blocking write Ts [s] (C,).
        mtti_s: Mean time between interruptions Tf [s] (C,).
        restart_s: Recovery Tr [s] (C,).

    Returns:
        Tc - Ts with Tc = Ts + sqrt(2 (Tf + Tr) Ts + Ts^2); their Tc includes the write.

    Raises:
        InvalidSpecError: A negative time, or a write or MTTI of zero.

    Source: Saxena, Hukerikar, Blaz and Raj, arXiv 2410.18124.

    Limits: the objective is first order in Tc / Tf; see `saxena_availability`.
    """
    delta, mtti = positive("write_s", write_s), positive("mtti_s", mtti_s)
    restart = not_negative("restart_s", restart_s)
    return _against_optimum(np.sqrt(2.0 * (mtti + restart) * delta + delta**2), delta, mtti)


def _against_optimum(value: FloatArray, delta: FloatArray, mtti: FloatArray) -> Validity:
    """Return intervals, valid where they lose at most `ALLOWED_LOSS` to the exact optimum."""
    best = optimal_interval_s(delta, mtti)
    kept = _gain(value, delta, mtti) / _gain(best, delta, mtti)
    return with_validity(value, np.nan_to_num(kept) >= 1.0 - ALLOWED_LOSS, TOO_LONG)


def _gain(tau: FloatArray, delta: FloatArray, mtti: FloatArray) -> FloatArray:
    """Return the part of the exact efficiency that depends on the interval."""
    with np.errstate(over="ignore"):
        return np.asarray(tau / mtti / np.expm1((tau + delta) / mtti), np.float64)
