"""Whether traffic that ends shows that a rate is served, or that it is not, or is too short.

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

SHARE: Final = 0.05  # of what begins in the second half, by which what ends may fall short
CHANCE: Final = 3.0  # standard deviations of what is under way, beyond which it is no chance
SPANS: Final = 4.0  # times a unit without its queues: then the first half fills the engines
FEW: Final = 20.0  # times as many, where all begin at once and nothing is known


class Flow(NamedTuple):
    """What begins and what ends in the second half of the beginnings.

    Args:
        began: Units that begin there.
        ended: Units that end there.
        under_way: Units under way at its start and at its end, summed.
        span_s: From the first beginning to the last [s].
        unit_s: What a unit takes on average, waits in queues left out [s].
        units: How many there are.
    """

    began: int
    ended: int
    under_way: int
    span_s: float
    unit_s: float
    units: int


def flow(requests: Requests, outcome: Outcome) -> Flow:
    """Return what begins and ends; the turns of a session are one, think times included.

    Args:
        requests: What arrived.
        outcome: What came of it; every request ended.
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
    """Return how long requests waited in queues, those of front ends too (N,) [ps]."""
    waited_N = (outcome.scheduled_N - outcome.arrival_N).astype(np.float64)
    waited_N += _sent_late(outcome)
    handed_N, resumed_N = outcome.travels.handed_N, outcome.travels.resumed_N
    if handed_N.size:
        waited_N += np.where(resumed_N >= 0, resumed_N - handed_N, 0)
    return waited_N


def _sent_late(outcome: Outcome) -> NDArray[np.int64]:
    """Return how late clients got their last tokens (N,) [ps]."""
    late_N = outcome.fronted.late_last_N
    return late_N if late_N.size else np.zeros_like(outcome.finished_N)


def _under_way(begin_U: NDArray[np.int64], end_U: NDArray[np.int64], at: int) -> int:
    return int(np.count_nonzero((begin_U <= at) & (end_U > at)))


def behind(flows: Sequence[Flow]) -> str:
    """Return that what ends falls behind what begins, "" where that is not shown.

    It is shown where it falls short by more than `SHARE` of it and by more than chance has it.

    Args:
        flows: Of repetitions.
    """
    short, began = _short(flows)
    if short <= SHARE * began or short <= _chance(flows) or unfilled(flows):
        return ""
    return (
        f"requests come faster than they are served: {short / began:.0%} of those that begin in"
        f" the second half add to what is under way, over {SHARE:.0%}"
    )


def needed_units(flows: Sequence[Flow]) -> int:
    """Return how many units would tell whether a rate is served, 0 where these do.

    Args:
        flows: Of repetitions, none of them `behind`.
    """
    units = flows[0].units
    if unfilled(flows):
        most = max(one.unit_s / one.span_s if one.span_s else FEW for one in flows)
        return math.ceil(units * 1.25 * SPANS * most)
    short, began = _short(flows)
    return 2 * units if short > SHARE * began else 0


def unfilled(flows: Sequence[Flow]) -> bool:
    """Return whether traffic ends before what runs of it has settled.

    Args:
        flows: Of repetitions.
    """
    return any(one.span_s <= SPANS * one.unit_s for one in flows)


def _short(flows: Sequence[Flow]) -> tuple[int, int]:
    began = sum(one.began for one in flows)
    return began - sum(one.ended for one in flows), began


def _chance(flows: Sequence[Flow]) -> float:
    return CHANCE * math.sqrt(sum(one.under_way for one in flows))
