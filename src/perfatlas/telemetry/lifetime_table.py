"""Lifetimes from a table of units, one row each, as an inventory or a published study has them."""

from __future__ import annotations

import csv
import math
from typing import TYPE_CHECKING, Final, NamedTuple

from perfatlas.quantities import did_you_mean, shown
from perfatlas.telemetry.counts import Tally
from perfatlas.telemetry.lifetimes import Lifetimes, lifetimes
from perfatlas.telemetry.lines import LogFile
from perfatlas.telemetry.places import refuse

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from perfatlas.telemetry.counts import FileCounts

_TRUE: Final = ("true", "t", "yes", "1")
_FALSE: Final = ("false", "f", "no", "0", "")


class LifetimeColumns(NamedTuple):
    """Which columns of a table hold what.

    Args:
        age: Age when the unit failed or was last seen, in any one unit of time.
        failed: Whether it failed then: true or false, yes or no, 1 or 0; empty is false.
        entry: Age when it was first seen; "" where all were watched from new.
    """

    age: str
    failed: str
    entry: str = ""


def read_lifetimes(
    path: str | Path, columns: LifetimeColumns, *, where: Mapping[str, str] | None = None
) -> tuple[Lifetimes, FileCounts]:
    """Return the lifetimes of the rows of a CSV table, plain or gzip, and what became of its lines.

    Args:
        path: The table; its first line names the columns.
        columns: Which hold what.
        where: Column to the value that a row must have in it.

    Raises:
        InvalidSpecError: The table cannot be read, lacks a column, or a row has more or fewer cells
            or a wrong one; the message names file, line and column.

    Limits: A quoted cell holds no line break. Rows with no age at all are refused, not dropped.
    """
    file = LogFile(path)
    tally = Tally(path=path, unit="lines")
    wanted = dict(where or {})
    names: list[str] = []
    exit_L: list[float] = []
    entry_L: list[float] = []
    failed_L: list[bool] = []
    for line in file.lines():
        if not line.text.strip():
            tally.ignore("blank", line.number)
            continue
        cells = next(csv.reader([line.text]))
        if not names:
            names = cells
            _check_names(path, names, [n for n in (*columns, *wanted) if n])
            tally.ignore("header", line.number)
            continue
        row = _row(path, line.number, names, cells, ended=line.ended)
        other = next((name for name, value in wanted.items() if row[name] != value), None)
        if other is not None:
            tally.ignore(f"{other} is not {wanted[other]}", line.number)
            continue
        tally.parsed += 1
        exit_L.append(_age(path, line.number, columns.age, row))
        failed_L.append(_mark(path, line.number, columns.failed, row))
        entry_L.append(_age(path, line.number, columns.entry, row) if columns.entry else 0.0)
    if not exit_L:
        picked = ", ".join(f"{name} = {value}" for name, value in wanted.items())
        raise refuse(path, 0, f"no row{f' with {picked}' if picked else ''} among {file.count}")
    seen = lifetimes(exit_L, failed_L, entry_L)
    return seen, tally.close(total=file.count, data_hash=file.data_hash)


def _check_names(path: str | Path, names: Sequence[str], needed: Sequence[str]) -> None:
    for name in needed:
        if name not in names:
            listed = ", ".join(names[:12])
            raise refuse(path, 1, f"no column {name!r} among {listed}{did_you_mean(name, names)}")


def _row(
    path: str | Path, number: int, names: Sequence[str], cells: Sequence[str], *, ended: bool
) -> dict[str, str]:
    if len(cells) != len(names):
        why = "" if ended else "; the file was cut off"
        problem = f"{len(cells)} cells where the header names {len(names)} columns{why}"
        raise refuse(path, number, problem)
    return dict(zip(names, cells, strict=True))


def _age(path: str | Path, number: int, name: str, row: Mapping[str, str]) -> float:
    try:
        age = float(row[name])
    except ValueError as problem:
        raise refuse(path, number, f"{shown(row[name])} is no age", column=name) from problem
    if not (math.isfinite(age) and age >= 0.0):
        raise refuse(path, number, f"{shown(row[name])} is no age of at least 0", column=name)
    return age


def _mark(path: str | Path, number: int, name: str, row: Mapping[str, str]) -> bool:
    mark = row[name].strip().lower()
    if mark in _TRUE or mark in _FALSE:
        return mark in _TRUE
    raise refuse(path, number, f"{shown(row[name])} is neither true nor false", column=name)
