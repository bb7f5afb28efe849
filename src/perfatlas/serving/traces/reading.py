"""Assembly of a trace: collect rows as columns, then sort and validate them.

A request takes 64 bytes in `Requests` plus 8 per hash of its prompt. Reading takes up to a quarter
more, and 8 bytes for each further column (line number, number of hashes, turn, links); sorting
unsorted rows holds the hashes twice. Large columns are mapped to files on disk, so that files of
any size can be read.

Shape legend: N requests, H hashes of all requests, B rows of a block.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from perfatlas.files import GrowingColumn, large_array
from perfatlas.quantities import InvalidSpecError, significant
from perfatlas.serving.requests import (
    TICKS_PER_SECOND,
    Requests,
    after_previous,
    with_hashes,
)
from perfatlas.serving.traces.blocks import refuse
from perfatlas.serving.traces.fields import NO_LABEL, read_columns
from perfatlas.vocabulary.fields import MAX_S

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from perfatlas.serving.traces.blocks import Block
    from perfatlas.serving.traces.fields import Columns, TraceField

    Int = NDArray[np.int64]


class Trace(NamedTuple):
    """The requests of a trace, with warnings."""

    requests: Requests
    warnings: tuple[str, ...]  # One sentence each
    # Whether the session of a request has others that were left out (N,), empty without sessions
    partial_N: NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class TraceWindow:
    """Part of a trace to read; rows outside it are validated and dropped.

    Raises:
        InvalidSpecError: The window is empty.
    """

    first: int | None = None  # Maximum number of rows in the time span, in file order
    # Start of the span after the origin of the trace, which becomes time 0 [s]
    start_s: float = 0.0
    end_s: float = math.inf  # End of the span, exclusive [s]

    def __post_init__(self) -> None:
        """Validate the window."""
        if self.first is not None and self.first < 1:
            raise InvalidSpecError(f"window: first = {self.first} requests; it must be at least 1")
        if not 0.0 <= self.start_s < self.end_s:
            raise InvalidSpecError(
                f"window: from {self.start_s} s to {self.end_s} s; the start must be at least 0 "
                "and before the end"
            )


WHOLE_TRACE: Final = TraceWindow()


@dataclass(frozen=True, kw_only=True)
class TraceClock:
    """Time unit and origin of a format."""

    ticks: int  # Picoseconds per unit of the column
    # Whether times are relative to the start of the trace; otherwise the earliest request becomes
    # time 0
    relative: bool


_REQUESTS_AT_A_TIME: Final = 1 << 14  # whose hashes are moved at a time
SECONDS: Final = TraceClock(ticks=TICKS_PER_SECOND, relative=True)


@dataclass
class GrowingTrace:
    """The rows of a trace read so far, as growing columns."""

    path: str | Path  # The file, for messages
    clock: TraceClock  # Time unit and origin
    window: TraceWindow = WHOLE_TRACE  # Part to keep
    warnings: list[str] = field(default_factory=list)
    _parts: dict[str, GrowingColumn] = field(default_factory=dict)
    _outside: list[Int] = field(default_factory=list)  # Sessions with rows outside the window
    _origin: Any = None
    _kept: int = 0
    _row_word: str = "line"

    @property
    def full(self) -> bool:
        """Whether the window already has its maximum number of rows."""
        return self.window.first is not None and self._kept >= self.window.first

    def rows(self, blocks: Iterable[Block], fields: Sequence[TraceField]) -> Iterator[Columns]:
        """Yield validated rows of blocks until the window is full, of sessions until the end."""
        for block in blocks:
            yield read_columns(self.path, block, fields)
            if self.full and "session" not in self._parts:
                return

    def add(self, columns: Columns, times: str, **named: Int) -> None:
        """Add the rows of a block that are in the window.

        Args:
            named: Further columns by name (B,), which must be in all blocks.
        """
        time_B = columns.cells[times]
        if time_B.shape[0] == 0:
            return
        self._row_word = columns.row_word
        if self._origin is None:
            self._origin = time_B.dtype.type(0) if self.clock.relative else time_B[0]
        after_B = time_B - self._origin
        after_s_B = after_B * (self.clock.ticks / TICKS_PER_SECOND)
        keep_B = after_s_B < self.window.end_s
        if self.window.start_s > 0.0:
            keep_B &= after_s_B >= self.window.start_s
        if self.window.first is not None:
            keep_B &= np.cumsum(keep_B) <= self.window.first - self._kept
        far_B = keep_B & ~(np.abs(after_s_B - self.window.start_s) <= MAX_S)
        if far_B.any():
            row = int(np.argmax(far_B))
            raise refuse(
                self.path,
                f"{columns.row_word} {columns.number_B[row]}",
                f"arrives {significant(after_s_B[row], 6)} s after the start of the trace; a"
                f" simulation is limited to {MAX_S:g} s: read a window of the trace (start_s,"
                " end_s or first)",
            )
        arrival_B = self._ticks(after_B[keep_B])
        whole = bool(keep_B.all())
        columns_kept = {name: column if whole else column[keep_B] for name, column in named.items()}
        columns_kept["number"] = columns.number_B if whole else columns.number_B[keep_B]
        columns_kept["count"] = columns.count_B if whole else columns.count_B[keep_B]
        of_kept_H = np.repeat(keep_B, columns.count_B)
        columns_kept["hash"] = columns.hash_H if whole else columns.hash_H[of_kept_H]
        columns_kept["arrival"] = arrival_B
        for name in columns_kept.keys() ^ self._parts.keys() if self._parts else ():
            position = f"{columns.row_word} {columns.number_B[0]}"
            rule = f"{name!r} is present only in some rows; it must be in all or none"
            raise refuse(self.path, position, f"from or up to here, {rule}")
        if "session" in named and not whole:
            self._outside.append(np.unique(named["session"][~keep_B]))
        for name, column in columns_kept.items():
            self._parts.setdefault(name, GrowingColumn()).extend(column)
        self._kept += arrival_B.shape[0]

    def _ticks(self, after_B: NDArray[Any]) -> Int:
        start = round(self.window.start_s * TICKS_PER_SECOND)
        if after_B.dtype == np.int64:
            return after_B * self.clock.ticks - start
        ticks_B: Int = np.rint(after_B * float(self.clock.ticks)).astype(np.int64)
        return ticks_B - start

    def columns(self) -> dict[str, Int]:
        """Return the concatenated columns and release them."""
        if not self._kept:
            within = "" if self.window == WHOLE_TRACE else " in the selected window"
            raise refuse(self.path, "", f"contains no requests{within}")
        columns = {name: self._parts.pop(name).whole() for name in list(self._parts)}
        if self._outside:
            outside_N = np.isin(columns["session"], np.concatenate(self._outside))
            columns["partial"] = outside_N.astype(np.int64)
        return columns

    def position_of(self, number: int) -> str:
        """Return the name of a row in messages."""
        return f"{self._row_word} {number}"


def sort_by_arrival(trace: GrowingTrace, columns: dict[str, Int], *, refuse_unsorted: bool) -> None:
    """Sort columns by time of arrival in place, and by `turn` among equal times.

    Args:
        columns: The columns, from `GrowingTrace.columns`.
    """
    arrival_N = columns["arrival"]
    early_N = np.flatnonzero(np.diff(arrival_N) < 0) + 1
    if not early_N.size:
        return
    number = int(columns["number"][early_N[0]])
    if refuse_unsorted:
        raise refuse(
            trace.path,
            trace.position_of(number),
            "arrives before the previous row, and the order of rows defines the turns of "
            "sessions; sort the file by time",
        )
    trace.warnings.append(
        f"{early_N.size} of {arrival_N.shape[0]} rows"
        f" {'arrives' if early_N.size == 1 else 'arrive'} before the previous row (first:"
        f" {trace.position_of(number)}); rows were sorted by time"
    )
    order_N = np.lexsort((columns["turn"], arrival_N)) if "turn" in columns else None
    if order_N is None:
        order_N = np.argsort(arrival_N, kind="stable")
    reorder(columns, order_N)


def reorder(columns: dict[str, Int], order_N: Int) -> None:
    """Reorder columns in place."""
    columns["hash"] = _permuted(columns["hash"], columns["count"], order_N)
    others = {name: column_N for name, column_N in columns.items() if name != "hash"}
    columns |= {name: _reordered(column_N, order_N) for name, column_N in others.items()}


def _reordered(column_N: Int, order_N: Int) -> Int:
    """Return a reordered column, processed in parts."""
    moved_N = large_array(column_N.shape[0], np.int64)
    for start in range(0, order_N.shape[0], _REQUESTS_AT_A_TIME):
        some = slice(start, start + _REQUESTS_AT_A_TIME)
        moved_N[some] = column_N[order_N[some]]
    return moved_N


def _permuted(hash_H: Int, count_N: Int, order_N: Int) -> Int:
    """Return hashes reordered by request, processed in parts."""
    first_N = np.cumsum(count_N) - count_N
    moved_H = large_array(hash_H.shape[0], np.int64)
    end = 0
    for start in range(0, order_N.shape[0], _REQUESTS_AT_A_TIME):
        some_N = order_N[start : start + _REQUESTS_AT_A_TIME]
        moved_N = count_N[some_N]
        shift_N = first_N[some_N] - (np.cumsum(moved_N) - moved_N)
        place_H = np.repeat(shift_N, moved_N)
        place_H += np.arange(place_H.shape[0])
        moved_H[end : end + place_H.shape[0]] = hash_H[place_H]
        end += place_H.shape[0]
    return moved_H


def session_numbers(label_N: Int) -> Int:
    """Return session numbers from 0 in order of their start, -1 for none (N,).

    Example:
        >>> import numpy as np
        >>> from perfatlas.serving.traces.reading import session_numbers
        >>> session_numbers(np.array([70, 30, 70])).tolist()
        [0, 1, 0]
    """
    _, begin_L, place_N = np.unique(label_N, return_index=True, return_inverse=True)
    begins_L = np.where(label_N[begin_L] == NO_LABEL, label_N.shape[0], begin_L)
    rank_L = np.empty_like(begin_L)
    rank_L[np.argsort(begins_L, kind="stable")] = np.arange(begin_L.shape[0])
    return np.where(label_N == NO_LABEL, -1, rank_L[place_N.reshape(-1)]).astype(np.int64)


def close(
    trace: GrowingTrace,
    columns: dict[str, Int],
    hash_block: int = 0,
    after: tuple[Int, Int] | None = None,
) -> Trace:
    """Return the finished trace, sorted by arrival, starting at 0 for absolute times.

    Args:
        columns: arrival, isl, osl, count and hash; session (numbers), pause and partial (whether
            the session has further requests) if available.
        hash_block: Tokens per hashed block, 0 without hashes.
        after: `after_first_N` and `after_E`; by default, requests with a pause wait for the
            previous one of their session.
    """
    arrival_N = columns["arrival"]
    count = arrival_N.shape[0]
    if not trace.clock.relative and trace.window.start_s == 0.0:
        arrival_N = arrival_N - arrival_N[0]
    none_N = large_array(count, np.int64, fill=-1)
    session_N, pause_N = columns.get("session", none_N), columns.get("pause", none_N)
    after_first_N, after_E = after or after_previous(session_N, pause_N)
    requests = Requests(
        arrival_N=arrival_N,
        isl_N=columns["isl"],
        osl_N=columns["osl"],
        session_N=session_N,
        pause_N=pause_N,
        after_first_N=after_first_N,
        after_E=after_E,
        hash_first_N=large_array(count, np.int64),
        hash_H=columns["hash"],
        tail_N=large_array(count, np.int64),
        hash_block=0,
    )
    if hash_block:
        requests = with_hashes(requests, columns["count"], columns["hash"], hash_block)
    partial_N = columns.get("partial", np.zeros(0)) > 0
    return Trace(requests, tuple(trace.warnings), partial_N)


def check_hash_counts(path: str | Path, columns: Columns, isl_B: Int, block: int) -> None:
    """Check that each prompt has one hash per started block."""
    needed_B = -(-isl_B // block)
    wrong_B = np.flatnonzero(needed_B != columns.count_B)
    if wrong_B.size:
        row = int(wrong_B[0])
        raise refuse(
            path,
            f"{columns.row_word} {columns.number_B[row]}",
            f"{columns.count_B[row]} hashes for {isl_B[row]} tokens; blocks of {block} tokens "
            f"require {needed_B[row]}",
        )
