"""A history as a table in CSV, JSON Lines or Parquet, to inspect, edit, join and fit."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from perfatlas.files import Text, file_hash, read_table, write_table
from perfatlas.quantities import InvalidSpecError, did_you_mean, repr_for_error
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
from perfatlas.reliability.telemetry.reading import FileCounts, epoch_seconds, refuse

if TYPE_CHECKING:
    from pathlib import Path

_TIMES: Final = ("start_s", "detected_s", "recovered_s")
_NAMES: Final = ("component", "cause", "kind", "node", "device", "job", "action")
RUN: Final = "run"  # kind of the rows that say when nodes ran jobs; they are no events
_KIND: Final = Text(choices=KINDS)
_NAMED: Final = Text(empty=False, longest=10_000, expected="a name")
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
    table = read_table(path)
    for name in _REQUIRED:
        if name not in table.columns:
            hint = did_you_mean(name, table.columns)
            raise refuse(path, 0, f"no column {name!r}{hint}; needed: {', '.join(_REQUIRED)}")
    cells = {name: table.cells(name) for name in table.columns}
    whole_hash = file_hash(path)
    by_source: dict[tuple[str, str], list[int]] = {}
    for row in range(table.rows):
        source = _text(cells, "source", row) or str(path)
        data_hash = _text(cells, "source_hash", row)
        data_hash = data_hash or (whole_hash if source == str(path) else "")
        by_source.setdefault((source, data_hash), []).append(row)
    builder, runs = HistoryBuilder(), OccupancyBuilder()
    for file, ((source, data_hash), rows) in enumerate(by_source.items()):
        of_runs = [row for row in rows if cells["kind"][row] == RUN]
        for row in of_runs:
            start_s, end_s = (_time(path, cells, name, row) for name in ("start_s", "recovered_s"))
            if math.isnan(start_s):
                raise refuse(path, row + 1, "is empty", column="start_s", unit="row")
            if end_s < start_s:
                raise refuse(path, row + 1, "is before start_s", column="recovered_s", unit="row")
            hosts = _text(cells, "node", row)
            try:
                count_hosts(hosts)
            except InvalidSpecError as problem:
                raise refuse(path, row + 1, str(problem), column="node", unit="row") from problem
            names = (hosts, _text(cells, "job", row), _text(cells, "cause", row).upper())
            runs.add((start_s, end_s), names, file, _line(cells, row))
        for row in rows:
            if cells["kind"][row] != RUN:
                builder.add(_event(path, cells, row))
        builder.end_file(_counts(source, data_hash, len(rows), of_runs))
    return builder.close(runs.close())


def _counts(source: str, data_hash: str, rows: int, runs: list[int]) -> FileCounts:
    added = {"run of a job": len(runs)} if runs else {}
    return FileCounts(
        path=source,
        data_hash=data_hash,
        unit="events",
        total=rows,
        parsed=rows - len(runs),
        merged={},
        ignored=added,
        repaired={},
        first={"run of a job": runs[0] + 1} if runs else {},
    )


def _line(cells: dict[str, list[Any]], row: int) -> int:
    line = cells["line"][row] if "line" in cells else row + 1
    return line if isinstance(line, int) else row + 1


def _event(path: str | Path, cells: dict[str, list[Any]], row: int) -> Event:
    where = f"log '{path}', row {row + 1}, column"
    kind = _KIND.read(_text(cells, "kind", row), f"{where} 'kind'")
    for name in ("component", "cause"):
        _NAMED.read(_text(cells, name, row), f"{where} '{name}'")
    start_s, detected_s, recovered_s = (_time(path, cells, name, row) for name in _TIMES)
    if math.isnan(start_s):
        raise refuse(path, row + 1, "is empty", column="start_s", unit="row")
    for name, time_s in (("detected_s", detected_s), ("recovered_s", recovered_s)):
        if time_s < start_s:
            raise refuse(path, row + 1, "is before start_s", column=name, unit="row")
    action = _text(cells, "action", row)
    if action and action not in ACTIONS:
        problem = f"{repr_for_error(action)} is not one of {', '.join(ACTIONS)}"
        problem += did_you_mean(action, ACTIONS)
        raise refuse(path, row + 1, problem, column="action", unit="row")
    return Event(
        start_s=start_s,
        component=_text(cells, "component", row),
        cause=_text(cells, "cause", row),
        kind=kind,
        line=_line(cells, row),
        node=_text(cells, "node", row),
        device=_text(cells, "device", row),
        job=_text(cells, "job", row),
        detected_s=detected_s,
        recovered_s=recovered_s,
        action=action,
    )


def _text(cells: dict[str, list[Any]], name: str, row: int) -> str:
    value = cells[name][row] if name in cells else None
    return "" if value is None else str(value)


def _time(path: str | Path, cells: dict[str, list[Any]], name: str, row: int) -> float:
    value = cells[name][row] if name in cells else None
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return NOT_TOLD
    try:
        number = float(value) if isinstance(value, str) and _is_number(value) else value
        return epoch_seconds(number, None)
    except InvalidSpecError as problem:
        raise refuse(path, row + 1, str(problem), column=name, unit="row") from problem


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
