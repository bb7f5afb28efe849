"""Which requests of a trace wait for which, from their ids.

Shape legend: N requests, T rows of a trace, E pairs of a row and one that it waits for.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from perfatlas.serving.requests import after_pairs
from perfatlas.serving.traces.blocks import refuse
from perfatlas.serving.traces.fields import NO_LABEL

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfatlas.quantities import InvalidSpecError
    from perfatlas.serving.traces.fields import Columns
    from perfatlas.serving.traces.reading import GrowingTrace

    Int = NDArray[np.int64]


@dataclass
class Waits:
    """Ids of the rows read so far, and those that each waits for."""

    trace: GrowingTrace
    words: tuple[str, str, str]  # Names of the columns of ids, rows to wait for, and spawning rows
    _id_T: list[int] = field(default_factory=list)
    _session_T: list[int] = field(default_factory=list)
    _number_T: list[int] = field(default_factory=list)
    _names_T: list[tuple[int, ...]] = field(default_factory=list)

    def add(self, rows: Columns, session_B: Int) -> Int | None:
        """Add the rows of a block; return their places in the trace (B,), None without ids."""
        count = rows.number_B.size
        none_B = np.full(count, NO_LABEL, np.int64)
        id_B, _, spawner_B = (rows.cells.get(word, none_B) for word in self.words)
        names = rows.cells.get(self.words[1], np.zeros(0, object)).tolist() or [()] * count
        for row in np.flatnonzero(spawner_B != NO_LABEL).tolist():
            names[row] = (*names[row], int(spawner_B[row]))
        if not any(names) and (id_B == NO_LABEL).all():
            return None
        if "turn" in rows.cells and any(names):
            number = int(rows.number_B[next(row for row, name in enumerate(names) if name)])
            problem = "has turn and after (or parent); leave one of the columns out"
            raise refuse(self.trace.path, f"{rows.row_word} {number}", problem)
        begin = len(self._id_T)
        self._id_T += id_B.tolist()
        self._session_T += session_B.tolist()
        self._number_T += rows.number_B.tolist()
        self._names_T += names
        return np.arange(begin, begin + count)

    @property
    def given(self) -> bool:
        """Whether a row waits for others by their ids."""
        return any(self._names_T)

    def _refuse(self, row: int, problem: str) -> InvalidSpecError:
        return refuse(self.trace.path, self.trace.position_of(self._number_T[row]), problem)

    def _pairs(self) -> list[list[int]]:
        """Return the rows that each row waits for (T lists)."""
        label, after, _ = self.words
        place: dict[int, int] = {}
        for row, name in enumerate(self._id_T):
            if name != NO_LABEL and place.setdefault(name, row) != row:
                first = self.trace.position_of(self._number_T[place[name]])
                raise self._refuse(row, f"{label} is also that of {first}; it must be unique")
        before_T: list[list[int]] = []
        for row, names in enumerate(self._names_T):
            known = sorted({place[name] for name in names if name in place})
            if any(name not in place for name in names) and not self.trace.full:
                raise self._refuse(row, f"waits for an {label} in {after} that no row has")
            for before in known:
                if self._session_T[row] == NO_LABEL:
                    raise self._refuse(row, f"has {after} but no session; set its session")
                if self._session_T[before] != self._session_T[row]:
                    other = self.trace.position_of(self._number_T[before])
                    raise self._refuse(row, f"waits for {other}, which is of another session")
            before_T.append(known)
        return before_T

    def order(self, columns: dict[str, Int]) -> tuple[Int, tuple[Int, Int]]:
        """Return the order of the kept rows (N,), and `after_first_N` and `after_E` in it.

        A row follows those it waits for, and arrives no earlier than they do: `arrival` in
        `columns` is changed in place.
        """
        before_T = self._pairs()
        follows_T: list[list[int]] = [[] for _ in before_T]
        left_T = [len(before) for before in before_T]
        for row, befores in enumerate(before_T):
            for before in befores:
                follows_T[before].append(row)
        ready = [row for row, left in enumerate(left_T) if not left]
        arrival_T = np.zeros(len(before_T), np.int64)
        arrival_T[columns["id"]] = columns["arrival"]
        since = arrival_T.tolist()
        for row in ready:  # grows as rows become ready
            for after in follows_T[row]:
                since[after] = max(since[after], since[row])
                left_T[after] -= 1
                if not left_T[after]:
                    ready.append(after)
        if len(ready) < len(before_T):
            row = next(row for row, left in enumerate(left_T) if left)
            passed = set[int]()
            while row not in passed:  # to a row of the cycle itself
                passed.add(row)
                row = next(before for before in before_T[row] if left_T[before])
            raise self._refuse(row, "waits for itself, directly or through others")
        rank_T = np.empty(len(ready), np.int64)
        rank_T[ready] = np.arange(len(ready))
        columns["arrival"] = np.array(since, np.int64)[columns["id"]]
        order_N = np.lexsort((rank_T[columns["id"]], columns["arrival"]))
        place_T = np.full(len(before_T), -1)
        place_T[columns["id"][order_N]] = np.arange(order_N.size)
        after_E = np.repeat(np.arange(len(before_T)), [len(before) for before in before_T])
        before_E = np.array([before for befores in before_T for before in befores], np.int64)
        return order_N, after_pairs(place_T[after_E], place_T[before_E], order_N.size)
