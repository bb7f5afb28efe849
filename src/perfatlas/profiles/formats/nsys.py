"""Nsight Systems profiles exported to SQLite; columns are those that the schema has."""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.profiles import events
from perfatlas.profiles.formats.nesting import innermost
from perfatlas.quantities import NANOSECOND_S, InvalidSpecError, counted, printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfatlas.profiles.events.columns import FloatArray, IntArray

FORMAT_NAME: Final = "nsys"
# The bits of global identifiers above the thread: what belongs to the same process has them equal.
PROCESS_BITS: Final = 24
KERNELS: Final = "CUPTI_ACTIVITY_KIND_KERNEL"
COPIES: Final = ("CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_MEMSET")
RUNTIME: Final = "CUPTI_ACTIVITY_KIND_RUNTIME"
NVTX: Final = "NVTX_EVENTS"
PUSH_POP: Final = 59  # `eventType` of ranges that nest
# What `torch.autograd.profiler.emit_nvtx` appends to the name of an operator.
_APPENDED: Final = re.compile(r", (?:seq|op_id|sizes|input_op_ids)\s*=")
_SIZES: Final = re.compile(r"sizes\s*=\s*(\[.*?\])(?:, input_op_ids|$)")
# `copyKind` of CUPTI.
DIRECTIONS: Final = {1: "HtoD", 2: "DtoH", 8: "DtoD", 9: "HtoH", 10: "PtoP"}
MAX_ROWS: Final = 50_000_000
_VERSION: Final = re.compile(r"_V\d+$")  # that newer exports add to the names of tables
_LOSS: Final = re.compile(r"drop|lost|not collected|buffer.*full", re.IGNORECASE)
MAX_DIAGNOSTICS: Final = 5


def matches(head: str) -> bool:
    """Return whether a file begins as one of this format."""
    return head.startswith("SQLite format 3\0")


def read(path: str | Path) -> events.Profile:
    """Return the profile of an exported database, which is opened for reading only."""
    address = f"{Path(path).absolute().as_uri()}?mode=ro&immutable=1"
    try:
        database = sqlite3.connect(address, uri=True)
        try:
            return _Reader(database, str(path)).profile()
        finally:
            database.close()
    except (sqlite3.Error, OverflowError, TypeError, ValueError) as error:
        raise InvalidSpecError(
            f"profile {printable(str(path))!r} is no valid export of Nsight Systems"
            f" ({printable(str(error))}); export it again: nsys export --type sqlite"
        ) from error


