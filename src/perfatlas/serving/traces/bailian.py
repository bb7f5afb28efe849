"""Qwen-Bailian traces: chats with parents, prompts as hashes of 16-token blocks.

Source: alibaba-edu/qwen-bailian-usagetraces-anon; Wang et al., KVCache Cache in the Wild, USENIX
ATC 2025. One object per line: chat_id, parent_chat_id (-1 for none), timestamp [s], input_length,
output_length, type, turn, hash_ids. The hash of a block covers only its own tokens, so hashes are
chained here: equal chains mean equal prompts up to the end of the block, as prefix caches require.
Limits: Tested on hand-written rows in the documented format, not on a file of the release. Recorded
times are used for all turns: the trace has no end times, so think times are unknown.

Shape legend: N requests, B rows of a block, H hashes of its prompts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.serving.requests import TICKS_PER_SECOND
from perfatlas.serving.traces.blocks import jsonl_blocks, refuse
from perfatlas.serving.traces.fields import Field, arrow_types
from perfatlas.serving.traces.reading import (
    WHOLE_TRACE,
    Clock,
    GrowingTrace,
    Trace,
    Window,
    check_hash_counts,
    close,
    session_numbers,
    sort_by_arrival,
)

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    Int = NDArray[np.int64]

HASH_BLOCK: Final = 16
_SECONDS: Final = Clock(ticks=TICKS_PER_SECOND, relative=True)
# Odd constants of splitmix64 (Steele, Lea and Flood, OOPSLA 2014), which mixes all 64 bits.
_GOLDEN: Final = np.uint64(0x9E3779B97F4A7C15)
_MIX_1: Final = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2: Final = np.uint64(0x94D049BB133111EB)
_DEEPEST: Final = 64  # doublings of the distance to a root, enough for 2^64 turns
_FIELDS: Final = (
    Field(name="chat_id", kind="whole"),
    Field(name="parent_chat_id", kind="whole"),
    Field(name="timestamp", kind="number", low=0),
    Field(name="input_length", kind="tokens", low=1),
    Field(name="output_length", kind="tokens", low=1),
    Field(name="turn", kind="tokens", low=0),
    Field(name="hash_ids", kind="hashes"),
)


def read_bailian(path: str | Path, window: Window = WHOLE_TRACE) -> Trace:
    """Return the requests of a Qwen-Bailian trace; chats with the same root form a session.

    Args:
        path: A JSON Lines file.
        window: Part to read; a chat whose parent lies outside starts a session.

    Raises:
        InvalidSpecError: The file cannot be read, or a row is invalid; the message contains the
            line.
    """
    trace = GrowingTrace(path=path, clock=_SECONDS, window=window)
    for rows in trace.rows(jsonl_blocks(path, arrow_types(_FIELDS)), _FIELDS):
        cells = rows.cells
        check_hash_counts(path, rows, cells["input_length"], HASH_BLOCK)
        hashed = rows._replace(hash_H=chained(rows.hash_H, rows.count_B))
        lengths = {"isl": cells["input_length"], "osl": cells["output_length"]}
        links = {"chat": cells["chat_id"], "parent": cells["parent_chat_id"]}
        trace.add(hashed, "timestamp", **lengths, **links, turn=cells["turn"])
    columns = trace.columns()
    root_N = _roots(trace, columns)
    sort_by_arrival(trace, columns, refuse_unsorted=True)
    columns["session"] = session_numbers(root_N)
    return close(trace, columns, HASH_BLOCK)


def chained(hash_H: Int, count_B: Int) -> Int:
    """Return chained hashes, which also depend on all previous hashes of the prompt (H,).

    Args:
        hash_H: Hash of each single block (H,).
        count_B: Number of hashes of each prompt (B,).

    Limits: Two of n chains collide with probability n^2 / 2^65.

    Example:
        >>> import numpy as np
        >>> from perfatlas.serving.traces.bailian import chained
        >>> both = chained(np.array([7, 8, 6, 8]), np.array([2, 2]))
        >>> bool(both[1] != both[3])
        True
    """
    chain_H = hash_H.astype(np.uint64)
    first_B = np.cumsum(count_B) - count_B
    long_B = np.flatnonzero(count_B > 0)
    before_B = np.zeros(count_B.shape[0], np.uint64)
    depth = 0
    while long_B.size:
        place_B = first_B[long_B] + depth
        mixed_B = _mixed(before_B[long_B] + _GOLDEN ^ _mixed(chain_H[place_B] + _GOLDEN))
        chain_H[place_B] = mixed_B
        before_B[long_B] = mixed_B
        depth += 1
        long_B = long_B[count_B[long_B] > depth]
    return chain_H.view(np.int64)


def _mixed(value_B: NDArray[np.uint64]) -> NDArray[np.uint64]:
    value_B = (value_B ^ (value_B >> np.uint64(30))) * _MIX_1
    value_B = (value_B ^ (value_B >> np.uint64(27))) * _MIX_2
    mixed_B: NDArray[np.uint64] = value_B ^ (value_B >> np.uint64(31))
    return mixed_B


def _roots(trace: GrowingTrace, columns: dict[str, Int]) -> Int:
    """Return the row of the root of each chat's conversation (N,); consumes the links."""
    chat_N, parent_N = columns.pop("chat"), columns.pop("parent")
    order_N = np.argsort(chat_N, kind="stable")
    sorted_N = chat_N[order_N]
    twice_N = np.flatnonzero(np.diff(sorted_N) == 0)
    if twice_N.size:
        row = int(order_N[twice_N + 1].min())
        place = trace.place_of(int(columns["number"][row]))
        raise refuse(trace.path, place, f"chat_id {chat_N[row]} is a duplicate of a previous row")
    place_N = np.minimum(np.searchsorted(sorted_N, parent_N), chat_N.shape[0] - 1)
    known_N = sorted_N[place_N] == parent_N
    lost = int(np.count_nonzero(~known_N & (parent_N >= 0)))
    if lost:
        trace.warnings.append(
            f"the parents of {lost} chats are missing; each of them starts a session"
        )
    itself_N = np.arange(chat_N.shape[0])
    root_N = np.where(known_N, order_N[place_N], itself_N)
    for _ in range(_DEEPEST):
        above_N = root_N[root_N]
        if np.array_equal(above_N, root_N):
            break
        root_N = above_N
    if not known_N[root_N].any():
        return root_N
    raise refuse(trace.path, "", "the parents of chats form a cycle")
