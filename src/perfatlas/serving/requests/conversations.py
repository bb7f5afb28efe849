"""Conversations: turns whose prompts contain all previous turns, with think times in between.

Shape legend: S sessions, N turns of all sessions in order of session (requests after sorting by
arrival), H hashes of their prompts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfatlas.quantities import InvalidSpecError
from perfatlas.serving.requests.columns import TICKS_PER_SECOND, Requests
from perfatlas.serving.requests.lengths import MAX_TOKENS
from perfatlas.vocabulary.fields import MAX_S

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfatlas.serving.requests.columns import Ticks

    Int = NDArray[np.int64]

MAX_HASHES: Final = 100_000_000  # about 4 GB during generation


class Turns(NamedTuple):
    """The turns of all sessions, in order of session."""

    asked_N: Int  # Tokens that the user adds in a turn (N,), at least 1
    osl_N: Int  # Output tokens (N,), at least 1
    # Time from the last token of the previous answer to this turn (N,) [ps], 0 or more; unused for
    # a first turn
    think_N: Ticks


def sessions(
    start_S: Ticks, turns_S: Int, turns: Turns, *, hash_block: int, shared_prefix: int = 0
) -> Requests:
    """Return the requests of conversations.

    The prompt of a turn is the shared prefix, all earlier prompts and answers of the session, and
    the tokens the user adds. A full block has the same hash in all prompts that contain it; a
    partial last block has a unique hash.

    Args:
        start_S: Arrival of the first turn of each session (S,) [ps], in any order.
        turns_S: Turns of each session (S,), at least 1.
        hash_block: Tokens per hashed block.
        shared_prefix: Tokens at the start of every prompt that all sessions share (a system
            prompt).

    Returns:
        Requests sorted by earliest arrival; later turns have a think time, and the time of
        arrival they would have if answers took no time.

    Raises:
        InvalidSpecError: The lengths of columns differ, a value is out of range, a prompt gets too
            long, or the last arrival is too late.

    Limits: Contexts are not truncated or summarised. A session of n turns has O(n^2) hashes.

    Example:
        >>> import numpy as np
        >>> from perfatlas.serving.requests import Turns, sessions
        >>> two = np.array([20, 30])
        >>> turns = Turns(asked_N=two, osl_N=two, think_N=np.array([0, 5]))
        >>> talk = sessions(np.array([0]), np.array([2]), turns, hash_block=16)
        >>> talk.isl_N.tolist(), talk.hash_first_N.tolist()
        ([20, 70], [0, 2, 7])
    """
    _check(start_S, turns_S, turns, hash_block, shared_prefix)
    first_S = np.cumsum(turns_S) - turns_S
    session_N = np.repeat(np.arange(turns_S.shape[0]), turns_S)
    said_N = turns.asked_N + turns.osl_N
    isl_N = shared_prefix + _since_first(said_N, first_S, session_N) - turns.osl_N
    if isl_N.max() > MAX_TOKENS:
        raise InvalidSpecError(
            f"session {session_N[np.argmax(isl_N)]} reaches a prompt of {isl_N.max()} tokens; the "
            f"maximum is {MAX_TOKENS}"
        )
    hashes = int((-(-isl_N // hash_block)).sum())
    if hashes > MAX_HASHES:
        raise InvalidSpecError(
            f"{isl_N.shape[0]:,} prompts of up to {isl_N.max():,} tokens have {hashes:,} hashed"
            f" blocks; the maximum is {MAX_HASHES:,}: use fewer or shorter prompts"
        )
    think_N = turns.think_N.copy()
    think_N[first_S] = 0
    arrival_N = start_S[session_N] + _since_first(think_N, first_S, session_N)
    # in floating point, to detect sums that overflow 64 bits
    last_S = start_S + np.add.reduceat(think_N.astype(np.float64), first_S)
    if last_S.max() > MAX_S * TICKS_PER_SECOND:
        raise InvalidSpecError(f"the last turn arrives after the limit of {MAX_S:g} s")
    think_N[first_S] = -1
    # a unique index for each block of each session, and for each partial block
    blocks_S = np.maximum.reduceat(isl_N, first_S) // hash_block
    base_N = (np.cumsum(blocks_S) - blocks_S)[session_N]
    order_N = np.lexsort((np.arange(isl_N.shape[0]), arrival_N))
    isl_N, base_N = isl_N[order_N], base_N[order_N]
    count_N = -(-isl_N // hash_block)
    hash_first_N = np.zeros(isl_N.shape[0] + 1, np.int64)
    np.cumsum(count_N, out=hash_first_N[1:])
    first_N = hash_first_N[:-1]
    # hashes: shared blocks from 0, then full blocks of sessions, then partial ones
    shared_blocks = shared_prefix // hash_block
    block_H = np.arange(int(count_N.sum())) - np.repeat(first_N, count_N)
    hash_H = np.where(
        block_H < shared_blocks, block_H, shared_blocks + np.repeat(base_N, count_N) + block_H
    )
    partial_N = np.flatnonzero(isl_N % hash_block)
    beyond = int(hash_H.max()) + 1
    hash_H[first_N[partial_N] + count_N[partial_N] - 1] = beyond + np.arange(partial_N.shape[0])
    return Requests(
        arrival_N=arrival_N[order_N],
        isl_N=isl_N,
        osl_N=turns.osl_N[order_N].astype(np.int64),
        session_N=session_N[order_N],
        think_N=think_N[order_N],
        hash_first_N=hash_first_N,
        hash_H=hash_H,
        hash_block=hash_block,
    )


def _since_first(value_N: Int, first_S: Int, session_N: Int) -> Int:
    """Return the cumulative sum within each session (N,)."""
    sum_N = np.cumsum(value_N)
    before_S = sum_N[first_S] - value_N[first_S]
    running_N: Int = sum_N - before_S[session_N]
    return running_N


def _check(start_S: Ticks, turns_S: Int, turns: Turns, hash_block: int, shared_prefix: int) -> None:
    if start_S.shape != turns_S.shape or not turns_S.shape[0]:
        raise InvalidSpecError(
            f"{start_S.shape[0]} starts and {turns_S.shape[0]} numbers of turns; exactly one of "
            "each per session is required, for at least one session"
        )
    if turns_S.min() < 1 or start_S.min() < 0:
        raise InvalidSpecError("a session must have at least 1 turn and start at 0 or later")
    total = int(turns_S.sum())
    tokens = (1, MAX_TOKENS)
    ticks = (0, round(MAX_S * TICKS_PER_SECOND))
    rules = zip(Turns._fields, turns, (tokens, tokens, ticks), strict=True)
    for name, column, (low, high) in rules:
        if column.shape[0] != total:
            raise InvalidSpecError(f"{name} has {column.shape[0]} rows for {total} turns")
        if column.min() < low or column.max() > high:
            wrong = column.min() if column.min() < low else column.max()
            raise InvalidSpecError(f"{name} contains {wrong}; it must be {low} to {high}")
    if hash_block < 1 or shared_prefix < 0:
        raise InvalidSpecError(
            f"hash_block = {hash_block} and shared_prefix = {shared_prefix}; they must be "
            "at least 1 and 0"
        )