class _Reader:
    """Reads tables of one database."""

    def __init__(self, database: sqlite3.Connection, path: str) -> None:
        self.database, self.path = database, path
        database.execute("PRAGMA trusted_schema = OFF")
        self.tables = {
            name: [row[1] for row in self._rows(f'PRAGMA table_info("{name}")')]
            for (name,) in self._rows("SELECT name FROM sqlite_master WHERE type = 'table'")
            if '"' not in name
        }

    def _rows(self, query: str) -> list[tuple[Any, ...]]:
        rows = self.database.execute(query).fetchmany(MAX_ROWS + 1)
        if len(rows) > MAX_ROWS:
            raise ValueError(f"a table has more than {MAX_ROWS:,} rows")
        return rows

    def table(self, name: str, columns: Sequence[str]) -> list[tuple[Any, ...]]:
        """Return rows of a table, None for columns that its schema does not have."""
        stored = [table for table in self.tables if _VERSION.sub("", table) == name]
        unknown = stored[1:]
        if name == KERNELS and not stored:
            unknown = [table for table in self.tables if table.startswith(name)]
        available = self.tables[stored[0]] if stored else []
        if unknown or (stored and not set(columns[:2]) <= set(available)):
            raise InvalidSpecError(
                f"profile {printable(self.path)!r} has a schema of Nsight Systems that is not known"
                f" ({printable(', '.join({*unknown, *stored}))[:200]}); its summary can be read:"
                " nsys stats --report cuda_gpu_kern_sum --format csv report.nsys-rep > kernels.csv"
            )
        if not stored:
            return []
        wanted = ", ".join(f'"{column}"' if column in available else "NULL" for column in columns)
        words = ["SELECT", wanted, "FROM", f'"{stored[0]}"']
        return self._rows(" ".join(words))

    def profile(self) -> events.Profile:
        """Return the profile."""
        if not {"StringIds", RUNTIME, KERNELS} & {_VERSION.sub("", name) for name in self.tables}:
            raise InvalidSpecError(
                f"profile {printable(self.path)!r} is an SQLite database without the tables of"
                " Nsight Systems; export one: nsys export --type sqlite report.nsys-rep"
            )
        texts = dict(self.table("StringIds", ("id", "value")))
        names: dict[str, int] = {}
        rows = []
        wanted = ("start", "end", "deviceId", "correlationId", "globalPid", "streamId")
        for row in self.table(KERNELS, (*wanted, "demangledName", "shortName")):
            name = texts.get(row[6]) or texts.get(row[7]) or "kernel without a name"
            rows.append((*row[:6], events.KERNEL, names.setdefault(str(name), len(names))))
        for table in COPIES:
            stem = table.rsplit("_", maxsplit=1)[-1].lower()
            for row in self.table(table, (*wanted, "copyKind")):
                name = f"{stem} {DIRECTIONS[row[6]]}" if row[6] in DIRECTIONS else stem
                rows.append((*row[:6], events.COPY, names.setdefault(name, len(names))))
        valid = [row for row in rows if row[0] is not None and (row[1] or 0) >= row[0]]
        messages = {
            str(message) for (message,) in self.table("DIAGNOSTIC_EVENT", ("text",)) if message
        }
        lost = [printable(message) for message in sorted(messages) if _LOSS.search(message)]
        notes = [*[f"Nsight Systems says: {message}" for message in lost[:MAX_DIAGNOSTICS]]]
        if len(valid) < len(rows):
            notes.append(
                f"{counted(len(rows) - len(valid), 'record')} without a valid time: left out"
            )
        if not valid:
            notes.append("no GPU activity: record with nsys profile --trace cuda,nvtx")
        calls: dict[events.OperatorCall, int] = {}
        activities, launches = self._columns(valid, texts, calls)
        return events.Profile(
            path=self.path,
            format=FORMAT_NAME,
            device=self._device(),
            activities=activities,
            launches=launches,
            names=tuple(names),
            calls=tuple(calls),
            integrity=tuple(notes),
        )

    def _columns(
        self,
        rows: Sequence[tuple[Any, ...]],
        texts: dict[int, str],
        calls: dict[events.OperatorCall, int],
    ) -> tuple[events.Activities, events.Launches]:
        columns_N = _integers(rows, 8)
        start_N, end_N, device_N, correlation_N, process_N, stream_N, kind_N, name_N = columns_N
        runtime = self.table(RUNTIME, ("start", "end", "correlationId", "globalTid", "nameId"))
        start_L, end_L, correlation_L, thread_L, _ = _integers(runtime, 5)
        called = [str(texts.get(row[4], "")) for row in runtime]
        kinds = [("", "kernel", "graph").index(events.launch_kind(name)) for name in called]
        kind_L = np.array(kinds, np.int64)
        wait_L = np.array([events.wait_kind(name) for name in called], np.int64)
        launch_N = _joined(
            (process_N >> PROCESS_BITS, correlation_N), (thread_L >> PROCESS_BITS, correlation_L)
        )
        is_kept_L = (kind_L > 0) | (wait_L > 0)
        is_kept_L[launch_N[launch_N >= 0]] = True
        launch_N = np.append(np.cumsum(is_kept_L) - 1, events.NO_INDEX)[launch_N]
        origin = min((int(column.min()) for column in (start_N, start_L) if len(column)), default=0)
        start_L, end_L, thread_L = start_L[is_kept_L], end_L[is_kept_L], thread_L[is_kept_L]
        kind_L, wait_L = kind_L[is_kept_L], wait_L[is_kept_L]
        call_L, instance_L = self._ranges(thread_L, start_L, texts, calls)
        call_L[kind_L == 2] = events.NO_INDEX  # kernels of a graph come of many operators
        activities = events.Activities(
            name_N=name_N,
            kind_N=kind_N,
            device_N=device_N,
            stream_N=stream_N,
            start_s_N=_seconds(start_N - origin),
            time_s_N=_seconds(end_N - start_N),
            launch_N=launch_N,
            call_N=np.append(call_L, events.NO_INDEX)[launch_N],
            instance_N=np.append(instance_L, events.NO_INDEX)[launch_N],
        )
        launches = events.Launches(
            start_s_L=_seconds(start_L - origin),
            end_s_L=_seconds(np.maximum(end_L, start_L) - origin),
            process_L=thread_L >> PROCESS_BITS,
            wait_L=wait_L,
            is_kernel_L=kind_L > 0,
            is_graph_L=kind_L == 2,
            name_L=np.full(len(start_L), events.NO_INDEX, np.int64),
            call_L=call_L,
            instance_L=instance_L,
        )
        return activities, launches

    def _ranges(
        self,
        thread_L: IntArray,
        start_L: IntArray,
        texts: dict[int, str],
        calls: dict[events.OperatorCall, int],
    ) -> tuple[IntArray, IntArray]:
        """Return the innermost NVTX range around each launch and its number (L)."""
        names = ("start", "end", "globalTid")
        ranges = [
            (row[0], row[1], row[2], str(row[3] or texts.get(row[4]) or ""))
            for row in self.table(NVTX, (*names, "text", "textId", "eventType"))
            if row[1] is not None and row[5] in (None, PUSH_POP)  # others need not be nested
        ]
        start_K, end_K, thread_K = _integers([row[:3] for row in ranges], 3)
        call_K = [calls.setdefault(_operator_call(row[3]), len(calls)) for row in ranges]
        call_L, instance_L = (np.full(len(thread_L), events.NO_INDEX, np.int64) for _ in range(2))
        for thread in np.unique(thread_L).tolist():
            at_L, at_K = np.flatnonzero(thread_L == thread), np.flatnonzero(thread_K == thread)
            range_L = np.append(at_K, events.NO_INDEX)[
                innermost(start_K[at_K], end_K[at_K], start_L[at_L])
            ]
            call_L[at_L], instance_L[at_L] = np.append(call_K, events.NO_INDEX)[range_L], range_L
        return call_L, instance_L

    def _device(self) -> str:
        """Return the name of the first GPU, "" if the export has none."""
        named = [row[0] for row in self.table("TARGET_INFO_GPU", ("name",)) if row[0]]
        return printable(str(named[0])) if named else ""


