"""Lifetimes from a table with one row per unit, such as an inventory or published study."""

from __future__ import annotations

import csv
import math
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from perfatlas.files import file_hash, read_table
from perfatlas.quantities import InvalidSpecError, counted, did_you_mean, repr_for_error
from perfatlas.reliability.telemetry.history import Lifetimes, lifetimes
from perfatlas.reliability.telemetry.reading import LogFile, Tally, refuse

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from perfatlas.reliability.telemetry.reading import FileCounts

_TRUE: Final = ("true", "t", "yes", "1")
_FALSE: Final = ("false", "f", "no", "0", "")
_TYPED: Final = (".parquet", ".jsonl")


class LifetimeColumns(NamedTuple):
    """Column names of a lifetime table.

    Args:
        age: Age at failure or at the last observation, in any unit of time.
        failed: Whether it failed at that age: true or false, yes or no, 1 or 0; empty is false.
        entry: Age at the first observation; "" where all were observed from new.
    """

    age: str
    failed: str
    entry: str = ""


def read_lifetimes(
    path: str | Path, columns: LifetimeColumns, *, where: Mapping[str, str] | None = None
) -> tuple[Lifetimes, FileCounts]:
    """Return the lifetimes in a table and its row counts.

    Args:
        path: A CSV table, plain or gzip, with a header line; or Parquet or JSON Lines, by its
            extension.
        where: Filter: required value by column, as text.

    Raises:
        InvalidSpecError: The table cannot be read, lacks a column, or a row has a wrong number of
            cells or an invalid one; the message names file, row and column.

    Limits: Quoted cells cannot contain line breaks. Rows without an age raise an error.
    """
    wanted = dict(where or {})
    needed = [name for name in (*columns, *wanted) if name]
    unit = "row" if Path(path).suffix.lower() in _TYPED else "line"
    tally, file = Tally(path=path, unit=f"{unit}s"), LogFile(path)
    rows = _typed_rows(path, needed) if unit == "row" else _text_rows(file, needed, tally)
    number = 0
    exit_L: list[float] = []
    entry_L: list[float] = []
    failed_L: list[bool] = []
    for number, row in rows:
        other = next((name for name, value in wanted.items() if row[name] != value), None)
        if other is not None:
            tally.ignore(f"{other} is not {wanted[other]}", number)
            continue
        tally.parsed += 1
        place = _Place(path, number, unit)
        exit_L.append(_age(place, columns.age, row))
        failed_L.append(_mark(place, columns.failed, row))
        entry_L.append(_age(place, columns.entry, row) if columns.entry else 0.0)
        if exit_L[-1] <= entry_L[-1]:
            first = f", first seen at {entry_L[-1]:g}" if columns.entry else ""
            raise place.wrong(
                f"last seen at {exit_L[-1]:g}{first}: observed for no time", columns.age
            )
    total = number if unit == "row" else file.count
    if not exit_L:
        picked = ", ".join(f"{name} = {value}" for name, value in wanted.items())
        raise refuse(path, 0, f"no row{f' with {picked}' if picked else ''} among {total}")
    data_hash = file_hash(path) if unit == "row" else file.data_hash
    return lifetimes(exit_L, failed_L, entry_L), tally.close(total=total, data_hash=data_hash)


class _Place(NamedTuple):
    """Position of a row."""

    path: str | Path
    number: int
    unit: str

    def wrong(self, problem: str, column: str) -> InvalidSpecError:
        return refuse(self.path, self.number, problem, column=column, unit=self.unit)


def _typed_rows(path: str | Path, needed: Sequence[str]) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield the rows of a Parquet or JSON Lines table, its cells as text."""
    table = read_table(path)
    _check_names(path, list(table.columns), needed)
    cells = {name: table.cells(name) for name in needed}
    for row in range(table.rows):
        found = {name: of[row] for name, of in cells.items()}
        yield row + 1, {name: "" if cell is None else str(cell) for name, cell in found.items()}


def _text_rows(
    file: LogFile, needed: Sequence[str], tally: Tally
) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield the rows of a CSV table, line by line."""
    names: list[str] = []
    for line in file.lines():
        if not line.text.strip():
            tally.ignore("blank", line.number)
            continue
        try:
            cells = next(csv.reader([line.text], strict=True))
        except csv.Error as problem:
            raise refuse(file.path, line.number, f"not valid CSV: {problem}") from problem
        if names:
            yield line.number, _row(file.path, line.number, names, cells, ended=line.ended)
            continue
        names = cells
        _check_names(file.path, names, needed)
        tally.ignore("header", line.number)


def _check_names(path: str | Path, names: Sequence[str], needed: Sequence[str]) -> None:
    for name in needed:
        if name not in names:
            listed = ", ".join(names[:12])
            raise refuse(path, 1, f"no column {name!r} among {listed}{did_you_mean(name, names)}")


def _row(
    path: str | Path, number: int, names: Sequence[str], cells: Sequence[str], *, ended: bool
) -> dict[str, str]:
    if len(cells) != len(names):
        why = "" if ended else "; the file is truncated"
        problem = (
            f"{counted(len(cells), 'cell')} where the header has"
            f" {counted(len(names), 'column')}{why}"
        )
        raise refuse(path, number, problem)
    return dict(zip(names, cells, strict=True))


def _age(place: _Place, name: str, row: Mapping[str, str]) -> float:
    try:
        age = float(row[name])
    except ValueError as problem:
        raise place.wrong(f"{repr_for_error(row[name])} is not an age", name) from problem
    if not (math.isfinite(age) and age >= 0.0):
        raise place.wrong(f"{repr_for_error(row[name])}: expected an age of at least 0", name)
    return age


def _mark(place: _Place, name: str, row: Mapping[str, str]) -> bool:
    mark = row[name].strip().lower()
    if mark in _TRUE or mark in _FALSE:
        return mark in _TRUE
    raise place.wrong(f"{repr_for_error(row[name])} is neither true nor false", name)
