"""Stability of a request rate: whether it is served, exceeds capacity, or the run is too short.

Shape legend: N requests, U units: sessions, and requests that belong to none.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfatlas.serving.requests import TICKS_PER_SECOND

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from perfatlas.serving.outcome import Outcome
    from perfatlas.serving.requests import Requests

SHARE: Final = 0.05  # tolerated shortfall of ends against starts in the second half
CHANCE: Final = 3.0  # standard deviations of the requests in flight that count as significant
SPANS: Final = 4.0  # minimum duration in service times, so that the first half fills the engines
MIN_AT_ONCE: Final = 20.0  # the same if all start at once


class Flow(NamedTuple):
    """Starts and ends of sessions in the second half of the starts."""

    began: int  # Units that start there
    ended: int  # Units that end there
    under_way: int  # Units in flight at its start plus those at its end
    span_s: float  # From the first to the last start [s]
    unit_s: float  # Mean duration of a unit without queueing [s]
    units: int


def flow(requests: Requests, outcome: Outcome) -> Flow:
    """Return starts and ends; the turns of a session, with think times, are one unit.

    Args:
        outcome: Outcome of the simulation, in which every request ended.
    """
    session_N = requests.session_N
    alone_N = session_N < 0
    own_N = np.where(alone_N, session_N.max(initial=-1) + 1 + np.cumsum(alone_N), session_N)
    _, unit_N = np.unique(own_N, return_inverse=True)
    units = int(unit_N.max()) + 1
    begin_U = np.full(units, np.iinfo(np.int64).max)
    end_U = np.zeros(units, np.int64)
    np.minimum.at(begin_U, unit_N, outcome.arrival_N)
    np.maximum.at(end_U, unit_N, outcome.finished_N + _sent_late(outcome))
    waited_U = np.bincount(unit_N, weights=_waited(outcome), minlength=units)
    first, last = int(begin_U.min()), int(begin_U.max())
    middle = first + (last - first) // 2
    before, after = (_under_way(begin_U, end_U, at) for at in (middle, last))
    began = int(np.count_nonzero(begin_U > middle))
    return Flow(
        began=began,
        ended=began + before - after,
        under_way=before + after,
        span_s=(last - first) / TICKS_PER_SECOND,
        unit_s=float((end_U - begin_U - waited_U).mean()) / TICKS_PER_SECOND,
        units=units,
    )


def _waited(outcome: Outcome) -> NDArray[np.float64]:
    """Return the queueing time of requests, including front ends (N,) [ps]."""
    waited_N = (outcome.scheduled_N - outcome.arrival_N).astype(np.float64)
    waited_N += _sent_late(outcome)
    handed_N, resumed_N = outcome.travels.handed_N, outcome.travels.resumed_N
    if handed_N.size:
        waited_N += np.where(resumed_N >= 0, resumed_N - handed_N, 0)
    return waited_N


def _sent_late(outcome: Outcome) -> NDArray[np.int64]:
    """Return the delay of the last token at the client (N,) [ps]."""
    late_N = outcome.fronted.late_last_N
    return late_N if late_N.size else np.zeros_like(outcome.finished_N)


def _under_way(begin_U: NDArray[np.int64], end_U: NDArray[np.int64], at: int) -> int:
    return int(np.count_nonzero((begin_U <= at) & (end_U > at)))


def growing_queue(flows: Sequence[Flow]) -> str:
    """Return a warning if ends fall behind starts, "" if that is not shown.

    The shortfall must exceed `SHARE` of the starts and be statistically significant.
    """
    short, began = _short(flows)
    if short <= SHARE * began or short <= _chance(flows) or too_short(flows):
        return ""
    return (
        f"the request rate exceeds the capacity: {short / began:.0%} of the requests that start in"
        f" the second half add to those in flight, above the tolerance of {SHARE:.0%}"
    )


def required_requests(flows: Sequence[Flow]) -> int:
    """Return how many units would decide whether a rate is served, 0 if these do.

    Args:
        flows: Flows of the repetitions, none of them `growing_queue`.
    """
    units = flows[0].units
    if too_short(flows):
        most = max(one.unit_s / one.span_s if one.span_s else MIN_AT_ONCE for one in flows)
        return math.ceil(units * 1.25 * SPANS * most)
    short, began = _short(flows)
    return 2 * units if short > SHARE * began else 0


def too_short(flows: Sequence[Flow]) -> bool:
    """Return whether the traffic ends before the system has reached steady state."""
    return any(one.span_s <= SPANS * one.unit_s for one in flows)


def _short(flows: Sequence[Flow]) -> tuple[int, int]:
    began = sum(one.began for one in flows)
    return began - sum(one.ended for one in flows), began


def _chance(flows: Sequence[Flow]) -> float:
    return CHANCE * math.sqrt(sum(one.under_way for one in flows))
