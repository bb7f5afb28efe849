"""A history as a table in CSV, JSON Lines or Parquet, to inspect, edit, join and fit."""

from __future__ import annotations

import contextlib
import math
from itertools import compress
from operator import not_
from typing import TYPE_CHECKING, Any, Final

from perfatlas.files import Text, file_hash, write_table
from perfatlas.quantities import did_you_mean, repr_for_error
from perfatlas.reliability.telemetry.history.history import (
    ACTIONS,
    KINDS,
    NOT_TOLD,
    Event,
    History,
    HistoryBuilder,
)
from perfatlas.reliability.telemetry.history.hostlist import count_hosts
from perfatlas.reliability.telemetry.history.occupancy import OccupancyBuilder
from perfatlas.reliability.telemetry.reading import (
    FileCounts,
    LogRecord,
    epoch_seconds,
    read_log_table,
)

if TYPE_CHECKING:
    from pathlib import Path

_TIMES: Final = ("start_s", "detected_s", "recovered_s")
_NAMES: Final = ("component", "cause", "kind", "node", "device", "job", "action")
RUN: Final = "run"  # kind of the rows that say when nodes ran jobs; they are no events
_NAMED: Final = Text(empty=False, longest=10_000, expected="a name")
_RULES: Final = {"kind": Text(choices=KINDS), "component": _NAMED, "cause": _NAMED}
_REQUIRED: Final = ("start_s", "component", "cause", "kind")


def write_history(path: str | Path, history: History) -> None:
    """Write a history as a table: one row per event, with its log and line.

    Runs of jobs follow as rows of kind `run`, with the host list as node and the state as cause.

    Args:
        path: The table; its extension determines the format.

    Raises:
        InvalidSpecError: The extension is unknown or the file cannot be written.
    """
    columns: dict[str, list[Any]] = {
        **{name: getattr(history, f"{name}_E").tolist() for name in _TIMES},
        **{name: getattr(history, name).text() for name in _NAMES},
    }
    files, lines = history.file_E.tolist(), history.line_E.tolist()
    runs = history.occupancy
    if runs is not None:
        nothing, empty = [NOT_TOLD] * runs.size, [""] * runs.size
        added: dict[str, list[Any]] = {
            "start_s": runs.start_s_R.tolist(),
            "detected_s": nothing,
            "recovered_s": runs.end_s_R.tolist(),
            "component": ["job"] * runs.size,
            "cause": [state.lower() for state in runs.state.text()],
            "kind": [RUN] * runs.size,
            "node": runs.hosts.text(),
            "device": empty,
            "job": runs.job.text(),
            "action": empty,
        }
        columns = {name: column + added[name] for name, column in columns.items()}
        files, lines = files + runs.file_R.tolist(), lines + runs.line_R.tolist()
    sources = [history.files[index] for index in files]
    columns["source"] = [file.path for file in sources]
    columns["source_hash"] = [file.data_hash for file in sources]
    columns["line"] = lines
    write_table(path, columns)


def read_history(path: str | Path) -> History:
    """Return the history in a table, written by `write_history` or by other tools.

    Args:
        path: A table with the columns start_s, component, cause and kind, and optionally
            detected_s, recovered_s, node, device, job, action, source, source_hash and line. Times
            are in seconds since 1970-01-01 UTC, or ISO 8601 text with time zone. A row of kind
            `run` is no event: nodes (a host list) ran a job from start_s to recovered_s.

    Raises:
        InvalidSpecError: The table cannot be read, lacks a column, or a cell is invalid; the
            message names the row and column.
    """
    table = read_log_table(path, _REQUIRED)
    cells = {name: table.cells(name) for name in table.columns}
    for name in (*_NAMES, "source", "source_hash"):
        column = cells.get(name, [None] * table.rows)
        cells[name] = ["" if cell is None else str(cell) for cell in column]

    def record(row: int) -> LogRecord:
        return LogRecord(path, row + 1, {name: cells[name][row] for name in cells}, "row")

    whole_hash = file_hash(path)
    by_source: dict[tuple[str, str], list[int]] = {}
    for row in range(table.rows):
        source = cells["source"][row] or str(path)
        own_hash = whole_hash if source == str(path) else ""
        by_source.setdefault((source, cells["source_hash"][row] or own_hash), []).append(row)
    builder, runs = HistoryBuilder(), OccupancyBuilder()
    for file, ((source, data_hash), rows) in enumerate(by_source.items()):
        counts = FileCounts(path=source, data_hash=data_hash, unit="events", total=len(rows))
        is_run = [cells["kind"][row] == RUN for row in rows]
        for run in map(record, compress(rows, is_run)):
            start_s, end_s = _times(run, ("start_s", "recovered_s"))
            run.read("node", count_hosts)
            names = (run.fields["node"], run.fields["job"], run.fields["cause"].upper())
            runs.add((start_s, end_s), names, file, _line(run))
            counts.ignore("run of a job", run.number)
        for event in map(record, compress(rows, map(not_, is_run))):
            builder.add(_event(event))
            counts.parsed += 1
        builder.end_file(counts)
    return builder.close(runs.close())


def _line(record: LogRecord) -> int:
    line = record.get("line")
    return line if isinstance(line, int) else record.number


def _event(record: LogRecord) -> Event:
    names: dict[str, Any] = {name: record.fields[name] for name in _NAMES}
    for name, rule in _RULES.items():
        rule.read(names[name], f"log '{record.path}', row {record.number}, column '{name}'")
    start_s, detected_s, recovered_s = _times(record, _TIMES)
    action = names["action"]
    if action and action not in ACTIONS:
        problem = f"{repr_for_error(action)} is not one of {', '.join(ACTIONS)}"
        raise record.wrong(problem + did_you_mean(action, ACTIONS), "action")
    return Event(
        start_s=start_s,
        detected_s=detected_s,
        recovered_s=recovered_s,
        line=_line(record),
        **names,
    )


def _times(record: LogRecord, names: tuple[str, ...]) -> list[float]:
    """Return times [s since 1970-01-01 UTC], the start first; NaN where not recorded."""
    times = [NOT_TOLD if record.get(name) is None else record.read(name, _time_s) for name in names]
    if math.isnan(times[0]):
        raise record.wrong("is empty", "start_s")
    for name, time_s in zip(names, times, strict=True):
        if time_s < times[0]:
            raise record.wrong("is before start_s", name)
    return times


def _time_s(cell: Any) -> float:  # noqa: ANN401 - any cell
    if isinstance(cell, float) and math.isnan(cell):
        return NOT_TOLD
    with contextlib.suppress(ValueError):
        cell = float(cell) if isinstance(cell, str) else cell
    return epoch_seconds(cell, None)
