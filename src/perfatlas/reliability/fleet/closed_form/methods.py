"""The closed forms of goodput by the name of their method."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfatlas.reliability.fleet.closed_form.estimates import (
    linear_goodput,
    meta_ettr,
    saxena_availability,
)
from perfatlas.reliability.fleet.closed_form.intervals import (
    daly_higher_order_s,
    saxena_interval_s,
    young_interval_s,
)
from perfatlas.reliability.fleet.closed_form.renewal import optimal_interval_s, renewal_efficiency
from perfatlas.reliability.fleet.laws import Validity

if TYPE_CHECKING:
    from collections.abc import Callable


class ClosedForm(NamedTuple):
    """A closed form.

    Args:
        interval: Its optimum from write, MTTI and restart [s].
        value: Its goodput from interval, write, restart, MTTI and detection [s].
        note: Its description.
        renewal: Whether its goodput is the renewal efficiency, which divides time by category.
    """

    interval: Callable[[float, float, float], Validity]
    value: Callable[[float, float, float, float, float], Validity]
    note: str
    renewal: bool = False


def _exact_interval(write_s: float, mtti_s: float, _: float) -> Validity:
    value = optimal_interval_s(write_s, mtti_s)
    return Validity(value, np.ones(value.shape, np.bool_), np.zeros(value.shape, "U1"))


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
