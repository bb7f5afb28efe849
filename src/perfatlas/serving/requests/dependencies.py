"""Which requests of a session wait for which.

Shape legend: N requests, E pairs of a request and one that it waits for, S sessions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfatlas.serving.requests.columns import Requests, Ticks

    Int = NDArray[np.int64]


def after_previous(session_N: Int, pause_N: Ticks) -> tuple[Int, Int]:
    """Return `after_first_N` (N + 1,) and `after_E` (E,) of turns: each waits for the one before.

    Args:
        session_N: Session of each request (N,).
        pause_N: -1 for requests that wait for none (N,).

    Example:
        >>> import numpy as np
        >>> from perfatlas.serving.requests import after_previous
        >>> after_first_N, after_E = after_previous(np.array([0, 1, 0]), np.array([-1, -1, 5]))
        >>> after_first_N.tolist(), after_E.tolist()
        ([0, 0, 0, 1], [0])
    """
    waits_N = pause_N >= 0
    first_N = np.zeros(waits_N.size + 1, np.int64)
    if not waits_N.any():
        return first_N, np.zeros(0, np.int64)
    order = np.argsort(session_N, kind="stable")
    before_N = np.full(waits_N.size, -1)
    follows = session_N[order[1:]] == session_N[order[:-1]]
    before_N[order[1:]] = np.where(follows, order[:-1], -1)
    np.cumsum(waits_N, out=first_N[1:])
    return first_N, before_N[waits_N]


def after_pairs(after_E: Int, before_E: Int, count: int) -> tuple[Int, Int]:
    """Return `after_first_N` (N + 1,) and `after_E` (E,) of pairs in any order.

    Args:
        after_E: Requests that wait (E,); pairs with a negative index are left out.
        before_E: The request that each waits for (E,).
        count: Number of requests.

    Example:
        >>> import numpy as np
        >>> from perfatlas.serving.requests import after_pairs
        >>> after_first_N, after_E = after_pairs(np.array([2, 1, 2]), np.array([1, 0, 0]), 3)
        >>> after_first_N.tolist(), after_E.tolist()
        ([0, 0, 1, 3], [0, 0, 1])
    """
    kept = np.flatnonzero((after_E >= 0) & (before_E >= 0))
    kept = kept[np.lexsort((before_E[kept], after_E[kept]))]
    after_first_N = np.append(0, np.cumsum(np.bincount(after_E[kept], minlength=count)))
    return after_first_N, before_E[kept]


def waiting(requests: Requests) -> Int:
    """Return the request that waits, for each request in `after_E` (E,)."""
    return np.repeat(np.arange(requests.isl_N.size), np.diff(requests.after_first_N))


def session_of(requests: Requests) -> Int:
    """Return the session of each request, from 0 in order of first requests (N,).

    A request without a session is one of its own.
    """
    session_N = requests.session_N
    alone_N = session_N < 0
    own_N = np.where(alone_N, session_N.max(initial=-1) + np.cumsum(alone_N), session_N)
    _, begin_S, place_N = np.unique(own_N, return_index=True, return_inverse=True)
    rank_S = np.empty_like(begin_S)
    rank_S[np.argsort(begin_S)] = np.arange(begin_S.size)
    ranked_N: Int = rank_S[place_N]
    return ranked_N


def reordered(requests: Requests, order: Int) -> Requests:
    """Return some requests in another order, in which each still follows those it waits for.

    Requests that are left out are no longer waited for.

    Args:
        order: Indices of the requests to keep.
    """
    place_N = np.full(requests.isl_N.size, -1)
    place_N[order] = np.arange(order.size)
    after, before = place_N[waiting(requests)], place_N[requests.after_E]
    after_first_N, after_E = after_pairs(after, before, order.size)
    columns = ("arrival_N", "isl_N", "osl_N", "session_N", "pause_N", "hash_first_N", "tail_N")
    moved = {name: getattr(requests, name)[order] for name in columns}
    moved["pause_N"] = np.where(np.diff(after_first_N) > 0, moved["pause_N"], -1)
    return requests._replace(**moved, after_first_N=after_first_N, after_E=after_E)


def session_pool(
    requests: Requests,
    lanes: int,
    share: tuple[float, float],
    seed: int,
    count: int | None = None,
) -> Requests:
    """Return requests for a closed pool of sessions: all sessions could begin at time 0.

    Args:
        lanes: Sessions in flight, whose first ones begin in the middle.
        share: Range of the share of their requests that is left out, drawn uniformly.
        count: Maximum number of requests, taken session by session.
    """
    session_N = session_of(requests)
    order = np.argsort(session_N, kind="stable")
    size_S = np.bincount(session_N)
    first_S = np.cumsum(size_S) - size_S
    share_S = np.random.default_rng(seed).uniform(*share, min(lanes, size_S.size))
    first_S[: share_S.size] += np.floor(share_S * size_S[: share_S.size]).astype(np.int64)
    kept = order[np.arange(order.size) >= first_S[session_N[order]]][:count]
    since_K = requests.arrival_N[kept] - requests.arrival_N[order[first_S]][session_N[kept]]
    by_time = np.lexsort((kept, session_N[kept], since_K))
    pool = reordered(requests, kept[by_time])
    return pool._replace(arrival_N=since_K[by_time], session_N=session_N[kept][by_time])