def _operator_call(text: str) -> events.OperatorCall:
    """Return the operator of an NVTX range, with the shapes of its inputs if the text has them."""
    name, sizes = _APPENDED.split(text, maxsplit=1)[0], _SIZES.search(text)
    listed = re.findall(r"\[([\d, ]*)\]", sizes[1][1:-1]) if sizes else []
    shapes = [tuple(int(size) for size in re.findall(r"\d{1,18}", shape)) for shape in listed]
    return events.OperatorCall(name, tuple(shapes))


def _integers(rows: Sequence[tuple[Any, ...]], columns: int) -> list[IntArray]:
    """Return columns of rows as integers, NO_INDEX for missing values."""
    if not rows:
        return [np.zeros(0, np.int64)] * columns
    return [
        np.array([events.NO_INDEX if value is None else int(value) for value in column], np.int64)
        for column in zip(*rows, strict=True)
    ]


def _joined(keys_N: tuple[IntArray, IntArray], keys_L: tuple[IntArray, IntArray]) -> IntArray:
    """Return the position of each pair of keys among others, NO_INDEX where it is not there (N).

    A schema without processes has one process.
    """
    process_L = (
        keys_L[0]
        if (keys_N[0] != events.NO_INDEX).any()
        else np.full_like(keys_L[0], events.NO_INDEX)
    )
    position_of_key = {
        key: position
        for position, key in enumerate(zip(process_L.tolist(), keys_L[1].tolist(), strict=True))
    }
    pairs = zip(keys_N[0].tolist(), keys_N[1].tolist(), strict=True)
    positions = [
        position_of_key.get(pair, events.NO_INDEX)
        if pair[1] != events.NO_INDEX
        else events.NO_INDEX
        for pair in pairs
    ]
    return np.array(positions, np.int64)


def _seconds(nanoseconds: IntArray) -> FloatArray:
    return nanoseconds.astype(np.float64) * NANOSECOND_S
