"""The closed forms of goodput by the name of their method."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfatlas.reliability.fleet.closed_form.renewal import optimal_interval_s, renewal_efficiency
from perfatlas.reliability.fleet.laws import (
    SIMULATE,
    FloatArray,
    Validity,
    not_negative,
    positive,
    with_validity,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike


class ClosedForm(NamedTuple):
    """A closed form."""

    # Its optimum from write, MTTI and restart [s]
    interval: Callable[[float, float, float], Validity]
    # Its goodput from interval, write, restart, MTTI and detection [s]
    value: Callable[[float, float, float, float, float], Validity]
    note: str  # Its description
    # Whether its goodput is the renewal efficiency, which divides time by category
    renewal: bool = False


def _exact_interval(write_s: float, mtti_s: float, _: float) -> Validity:
    value = optimal_interval_s(write_s, mtti_s)
    return Validity(value, np.ones(value.shape, np.bool_), np.zeros(value.shape, "U1"))


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


CLOSED_FORMS: Final[dict[str, ClosedForm]] = {
    "exact": ClosedForm(
        _exact_interval,
        renewal_efficiency,
        "exact renewal efficiency (Daly 2006): exponential failures, also during restart,"
        " constant times, unlimited spares, steady state",
        renewal=True,
    ),
    "young": ClosedForm(
        lambda write_s, mtti_s, _: young_interval_s(write_s, mtti_s),
        lambda tau, write, restart, mtti, lag: linear_goodput(tau, write, restart + lag, mtti),
        "Young 1974: lost time to first order, 1 - write/interval - (restart + interval/2)/MTTI",
    ),
    "daly": ClosedForm(
        lambda write_s, mtti_s, _: daly_higher_order_s(write_s, mtti_s),
        renewal_efficiency,
        "Daly 2006: his higher-order interval in his complete model",
        renewal=True,
    ),
    "saxena": ClosedForm(
        saxena_interval_s,
        lambda tau, write, restart, mtti, lag: saxena_availability(tau, write, restart + lag, mtti),
        "Saxena et al., arXiv 2410.18124: availability to first order",
    ),
    "meta": ClosedForm(
        lambda write_s, mtti_s, _: young_interval_s(write_s, mtti_s),
        lambda tau, write, restart, mtti, lag: meta_ettr(tau, write, restart + lag, mtti),
        "expected ETTR of arXiv 2410.21680 without queue time",
    ),
}
