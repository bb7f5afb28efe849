"""Conversations: turns whose prompts contain all previous turns, with pauses in between.

Shape legend: S sessions, N turns of all sessions in order of session (requests after sorting by
arrival), H hashes of their prompts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfatlas.quantities import InvalidSpecError
from perfatlas.serving.requests.columns import TICKS_PER_SECOND, Requests
from perfatlas.serving.requests.dependencies import after_previous
from perfatlas.serving.requests.lengths import MAX_TOKENS
from perfatlas.vocabulary.fields import MAX_S

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfatlas.serving.requests.columns import Ticks

    Int = NDArray[np.int64]

MAX_HASHES: Final = 100_000_000  # 0.8 GB
_SESSIONS_AT_A_TIME: Final = 1 << 10


class Turns(NamedTuple):
    """The turns of all sessions, in order of session."""

    asked_N: Int  # Tokens that the user adds in a turn (N,), at least 1
    osl_N: Int  # Output tokens (N,), at least 1
    # Time from the last token of the previous answer to this turn (N,) [ps], 0 or more; unused for
    # a first turn
    pause_N: Ticks


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
        Requests sorted by earliest arrival; later turns have a pause, and the time of
        arrival they would have if answers took no time.

    Raises:
        InvalidSpecError: The lengths of columns differ, a value is out of range, a prompt gets too
            long, or the last arrival is too late.

    Limits: Contexts are not truncated or summarised.

    Example:
        >>> import numpy as np
        >>> from perfatlas.serving.requests import Turns, sessions
        >>> two = np.array([20, 30])
        >>> turns = Turns(asked_N=two, osl_N=two, pause_N=np.array([0, 5]))
        >>> talk = sessions(np.array([0]), np.array([2]), turns, hash_block=16)
        >>> talk.isl_N.tolist(), talk.hash_H.tolist(), talk.tail_N.tolist()
        ([20, 70], [0, 1, 2, 3], [4, 5])
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
    blocks_S = np.maximum.reduceat(isl_N, first_S) // hash_block
    hashes = int(blocks_S.sum())
    if hashes > MAX_HASHES:
        raise InvalidSpecError(
            f"the prompts of {turns_S.shape[0]:,} sessions, of up to {isl_N.max():,} tokens, have"
            f" {hashes:,} hashed blocks; the maximum is {MAX_HASHES:,}: use fewer or shorter"
            " prompts"
        )
    pause_N = turns.pause_N.copy()
    pause_N[first_S] = 0
    arrival_N = start_S[session_N] + _since_first(pause_N, first_S, session_N)
    # in floating point, to detect sums that overflow 64 bits
    last_S = start_S + np.add.reduceat(pause_N.astype(np.float64), first_S)
    if last_S.max() > MAX_S * TICKS_PER_SECOND:
        raise InvalidSpecError(f"the last turn arrives after the limit of {MAX_S:g} s")
    pause_N[first_S] = -1
    order_N = np.lexsort((np.arange(isl_N.shape[0]), arrival_N))
    isl_N = isl_N[order_N]
    # hashes: shared blocks from 0, then full blocks of sessions, then partial ones
    shared_blocks = shared_prefix // hash_block
    begin_S = np.cumsum(blocks_S) - blocks_S
    hash_H = _string_hashes(begin_S, blocks_S, shared_blocks)
    partial_N = isl_N % hash_block > 0
    beyond = shared_blocks + hash_H.size
    after_first_N, after_E = after_previous(session_N[order_N], pause_N[order_N])
    return Requests(
        arrival_N=arrival_N[order_N],
        isl_N=isl_N,
        osl_N=turns.osl_N[order_N].astype(np.int64),
        session_N=session_N[order_N],
        pause_N=pause_N[order_N],
        after_first_N=after_first_N,
        after_E=after_E,
        hash_first_N=begin_S[session_N[order_N]],
        hash_H=hash_H,
        tail_N=np.where(partial_N, beyond + np.cumsum(partial_N) - 1, 0),
        hash_block=hash_block,
    )


def _string_hashes(begin_S: Int, blocks_S: Int, shared_blocks: int) -> Int:
    """Return the hashes of the longest prompt of each session, one after the other (H,)."""
    hash_H = np.arange(shared_blocks, shared_blocks + int(blocks_S.sum()))
    for start in range(0, begin_S.size if shared_blocks else 0, _SESSIONS_AT_A_TIME):
        some = slice(start, start + _SESSIONS_AT_A_TIME)
        shared_B = np.minimum(blocks_S[some], shared_blocks)
        block_P = np.arange(int(shared_B.sum())) - np.repeat(
            np.cumsum(shared_B) - shared_B, shared_B
        )
        hash_H[np.repeat(begin_S[some], shared_B) + block_P] = block_P
    return hash_H


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
