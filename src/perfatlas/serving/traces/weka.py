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
from typing import TYPE_CHECKING, Final, NamedTuple, cast

import numpy as np

from perfatlas.files import GrowingColumn
from perfatlas.quantities import InvalidSpecError, counted, did_you_mean, repr_for_error
from perfatlas.serving.requests import MAX_TOKENS, after_pairs, whole_ticks
from perfatlas.serving.traces import reading
from perfatlas.serving.traces.blocks import json_object, jsonl_blocks, line_blocks, refuse
from perfatlas.serving.traces.fields import Columns
from perfatlas.vocabulary.fields import MAX_S

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    Int = NDArray[np.int64]
    Row = Mapping[str, object]

_MAX_DEPTH: Final = 32  # of sub-agents within each other
_FILES: Final = (".json", ".json.gz", ".jsonl", ".jsonl.gz")


class _Call(NamedTuple):
    """A model call."""

    start_s: float
    isl: int
    osl: int
    pause_s: float  # -1 if it waits for none
    string: int  # Index of the string of hashes that its prompt begins


@dataclass
class _Session:
    """The calls of a session read so far, in an order in which each follows those it waits for."""

    path: Path
    where: str
    block: int
    model: object  # Of the main agent
    seen: Counter[str]  # What to warn of, over all sessions
    calls: list[_Call] = field(default_factory=list)
    tails: list[int] = field(default_factory=list)  # Id of the partial last block, -1 for none
    strings: list[Int] = field(default_factory=list)
    pairs: list[tuple[int, int]] = field(default_factory=list)  # A call and one it waits for

    def refuse(self, place: str, problem: str) -> InvalidSpecError:
        return refuse(self.path, f"{self.where}, request {place}".lstrip(", "), problem)

    def number(self, row: Row, name: str, place: str, most: float = MAX_S) -> float:
        """Return a number from 0 to a limit; a think time is at least 0."""
        if name not in row:
            raise self.refuse(place, f"missing {name!r}{did_you_mean(name, [str(k) for k in row])}")
        value = row[name]
        low = -most if name == "think_time" else 0
        if type(value) not in {int, float} or not low <= cast("float", value) <= most:
            text = f"{name} = {repr_for_error(value)}; it must be a number from 0 to {most:g}"
            raise self.refuse(place, text)
        self.seen[f"request with {name} below 0: 0 is used"] += cast("float", value) < 0
        return max(float(cast("float", value)), 0.0)

    def tokens(self, row: Row, name: str, place: str) -> int:
        """Return a number of tokens, at least 1."""
        count = self.number(row, name, place, MAX_TOKENS)
        if not count.is_integer():
            raise self.refuse(place, f"{name} = {count:g}; it must be a whole number of tokens")
        self.seen[f"request with {name} = 0: 1 token is used"] += not count
        return max(int(count), 1)

    def add(
        self, row: Row, place: str, start_s: float, pause_s: float, string: int, waits: list[int]
    ) -> None:
        """Add a call that waits for others, with the hashes of its prompt."""
        isl, osl = self.tokens(row, "in", place), self.tokens(row, "out", place)
        try:
            ids = np.array(row.get("hash_ids"))
        except (ValueError, OverflowError):
            ids = np.array([-1])
        if ids.ndim != 1 or (ids.size and (ids.dtype != np.int64 or ids.min() < 0)):
            raise self.refuse(place, "hash_ids must be a list of whole numbers from 0 to 2^63 - 1")
        full, rest = divmod(isl, self.block)
        if ids.size not in {full, full + (rest > 0)}:
            raise self.refuse(
                place,
                f"{ids.size} hash_ids for {isl} tokens; blocks of {self.block} tokens require"
                f" {full} (full blocks) or {full + (rest > 0)} (started blocks)",
            )
        self.tails.append(int(ids[full]) if ids.size > full else -1)
        ids = ids[:full].astype(np.int64)
        # the prompt of a call usually begins with that of the call before it: both share hashes
        known = self.strings[string] if string >= 0 else None
        common = 0 if known is None else min(known.size, full)
        if known is None or not np.array_equal(known[:common], ids[:common]):
            string = len(self.strings)
            self.strings.append(ids)
        elif full > common:
            self.strings[string] = ids
        self.pairs += [(len(self.calls), before) for before in waits]
        start_s = max([start_s, *(self.calls[before].start_s for before in waits)])
        self.calls.append(_Call(start_s, isl, osl, pause_s, string))

    def agent(
        self, rows: object, place: str, shift_s: float, last: list[int], end_s: float
    ) -> list[int]:
        """Add the calls of an agent; return those whose end is the end of the agent.

        Args:
            shift_s: Start of its times in the session [s].
            last: Call that spawned it, none for the main agent.
            end_s: Recorded end of that call [s].
        """
        if not isinstance(rows, list):
            raise self.refuse(place, "missing list 'requests'")
        if place.count(".") >= _MAX_DEPTH:
            raise self.refuse(place, f"more than {_MAX_DEPTH} sub-agents within each other")
        joins, string = list[int](), -1
        after_s, begun, latest_s = end_s, False, 0.0
        for number, row in enumerate(rows, 1):
            here = f"{place}.{number}".lstrip(".")
            if not isinstance(row, Mapping):
                raise self.refuse(here, f"{repr_for_error(row)} is not an object {{...}}")
            t_s = self.number(row, "t", here)
            if row.get("type") == "subagent":
                nested = row.get("requests")
                duration_s = self.number(row, "duration_ms", here, MAX_S * 1e3) / 1e3
                start_s = max(t_s + shift_s - duration_s, end_s)
                first = nested[0] if isinstance(nested, list) and nested else None
                first_s = self.number(first, "t", here) if isinstance(first, Mapping) else 0.0
                nested_shift_s = start_s - first_s if first_s < t_s else shift_s
                joins += self.agent(nested, here, nested_shift_s, last, end_s)
                after_s = max(after_s, t_s + shift_s)
                self.seen["sub-agents"] += 1
                continue
            self.seen["row that began before the previous one of its agent"] += t_s < latest_s
            latest_s, start_s, waits = t_s, t_s + shift_s, last + joins
            pause_s = max(start_s - after_s, 0.0) if waits else -1.0
            if begun and not joins and "think_time" in row:
                # after sub-agents it would count their time twice
                pause_s = self.number(row, "think_time", here)
            self.add(row, here, start_s, pause_s, string, waits)
            last, joins, begun = [len(self.calls) - 1], [], True
            string = self.calls[-1].string
            timed = row.get("api_time") is not None
            end_s = after_s = start_s + (self.number(row, "api_time", here) if timed else 0.0)
            self.seen["calls"] += 1
            self.seen["without api_time"] += not timed
            self.seen["of another model"] += row.get("model", self.model) != self.model
        return last + joins if begun else joins


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
    calls = names = stored = block = 0
    for number, session in enumerate(_sessions(Path(path), seen)):
        block = block or session.block
        if session.block != block:
            problem = f"block_size = {session.block}; other sessions have {block}"
            raise refuse(session.path, session.where, problem)
        if not session.calls:
            continue
        start_N, isl_N, osl_N, pause_N, string_N = np.array(session.calls).T
        count, tail_N = start_N.size, np.array(session.tails)
        size_S = np.array([string.size for string in session.strings])
        ids = np.concatenate([*session.strings, tail_N[tail_N >= 0]])
        known, name = np.unique(ids, return_inverse=True)
        string_H, named = np.split(name.reshape(-1) + names, [size_S.sum()])
        tail_N = np.where(tail_N < 0, names + known.size + np.arange(count), tail_N)
        tail_N[np.array(session.tails) >= 0] = named
        first_S = stored + np.cumsum(size_S) - size_S
        trace.path = session.path
        trace.add(
            Columns(
                row_word=f"{session.where} call".strip(),
                number_B=np.arange(1, count + 1),
                cells={"start": start_N},
                hash_H=np.zeros(0, np.int64),
                count_B=np.zeros(count, np.int64),
            ),
            "start",
            isl=isl_N.astype(np.int64),
            osl=osl_N.astype(np.int64),
            session=np.full(count, number),
            pause=np.where(pause_N < 0, -1, whole_ticks(pause_N)),
            hash_first=first_S[string_N.astype(np.int64)],
            tail=tail_N,
            place=np.arange(calls, calls + count),
        )
        hashes.extend(string_H)
        pairs.extend(np.array(session.pairs, np.int64).reshape(-1) + calls)
        calls, names, stored = calls + count, names + known.size + count, stored + string_H.size
        if trace.full:
            break
    trace.path = path
    _warn(trace.warnings, seen)
    columns = trace.columns()
    order_N = np.lexsort((columns["place"], columns["arrival"]))
    reading.reorder(columns, order_N)
    place_P = np.full(calls, -1)
    place_P[columns["place"]] = np.arange(order_N.size)
    after_E, before_E = place_P[pairs.whole().reshape(-1, 2)].T
    after = after_pairs(after_E, before_E, order_N.size)
    columns["pause"] = np.where(np.diff(after[0]) > 0, columns["pause"], -1)
    closed = reading.close(trace, columns, after=after)
    first_N, tail_N = columns["hash_first"], columns["tail"]
    hashed = {"hash_first_N": first_N, "hash_H": hashes.whole(), "tail_N": tail_N}
    return closed._replace(requests=closed.requests._replace(**hashed, hash_block=block))


