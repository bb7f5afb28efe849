"""Requests of one simulation that are measured: between its warm-up and its last arrivals.

Shape legend: N requests in order of arrival.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.sampling import MIN_OBSERVATIONS, SETTLED, warm_up
from perfatlas.serving.outcome.columns import Window
from perfatlas.serving.requests import TICKS_PER_SECOND

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfatlas.serving.outcome.columns import Outcome
    from perfatlas.serving.outcome.metrics import Latencies

BUSY_SHARE: Final = 0.8  # of an overloaded run: until then the engines never run out of requests


def measured_window(latencies: Latencies, outcome: Outcome, *, grows: bool = False) -> Window:
    """Return the requests between the warm-up and the time when no more arrive.

    Args:
        outcome: All requests, in order of arrival.
        grows: The queue grows without bound, so only TPOT has a steady state.
    """
    count, done = outcome.arrival_N.size, latencies.place_N.size
    if done < MIN_OBSERVATIONS:
        return Window(0, count, settled=False)
    cut = warm_up(_known(latencies.tpot_s))
    if not grows:
        cut = max(cut, warm_up(latencies.ttft_s))
    first = int(latencies.place_N[min(cut, done - 1)])
    last_arrival_s = outcome.arrival_N[-1] / TICKS_PER_SECOND
    if grows:
        ended_N = latencies.arrival_s + latencies.request_latency_s <= last_arrival_s
        # a backlog keeps the engines full for a while after the last arrival
        last = max(int(np.count_nonzero(ended_N)), int(BUSY_SHARE * done))
    else:
        rest_s = float(np.percentile(latencies.request_latency_s, 99))
        last = int(np.searchsorted(latencies.arrival_s, last_arrival_s - rest_s))
        last = int(latencies.place_N[min(last, done - 1)])
    if last - first < MIN_OBSERVATIONS:
        return Window(first, count, settled=False)
    return Window(first, last, settled=cut < SETTLED * done)


def _known(values_N: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return values with those of their neighbours where there is none."""
    finite_N = np.isfinite(values_N)
    if not finite_N.any():
        return np.zeros_like(values_N)
    return np.interp(np.arange(values_N.size), np.flatnonzero(finite_N), values_N[finite_N])
