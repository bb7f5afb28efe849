"""Sessions of coding agents in the JSON of kv-cache-tester (`weka`): calls, tools and sub-agents.

Source: kv-cache-tester and the corpora cc-traces-weka. A session is one object, in a file of a
folder or in a line of a JSON Lines file, with block_size, hash_id_scope and requests: t [s since
its start], in and out [tokens], hash_ids (one per full or per started block), api_time [s], and
think_time [s]. A row of type "subagent" is a container with t, duration_ms and requests of its own.
In recorded sessions t of a container is when it ended, t of its requests begins again at 0, and
think_time counts from the end of the previous call of the same agent.
Limits: The end of a call without api_time is its start, so that its pause includes its duration.

Shape legend: N requests, H hashes of full blocks, E pairs of a request and one that it waits for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfatlas.files import GrowingColumn
from perfatlas.quantities import InvalidSpecError, did_you_mean, repr_for_error
from perfatlas.serving.requests import MAX_TOKENS, after_pairs, whole_ticks
from perfatlas.serving.traces import reading
from perfatlas.serving.traces.blocks import json_object, jsonl_blocks, line_blocks, refuse
from perfatlas.serving.traces.fields import Columns
from perfatlas.vocabulary.fields import MAX_S

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    Int = NDArray[np.int64]

_MAX_SESSION_BYTES: Final = 1 << 30
_MAX_DEPTH: Final = 32  # of containers in containers
_FILES: Final = (".json", ".json.gz", ".jsonl", ".jsonl.gz")


class _Call(NamedTuple):
    """A call of a session."""

    start_s: float
    isl: int
    osl: int
    pause_s: float  # -1 if it waits for none
    string: int  # Index of the string of hashes that its prompt begins
    full: int  # Full blocks with an id
    tail: int  # Id of the partial last block, -1 for none


@dataclass
class _Session:
    """The calls of a session read so far, in an order in which each follows those it waits for."""

    path: Path
    where: str
    block: int
    model: object  # Of the main agent
    seen: Counter[str]  # What to warn of, over all sessions
    calls: list[_Call] = field(default_factory=list)
    strings: list[Int] = field(default_factory=list)
    pairs: list[tuple[int, int]] = field(default_factory=list)  # A call and one it waits for

    def refuse(self, place: str, problem: str) -> InvalidSpecError:
        return refuse(
            self.path, f"{self.where}{', ' if self.where else ''}request {place}", problem
        )

    def number(
        self, row: Mapping[str, object], name: str, place: str, most: float = MAX_S
    ) -> float:
        """Return a number from 0 to a limit; a missing one is refused."""
        if name not in row:
            hint = did_you_mean(name, [str(key) for key in row])
            raise self.refuse(place, f"missing {name!r}{hint}")
        value = row[name]
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not value <= most:
            text = f"{name} = {repr_for_error(value)}; it must be a number from 0 to {most:g}"
            raise self.refuse(place, text)
        if value < 0 and name != "think_time":
            text = f"{name} = {repr_for_error(value)}; it must be a number from 0 to {most:g}"
            raise self.refuse(place, text)
        return max(float(value), 0.0)

    def tokens(self, row: Mapping[str, object], name: str, place: str) -> int:
        """Return a number of tokens, at least 1."""
        count = self.number(row, name, place, MAX_TOKENS)
        if not count.is_integer():
            raise self.refuse(place, f"{name} = {count:g}; it must be a whole number of tokens")
        if not count:
            self.seen[f"requests have {name} = 0; 1 token is used"] += 1
        return max(int(count), 1)

    def add(self, row: Mapping[str, object], place: str, call: _Call, waits: list[int]) -> int:
        """Add a call that waits for others, with the hashes of its prompt."""
        try:
            ids = np.array(row.get("hash_ids"))
        except (ValueError, OverflowError):
            ids = np.array([-1])
        if ids.ndim != 1 or (ids.size and (ids.dtype != np.int64 or ids.min() < 0)):
            raise self.refuse(place, "hash_ids must be a list of whole numbers from 0 to 2^63 - 1")
        full, rest = divmod(call.isl, self.block)
        if ids.size not in {full, full + (rest > 0)}:
            raise self.refuse(
                place,
                f"{ids.size} hash_ids for {call.isl} tokens; blocks of {self.block} tokens require"
                f" {full} (full blocks) or {full + (rest > 0)} (started blocks)",
            )
        tail = int(ids[full]) if ids.size > full else -1
        full_H = ids[:full].astype(np.int64)
        # the prompt of a call usually begins with that of the call before it: both share hashes
        known_H = self.strings[call.string] if 0 <= call.string < len(self.strings) else None
        string = call.string
        common = 0 if known_H is None else min(known_H.size, full)
        if known_H is None or not np.array_equal(known_H[:common], full_H[:common]):
            string = len(self.strings)
            self.strings.append(full_H)
        elif full > known_H.size:
            self.strings[string] = full_H
        start_s = max([call.start_s, *(self.calls[before].start_s for before in waits)])
        index = len(self.calls)
        self.pairs += [(index, before) for before in waits]
        self.calls.append(call._replace(start_s=start_s, string=string, full=full, tail=tail))
        return index

    def agent(
        self, rows: object, place: str, shift_s: float, spawner: list[int], end_s: float, depth: int
    ) -> list[int]:
        """Add the calls of an agent; return those that its end waits for.

        Args:
            shift_s: Start of its times in the session [s].
            spawner: Call that spawned it, none for the main agent.
            end_s: Recorded end of that call [s].
        """
        if not isinstance(rows, list):
            raise self.refuse(place or "list", "missing list 'requests'")
        if depth > _MAX_DEPTH:
            raise self.refuse(place, f"more than {_MAX_DEPTH} sub-agents within each other")
        last, joins, string = spawner, list[int](), -1
        after_s, begun, latest_s = end_s, False, 0.0
        for number, row in enumerate(rows, 1):
            here = f"{place}.{number}" if place else str(number)
            if not isinstance(row, Mapping):
                raise self.refuse(here, f"{repr_for_error(row)} is not an object {{...}}")
            t_s = self.number(row, "t", here)
            if row.get("type") == "subagent":
                nested = row.get("requests")
                duration_s = self.number(row, "duration_ms", here, MAX_S * 1e3) / 1e3
                start_s = max(t_s + shift_s - duration_s, end_s)
                first = nested[0] if isinstance(nested, list) and nested else {}
                first_s = first.get("t", 0.0) if isinstance(first, Mapping) else 0.0
                relative = isinstance(first_s, (int, float)) and first_s < t_s
                nested_shift_s = start_s - first_s if relative else shift_s
                joins += self.agent(nested, here, nested_shift_s, last, end_s, depth + 1)
                after_s = max(after_s, t_s + shift_s)
                self.seen["sub-agents"] += 1
                continue
            self.seen["rows begin before the previous row of their agent"] += t_s < latest_s
            latest_s = t_s
            start_s = t_s + shift_s
            waits = last + joins
            if begun and not joins and "think_time" in row:
                pause_s = self.number(row, "think_time", here)
            else:  # after sub-agents, think_time would count their time twice
                pause_s = max(start_s - after_s, 0.0) if waits else -1.0
            isl, osl = self.tokens(row, "in", here), self.tokens(row, "out", here)
            call = _Call(start_s, isl, osl, pause_s, string, 0, -1)
            last, joins, begun = [self.add(row, here, call, waits)], [], True
            string = self.calls[-1].string
            taken_s = self.number(row, "api_time", here) if row.get("api_time") is not None else 0.0
            end_s = after_s = start_s + taken_s
            self.seen["calls"] += 1
            self.seen["without api_time"] += row.get("api_time") is None
            self.seen["of another model"] += row.get("model", self.model) != self.model
        return last + joins if begun or joins else []


def read_weka(path: str | Path, window: reading.TraceWindow = reading.WHOLE_TRACE) -> reading.Trace:
    """Return the requests of recorded sessions of agents.

    A call waits for the previous call of its agent, the first call of a sub-agent for the call that
    spawned it, and the call after a sub-agent for the end of the sub-agent too.

    Args:
        path: A folder with one session per .json file, one such file, or JSON Lines.
    """
    trace = reading.GrowingTrace(path=path, clock=reading.SECONDS, window=window)
    seen: Counter[str] = Counter()
    hashes, pairs = GrowingColumn(), GrowingColumn()
    before, block, sessions = (0, 0, 0), 0, 0
    for file, where, row in _sessions(Path(path)):
        session = _read_session(file, where, row, seen)
        block = block or session.block
        if session.block != block:
            raise refuse(file, where, f"block_size = {session.block}; other sessions have {block}")
        trace.path = file
        pairs.extend(np.array(session.pairs, np.int64).reshape(-1) + before[0])
        before = _add(trace, session, sessions, before, hashes)
        sessions += 1
        if trace.full:
            break
    trace.path = path
    _warn(trace, seen, sessions)
    columns = trace.columns()
    order_N = np.lexsort((columns["place"], columns["arrival"]))
    reading.reorder(columns, order_N)
    place_P = np.full(before[0], -1)
    place_P[columns["place"]] = np.arange(order_N.size)
    after_E, before_E = place_P[pairs.whole().reshape(-1, 2)].T
    after_first_N, after_E = after_pairs(after_E, before_E, order_N.size)
    columns["pause"] = np.where(np.diff(after_first_N) > 0, columns["pause"], -1)
    closed = reading.close(trace, columns, after=(after_first_N, after_E))
    requests = closed.requests._replace(
        hash_first_N=columns["hash_first"],
        hash_H=hashes.whole(),
        tail_N=columns["tail"],
        hash_block=block,
    )
    return closed._replace(requests=requests)


def _sessions(path: Path) -> Iterator[tuple[Path, str, Mapping[str, object]]]:
    """Yield the file, the position in it and the object of each session."""
    files = [path]
    if path.is_dir():
        files = sorted(file for file in path.iterdir() if file.name.lower().endswith(_FILES))
        if not files:
            raise refuse(path, "", f"is a folder without a file {', '.join(_FILES)}")
    for file in files:
        if file.name.lower().removesuffix(".gz").endswith(".json"):
            text = b"".join(data for _, data in line_blocks(file, _MAX_SESSION_BYTES))
            yield file, "", json_object(file, "", text)
            continue
        for block in jsonl_blocks(file, {}, _MAX_SESSION_BYTES):
            for number, row in block.rows():
                yield file, f"line {number}", row


def _read_session(
    file: Path, where: str, row: Mapping[str, object], seen: Counter[str]
) -> _Session:
    """Return a session with its calls."""
    block = row.get("block_size")
    if isinstance(block, bool) or not isinstance(block, int) or not 1 <= block <= MAX_TOKENS:
        raise refuse(
            file,
            where,
            f"block_size = {repr_for_error(block)}; it must be the tokens of a block, such as 64",
        )
    if row.get("hash_id_scope", "local") != "local":
        scope = repr_for_error(row["hash_id_scope"])
        raise refuse(file, where, f"hash_id_scope = {scope}; only 'local' is known")
    rows = row.get("requests")
    if not isinstance(rows, list):
        raise refuse(file, where, "missing list 'requests' of a session")
    mains = (r.get("model") for r in rows if isinstance(r, Mapping) and r.get("type") != "subagent")
    session = _Session(path=file, where=where, block=block, model=next(mains, None), seen=seen)
    session.agent(rows, "", 0.0, [], 0.0, 0)
    return session


def _add(
    trace: reading.GrowingTrace,
    session: _Session,
    number: int,
    before: tuple[int, int, int],
    hashes: GrowingColumn,
) -> tuple[int, int, int]:
    """Add a session to a trace; return `before` of the next one.

    Args:
        before: Calls, distinct hashes and stored hashes of earlier sessions.
    """
    calls, named, stored = before
    count = len(session.calls)
    if not count:
        return before
    columns = dict(zip(_Call._fields, zip(*session.calls, strict=True), strict=True))
    size_S = np.array([string_H.size for string_H in session.strings], np.int64)
    first_S = stored + np.cumsum(size_S) - size_S
    tail_N = np.array(columns["tail"], np.int64)
    ids = np.concatenate([*session.strings, tail_N[tail_N >= 0]])
    known, name = np.unique(ids, return_inverse=True)
    name = name.reshape(-1) + named
    hashes.extend(name[: int(size_S.sum())])
    named += known.size
    own_N = np.arange(named, named + count)  # of partial blocks without an id
    own_N[tail_N >= 0] = name[int(size_S.sum()) :]
    rows = Columns(
        row_word=f"{session.where} call".strip(),
        number_B=np.arange(1, count + 1),
        cells={"start": np.array(columns["start_s"], np.float64)},
        hash_H=np.zeros(0, np.int64),
        count_B=np.zeros(count, np.int64),
    )
    pause_N = np.array(columns["pause_s"])
    trace.add(
        rows,
        "start",
        isl=np.array(columns["isl"], np.int64),
        osl=np.array(columns["osl"], np.int64),
        session=np.full(count, number),
        pause=np.where(pause_N < 0, -1, whole_ticks(pause_N)),
        hash_first=first_S[np.array(columns["string"], np.int64)],
        tail=own_N,
        place=np.arange(calls, calls + count),
    )
    return calls + count, named + count, stored + int(size_S.sum())


def _warn(trace: reading.GrowingTrace, seen: Counter[str], sessions: int) -> None:
    calls = seen.pop("calls", 0)
    agents = seen.pop("sub-agents", 0)
    other = seen.pop("of another model", 0)
    untimed = seen.pop("without api_time", 0)
    if other:
        trace.warnings.append(
            f"{other:,} of {calls:,} requests ({agents:,} sub-agents) were sent to another model"
            " than the main agent of their session; all are simulated on the same model"
        )
    if untimed:
        trace.warnings.append(
            f"{untimed:,} of {calls:,} requests have no api_time; they are taken to have ended when"
            " they began"
        )
    trace.warnings += [f"{count:,} {what}" for what, count in seen.items() if count]
    if sessions > 1:
        trace.warnings.append(
            f"times count from the start of each session: all {sessions:,} sessions begin at once"
            " unless sessions limits how many are in flight"
        )
