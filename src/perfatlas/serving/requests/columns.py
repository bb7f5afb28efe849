"""Requests as columns, in integer time.

Time is counted in integer picoseconds, so that a batch of steps ends at exactly the same time as
its steps one by one.

Shape legend: N requests, E pairs of a request and one that it waits for, H hashes of full blocks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from perfatlas.operators import FloatArray

Ticks = NDArray[np.int64]
TICKS_PER_SECOND: Final = 1_000_000_000_000


def whole_ticks(time_s: FloatArray | float) -> Ticks:
    """Return seconds as integer picoseconds.

    Args:
        time_s: Times [s].
    """
    ticks: Ticks = np.rint(np.asarray(time_s) * TICKS_PER_SECOND).astype(np.int64)
    return ticks


class Requests(NamedTuple):
    """Requests in order of arrival; a closed loop issues them in this order."""

    arrival_N: Ticks  # Time of arrival (N,) [ps], ascending; earliest time in a closed loop
    isl_N: NDArray[np.int64]  # Prompt tokens (N,), at least 1
    osl_N: NDArray[np.int64]  # Output tokens (N,), at least 1
    session_N: NDArray[np.int64]  # Session of a request (N,), -1 for none
    # Time from the last end of the requests it waits for to this arrival (N,) [ps]; -1 if it waits
    # for none, so that `arrival_N` applies
    pause_N: Ticks
    after_first_N: NDArray[np.int64]  # Position of the first request it waits for (N + 1,)
    # Requests of the same session that must end before it arrives (E,), each of a smaller index
    after_E: NDArray[np.int64]
    # Position of a prompt's first hash (N,), -1 for none; unused without `hash_block`. Prompts that
    # begin with each other may share hashes.
    hash_first_N: NDArray[np.int64]
    # Chained hashes of full blocks (H,), of `hash_block` tokens each: equal if prompts are equal up
    # to the end of the block
    hash_H: NDArray[np.int64]
    tail_N: NDArray[np.int64]  # Hash of the partial last block of a prompt (N,), unused without one
    hash_block: int  # Tokens per hashed block, 0 without hashes


def plain_requests(
    arrival_N: Ticks, isl_N: NDArray[np.int64], osl_N: NDArray[np.int64]
) -> Requests:
    """Return requests without sessions or shared prompts.

    Args:
        arrival_N: Times of arrival (N,) [ps], ascending.
        isl_N: Prompt tokens (N,).
        osl_N: Output tokens (N,).

    Example:
        >>> import numpy as np
        >>> from perfatlas.serving.requests import plain_requests
        >>> one = np.ones(2, np.int64)
        >>> plain_requests(0 * one, 100 * one, 10 * one).isl_N.tolist()
        [100, 100]
    """
    count = arrival_N.shape[0]
    return Requests(
        arrival_N=arrival_N,
        isl_N=isl_N,
        osl_N=osl_N,
        session_N=np.full(count, -1, np.int64),
        pause_N=np.full(count, -1, np.int64),
        after_first_N=np.zeros(count + 1, np.int64),
        after_E=np.zeros(0, np.int64),
        hash_first_N=np.zeros(count, np.int64),
        hash_H=np.zeros(0, np.int64),
        tail_N=np.zeros(count, np.int64),
        hash_block=0,
    )
