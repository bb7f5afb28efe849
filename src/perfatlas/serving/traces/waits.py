"""Which requests of a trace wait for which: from their ids, or from the agents that sent them.

Shape legend: N requests, T rows of a trace, E pairs of a row and one that it waits for, A agents.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from perfatlas.quantities import counted, repr_for_error
from perfatlas.serving.requests import after_pairs
from perfatlas.serving.traces import reading
from perfatlas.serving.traces.blocks import refuse
from perfatlas.serving.traces.fields import NO_LABEL, list_items

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from perfatlas.quantities import InvalidSpecError
    from perfatlas.serving.traces.blocks import Block
    from perfatlas.serving.traces.fields import Columns

    Int = NDArray[np.int64]

_SHOWN = 6  # members of a cycle in a message


@dataclass
class Waits:
    """Ids of the rows read so far, and those that each waits for."""

    trace: reading.GrowingTrace
    words: tuple[str, str, str]  # Names of the columns of ids, rows to wait for, and spawning rows
    read_again: Callable[[], Iterator[Block]]  # Yields the rows, to show their ids in messages
    joins: bool = False  # Whether rows that wait for each other make a session
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

    def _unknown_id(self, row: int, place: int) -> str:
        """Return the column and value of an id that a row waits for, as in the file."""
        _, after, parent = self.words
        cells = next(
            cells
            for block in self.read_again()
            for number, cells in block.rows()
            if number == self._number_T[row]
        )
        items = [*list_items(cells.get(after))]
        found = items[place] if place < len(items) else cells.get(parent)
        return f"{after if place < len(items) else parent} = {repr_for_error(found)}"

    def _pairs(self) -> list[list[int]]:
        """Return the rows that each row waits for (T lists)."""
        label, after, parent = self.words
        place: dict[int, int] = {}
        for row, name in enumerate(self._id_T):
            if name != NO_LABEL and place.setdefault(name, row) != row:
                first = self.trace.position_of(self._number_T[place[name]])
                raise self._refuse(row, f"{label} is also that of {first}; it must be unique")
        before_T: list[list[int]] = []
        for row, names in enumerate(self._names_T):
            known = sorted({place[name] for name in names if name in place})
            if len(known) < len(set(names)) and not self.trace.full:
                at = next(at for at, name in enumerate(names) if name not in place)
                what = self._unknown_id(row, at)
                raise self._refuse(row, f"{what}, which is the {label} of no row; correct it")
            for before in () if self.joins else known:
                if self._session_T[row] == NO_LABEL:
                    words = after if not parent else f"{after} or {parent}"
                    raise self._refuse(row, f"has {words} but no session; set its session")
                if self._session_T[before] != self._session_T[row]:
                    other = self.trace.position_of(self._number_T[before])
                    raise self._refuse(row, f"waits for {other}, which is of another session")
            before_T.append(known)
        return before_T

    def _cycle(self, before_T: list[list[int]], left_T: list[int]) -> InvalidSpecError:
        """Return the error for rows that wait for themselves, with their names."""
        row = next(row for row, left in enumerate(left_T) if left)
        passed = list[int]()
        while row not in passed:  # to a row of the cycle itself
            passed.append(row)
            row = next(before for before in before_T[row] if left_T[before])
        cycle = passed[passed.index(row) :]
        names = [self.trace.position_of(self._number_T[one]) for one in cycle[1 : _SHOWN + 1]]
        through = f" through {', '.join(names)}" if names else ""
        through += f" and {len(cycle) - 1 - _SHOWN:,} more" if len(cycle) > _SHOWN + 1 else ""
        return self._refuse(row, f"waits for itself{through}; remove one of these dependencies")

    def _joined(self, after_E: Int, before_E: Int) -> Int:
        """Return the sessions of rows, each with all that wait for each other (T,)."""
        from scipy.sparse import coo_array
        from scipy.sparse.csgraph import connected_components

        label_T = np.array(self._session_T)
        _, first_L, place_T = np.unique(label_T, return_index=True, return_inverse=True)
        named = np.flatnonzero(label_T != NO_LABEL)
        one = np.concatenate([after_E, named])
        other = np.concatenate([before_E, first_L[place_T[named]]])
        graph = coo_array((np.ones(one.size, np.int8), (one, other)), shape=2 * (label_T.size,))
        session_T: Int = connected_components(graph, directed=False)[1].astype(np.int64)
        labels = np.bincount(session_T[np.intersect1d(first_L, named)])
        if (several := labels > 1).any():
            self.trace.warnings.append(
                f"{labels[several].sum()} values of session_id are"
                f" {counted(int(several.sum()), 'session')}: their requests wait for each other"
            )
        alone_T = (np.bincount(session_T)[session_T] == 1) & (label_T == NO_LABEL)
        return np.where(alone_T, NO_LABEL, session_T)

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
            raise self._cycle(before_T, left_T)
        rank_T = np.empty(len(ready), np.int64)
        rank_T[ready] = np.arange(len(ready))
        columns["arrival"] = np.array(since, np.int64)[columns["id"]]
        order_N = np.lexsort((rank_T[columns["id"]], columns["arrival"]))
        place_T = np.full(len(before_T), -1)
        place_T[columns["id"][order_N]] = np.arange(order_N.size)
        after_E = np.repeat(np.arange(len(before_T)), [len(before) for before in before_T])
        before_E = np.array([before for befores in before_T for before in befores], np.int64)
        if self.joins:
            columns["session"] = self._joined(after_E, before_E)[columns["id"]]
        return order_N, after_pairs(place_T[after_E], place_T[before_E], order_N.size)


def close_agents(
    trace: reading.GrowingTrace,
    columns: dict[str, Int],
    hash_block: int = 0,
    *,
    silent_parents: bool = False,
) -> reading.Trace:
    """Return the finished trace of agents, each of which sends one request after the other.

    A request waits for the previous one of its agent; the first of a sub-agent for the last one of
    its parent agent that had ended; and the first one of the parent that began after a sub-agent
    had ended, for that end. The pause is the rest of the recorded time, such as of tools.

    Args:
        columns: As for `close`, `session` being the name of the agent, with `parent`, the name of
            its parent agent (NO_LABEL for none), and `taken`, the recorded latency [ps].
        silent_parents: Whether the format has agents that send no requests, but have sub-agents.

    Raises:
        InvalidSpecError: An agent has two parents, is its own ancestor, or has a parent without
            requests in the whole file, where the format has no such agents.

    Source: ai-dynamo/dynamo, replay of agentic request traces.
    """
    reading.reorder(columns, np.lexsort((columns["number"], columns["taken"], columns["arrival"])))
    start_N, end_N = columns["arrival"], columns["arrival"] + columns.pop("taken")
    label_A, agent_N = np.unique(columns["session"], return_inverse=True)
    order = np.argsort(agent_N, kind="stable")
    first_A = np.append(0, np.cumsum(np.bincount(agent_N)))
    parent_A = _parents(trace, columns, label_A, agent_N, silent=silent_parents)
    chained = np.flatnonzero(np.diff(agent_N[order]) == 0) + 1
    chained = chained[columns["session"][order[chained]] != NO_LABEL]
    pairs = [np.stack((order[chained], order[chained - 1]), axis=1)]
    overlaps = int(np.count_nonzero(start_N[order[chained]] < end_N[order[chained - 1]]))
    if overlaps:
        trace.warnings.append(
            f"{counted(overlaps, 'request')} began before the previous request of the agent had"
            " ended: simulated after it"
        )
    for agent in np.flatnonzero(parent_A >= 0).tolist():
        parent = int(parent_A[agent])
        rows, parents = (order[first_A[one] : first_A[one + 1]] for one in (agent, parent))
        last = rows[np.argmax(end_N[rows])]
        ended = np.maximum.accumulate(end_N[parents])
        spawn = np.searchsorted(ended, start_N[rows[0]], side="right") - 1
        join = np.searchsorted(start_N[parents], end_N[last])
        if spawn >= 0:
            pairs.append(np.array([[rows[0], parents[spawn]]]))
        if join < parents.size:
            pairs.append(np.array([[parents[join], last]]))
    after_E, before_E = np.concatenate(pairs).T
    earlier = before_E < after_E  # at equal times
    after_E, before_E = after_E[earlier], before_E[earlier]
    after = after_pairs(after_E, before_E, start_N.size)
    ready_N = np.full(start_N.size, np.iinfo(np.int64).min)
    np.maximum.at(ready_N, after_E, end_N[before_E])
    waits_N = np.diff(after[0]) > 0
    columns["pause"] = np.where(waits_N, np.maximum(start_N - np.where(waits_N, ready_N, 0), 0), -1)
    root_A = _roots(trace, columns, parent_A, order[first_A[:-1]])
    columns["session"] = np.where(columns["session"] == NO_LABEL, NO_LABEL, root_A[agent_N])
    columns["session"] = reading.session_numbers(columns["session"])
    return reading.close(trace, columns, hash_block, after)


def _parents(
    trace: reading.GrowingTrace,
    columns: dict[str, Int],
    label_A: Int,
    agent_N: Int,
    *,
    silent: bool,
) -> Int:
    """Return the parent of each agent (A,), -1 for none or one without requests."""
    parent_N = columns.pop("parent")
    given = np.flatnonzero((parent_N != NO_LABEL) & (columns["session"] != NO_LABEL))
    agents, first = np.unique(agent_N[given], return_index=True)
    name_A = np.full(label_A.size, NO_LABEL)
    name_A[agents] = parent_N[given[first]]
    other = given[parent_N[given] != name_A[agent_N[given]]]
    if other.size:
        one = given[first[np.searchsorted(agents, agent_N[other[0]])]]
        one, two = (trace.position_of(int(columns["number"][row])) for row in (one, other[0]))
        raise refuse(trace.path, two, f"its agent has another parent in {one}; an agent has one")
    parent_A = np.minimum(np.searchsorted(label_A, name_A), label_A.size - 1)
    named_A = name_A != NO_LABEL
    parent_A = np.where(named_A & (label_A[parent_A] == name_A), parent_A, -1)
    missing = np.flatnonzero(named_A & (parent_A < 0))
    if missing.size and not silent and trace.window == reading.WHOLE_TRACE:
        row = given[first[np.searchsorted(agents, missing[0])]]
        problem = "its parent agent sent no requests in this file; add them, or correct the parent"
        raise refuse(trace.path, trace.position_of(int(columns["number"][row])), problem)
    if missing.size:
        each = "each simulated" if missing.size > 1 else "simulated"
        trace.warnings.append(
            f"{counted(missing.size, 'sub-agent')} with a parent agent that sent no requests:"
            f" {each} as a session of its own"
        )
    return parent_A


def _roots(trace: reading.GrowingTrace, columns: dict[str, Int], parent_A: Int, row_A: Int) -> Int:
    """Return the root of the tree of each agent (A,), whose first requests are `row_A`."""
    root_A = np.where(parent_A < 0, np.arange(parent_A.size), parent_A)
    for _ in range(parent_A.size.bit_length()):
        root_A = root_A[root_A]
    looping = np.flatnonzero(parent_A[root_A] >= 0)
    if looping.size:
        agent, cycle = int(root_A[looping[0]]), list[int]()
        while agent not in cycle:
            cycle.append(agent)
            agent = int(parent_A[agent])
        lines = [trace.position_of(int(columns["number"][row_A[one]])) for one in cycle[:_SHOWN]]
        problem = f"its agent is its own ancestor (agents of {', '.join(lines)}); correct a parent"
        raise refuse(trace.path, lines[0], problem)
    return root_A
