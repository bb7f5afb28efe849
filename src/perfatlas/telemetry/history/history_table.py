"""A history as a table in CSV, JSON Lines or Parquet, to inspect, edit, join and fit."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from perfatlas.files import Text, file_hash, read_table, write_table
from perfatlas.quantities import InvalidSpecError, did_you_mean
from perfatlas.telemetry.history.history import KINDS, NOT_TOLD, Event, History, HistoryBuilder
from perfatlas.telemetry.reading import FileCounts, epoch_seconds, refuse

if TYPE_CHECKING:
    from pathlib import Path

_TIMES: Final = ("start_s", "detected_s", "recovered_s")
_NAMES: Final = ("component", "cause", "kind", "node", "device", "job")
_KIND: Final = Text(choices=KINDS)
_NAMED: Final = Text(empty=False, longest=10_000, expected="a name")
_REQUIRED: Final = ("start_s", "component", "cause", "kind")


def write_history(path: str | Path, history: History) -> None:
    """Write a history as a table: one row per event, with its log and line.

    Args:
        path: The table; its extension determines the format.
        history: The history.

    Raises:
        InvalidSpecError: The extension is unknown or the file cannot be written.
    """
    names = {name: getattr(history, name).text() for name in _NAMES}
    files = [history.files[index] for index in history.file_E.tolist()]
    times = {name: getattr(history, f"{name}_E").tolist() for name in _TIMES}
    columns = {
        **times,
        **names,
        "source": [file.path for file in files],
        "source_hash": [file.data_hash for file in files],
        "line": history.line_E.tolist(),
    }
    write_table(path, columns)


def read_history(path: str | Path) -> History:
    """Return the history in a table, written by `write_history` or by other tools.

    Args:
        path: A table with the columns start_s, component, cause and kind, and optionally
            detected_s, recovered_s, node, device, job, source, source_hash and line. Times are in
            seconds since 1970-01-01 UTC, or ISO 8601 text with time zone.

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
    builder = HistoryBuilder()
    for (source, data_hash), rows in by_source.items():
        for row in rows:
            builder.add(_event(path, cells, row))
        builder.end_file(_counts(source, data_hash, len(rows)))
    return builder.close()


def _counts(source: str, data_hash: str, rows: int) -> FileCounts:
    return FileCounts(
        path=source,
        data_hash=data_hash,
        unit="events",
        total=rows,
        parsed=rows,
        merged={},
        ignored={},
        repaired={},
        first={},
    )


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
    line = cells["line"][row] if "line" in cells else row + 1
    return Event(
        start_s=start_s,
        component=_text(cells, "component", row),
        cause=_text(cells, "cause", row),
        kind=kind,
        line=line if isinstance(line, int) else row + 1,
        node=_text(cells, "node", row),
        device=_text(cells, "device", row),
        job=_text(cells, "job", row),
        detected_s=detected_s,
        recovered_s=recovered_s,
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
