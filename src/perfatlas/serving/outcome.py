"""What came of every request, and what the engine did, as columns.

Shape legend: N requests, W windows of the series.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Ticks = NDArray[np.int64]


class Outcome(NamedTuple):
    """What came of a simulation; times in picoseconds, -1 where it never happened.

    Args:
        arrival_N: Arrival (N,); what a closed loop or a session made of it.
        scheduled_N: Start of the first step with a token of the request (N,).
        first_token_N: End of the step that gave the first output token (N,).
        finished_N: End of the step that gave the last one (N,).
        replica_N: Where it ran (N,), -1 where it was rejected.
        preempted_N: Times it was preempted (N,).
        cached_N: Prompt tokens taken from the prefix cache (N,).
        steps: Steps the engines ran, coalesced ones counted one by one.
        preemptions: Over all requests.
        interrupted: The simulation was stopped before its end.
    """

    arrival_N: Ticks
    scheduled_N: Ticks
    first_token_N: Ticks
    finished_N: Ticks
    replica_N: NDArray[np.int64]
    preempted_N: NDArray[np.int64]
    cached_N: NDArray[np.int64]
    steps: int
    preemptions: int
    interrupted: bool
