"""Requests as columns, in integer time.

Time is counted in integer picoseconds, so that a batch of steps ends at exactly the same time as
its steps one by one.

Shape legend: N requests, H hashes of prompt blocks of all requests.
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
    # Session of a request (N,), -1 for none; turns of a session run in order
    session_N: NDArray[np.int64]
    # Time between the last token of the session's previous turn and this arrival (N,) [ps]; -1 if
    # `arrival_N` applies
    think_N: Ticks
    hash_first_N: NDArray[np.int64]  # Position of the first hash of a prompt (N + 1,)
    # Chained hashes of the blocks of prompts (H,), of `hash_block` tokens each; the last block of a
    # prompt may be partial. Empty if nothing is shared.
    hash_H: NDArray[np.int64]
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
        think_N=np.full(count, -1, np.int64),
        hash_first_N=np.zeros(count + 1, np.int64),
        hash_H=np.zeros(0, np.int64),
        hash_block=0,
    )


def cached_start(requests: Requests, cached_N: NDArray[np.int64], hash_block: int) -> Requests:
    """Return requests whose prompts begin with the cached tokens of one common prompt.

    A prefix cache has that part of every prompt once the longest was computed.

    Args:
        cached_N: Tokens of the common prompt (N,); a started block is common.
        hash_block: Tokens per hashed block.

    Example:
        >>> import numpy as np
        >>> from perfatlas.serving.requests import cached_start, plain_requests
        >>> plain = plain_requests(np.zeros(2, np.int64), np.array([8, 12]), np.array([1, 1]))
        >>> cached_start(plain, np.array([4, 8]), 4).hash_H.tolist()
        [0, 4, 0, 1, 7]
    """
    count_N = -(-requests.isl_N // hash_block)
    hash_first_N = np.append(0, np.cumsum(count_N))
    block_H = np.arange(int(hash_first_N[-1])) - np.repeat(hash_first_N[:-1], count_N)
    common_H = block_H < np.repeat(-(-cached_N // hash_block), count_N)
    unique_H = count_N.max(initial=0) + np.arange(block_H.size)
    return requests._replace(
        hash_first_N=hash_first_N,
        hash_H=np.where(common_H, block_H, unique_H),
        hash_block=hash_block,
    )