def _sessions(path: Path, seen: Counter[str]) -> Iterator[_Session]:
    files = [path]
    if path.is_dir():
        files = sorted(file for file in path.iterdir() if file.name.lower().endswith(_FILES))
        if not files:
            raise refuse(path, "", f"is a folder without a file {', '.join(_FILES)}")
    for file in files:
        if file.name.lower().removesuffix(".gz").endswith(".json"):
            text = b"".join(data for _, data in line_blocks(file))
            yield _read_session(file, "", json_object(file, "", text), seen)
            continue
        for block in jsonl_blocks(file, {}):
            for number, row in block.rows():
                yield _read_session(file, f"line {number}", row, seen)


def _read_session(file: Path, where: str, row: Row, seen: Counter[str]) -> _Session:
    block, rows = row.get("block_size"), row.get("requests")
    if isinstance(block, bool) or not isinstance(block, int) or not 1 <= block <= MAX_TOKENS:
        problem = f"block_size = {repr_for_error(block)}; it must be the tokens of a block, such as"
        raise refuse(file, where, f"{problem} 64")
    if row.get("hash_id_scope", "local") != "local":
        scope = repr_for_error(row["hash_id_scope"])
        raise refuse(file, where, f"hash_id_scope = {scope}; only 'local' is known")
    if not isinstance(rows, list):
        raise refuse(file, where, "missing list 'requests' of a session")
    mains = (r.get("model") for r in rows if isinstance(r, Mapping) and r.get("type") != "subagent")
    session = _Session(path=file, where=where, block=block, model=next(mains, None), seen=seen)
    session.agent(rows, "", 0.0, [], 0.0)
    return session


def _warn(warnings: list[str], seen: Counter[str]) -> None:
    names = ("calls", "sub-agents", "of another model", "without api_time")
    calls, agents, other, untimed = (seen.pop(name, 0) for name in names)
    if other:
        warnings.append(
            f"{other:,} of {counted(calls, 'request')} ({counted(agents, 'sub-agent')}) to another"
            " model than that of the main agent of the session: all are simulated on the same model"
        )
    if untimed:
        warnings.append(
            f"{untimed:,} of {counted(calls, 'request')} without api_time: taken to have ended at"
            " the start"
        )
    for what, count in seen.items():
        if count:
            thing, _, rest = what.partition(" ")
            warnings.append(f"{counted(count, thing)} {rest}")
