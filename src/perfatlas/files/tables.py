"""Tables in CSV, Parquet and JSON Lines; unknown columns survive reading and writing unchanged."""

from __future__ import annotations

import csv
import io
import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from perfatlas.files.atomic import write_atomic
from perfatlas.files.csv_text import csv_cell, csv_rows_text, is_long
from perfatlas.files.number_cells import NumberCells
from perfatlas.files.parquet import is_arrow, plain_cells, read_parquet, write_parquet
from perfatlas.files.text import open_text
from perfatlas.quantities import InvalidSpecError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

FORMATS: Final = (".csv", ".parquet", ".jsonl")
TEXT_FORMATS: Final = (".csv", ".jsonl")
INT64_DIGITS: Final = 18  # all integers with this many digits fit in 64 bits


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table as read, each column in a lossless form.

    Args:
        columns: Cells by column name, in file order. CSV gives text, or numbers if all cells are
            numbers in canonical spelling; JSON Lines gives JSON values; Parquet gives Arrow
            columns.
        rows: Number of rows.
    """

    columns: Mapping[str, Any]
    rows: int

    def cells(self, name: str) -> list[Any]:
        """Return the cells of a column as plain Python values, None if empty.

        Args:
            name: A column of the table.
        """
        return plain_cells(self.columns[name])


def table_format(path: str | Path) -> str:
    """Return the table format of a file name: .csv, .parquet or .jsonl.

    Args:
        path: The file, existing or not.

    Raises:
        InvalidSpecError: The name has another extension.
    """
    suffix = Path(path).suffix.lower()
    if suffix not in FORMATS:
        hint = did_you_mean(suffix, FORMATS) if suffix else ""
        raise InvalidSpecError(
            f"table '{path}': {suffix or 'no extension'} is not a table format; "
            f"use one of {' '.join(FORMATS)}{hint}"
        )
    return suffix


def unpacked_name(path: str | Path) -> Path:
    """Return a file name without its compression suffix: table.csv for table.csv.gz.

    Args:
        path: The file.

    Example:
        >>> from perfatlas.files import unpacked_name
        >>> unpacked_name("jobs.CSV.gz").name, unpacked_name("jobs.csv").name
        ('jobs.CSV', 'jobs.csv')
    """
    name = Path(path)
    packed = name.suffix.lower() == ".gz" and name.with_suffix("").suffix.lower() in TEXT_FORMATS
    return name.with_suffix("") if packed else name


def read_table(path: str | Path) -> Table:
    """Return the table in a CSV, Parquet or JSON Lines file, selected by its extension.

    Args:
        path: The file; CSV and JSON Lines may be gzip-compressed, as table.csv.gz.

    Raises:
        InvalidSpecError: The file does not exist, does not match its extension, is truncated,
            unpacks to more than the limit, or has ragged rows or duplicate column names; the
            message gives the location.

    Limits: The whole table is held in memory.
    """
    suffix = table_format(unpacked_name(path))
    try:
        if suffix == ".parquet":
            columns = read_parquet(path)
        else:
            with open_text(path, "table") as file:
                text = file.read()
            columns = _csv_columns(text, path) if suffix == ".csv" else _jsonl_columns(text, path)
    except UnicodeDecodeError as problem:
        raise InvalidSpecError(f"table '{path}' is not UTF-8 text: {problem.reason}") from problem
    except OSError as problem:
        raise InvalidSpecError(f"cannot read table '{path}': {problem.strerror}") from problem
    if not columns:
        raise InvalidSpecError(f"table '{path}' has no columns; the first line names them")
    return Table(columns=columns, rows=len(next(iter(columns.values()))))


def write_table(path: str | Path, columns: Mapping[str, Any]) -> None:
    """Write columns as CSV, Parquet or JSON Lines atomically.

    Args:
        path: The file; its extension selects the format.
        columns: Cells by column name, of equal length: lists, `NumberCells`, or Arrow columns
            from `read_table`.
            A float that is not finite is written as an empty cell (null).

    Raises:
        InvalidSpecError: The extension is unknown, the file cannot be written, or a column mixes
            types and the format is Parquet.
    """
    suffix = table_format(path)
    if suffix == ".parquet":
        kept = {n: c if _is_typed(c) else _finite_cells(c) for n, c in columns.items()}
        write_parquet(path, kept)
        return
    if suffix == ".csv" and is_long(columns):
        header = io.StringIO(newline="")
        csv.writer(header, lineterminator="\n").writerow(columns)
        write_atomic(path, header.getvalue() + csv_rows_text(columns))
        return
    cells = {name: _finite_cells(plain_cells(column)) for name, column in columns.items()}
    write_atomic(path, _csv_text(cells) if suffix == ".csv" else _jsonl_text(cells))


def _is_typed(cells: Sequence[Any]) -> bool:
    return is_arrow(cells) or isinstance(cells, NumberCells)


def _finite_cells(cells: Sequence[Any]) -> list[Any]:
    if isinstance(cells, NumberCells):
        return cells.plain()
    return [None if isinstance(c, float) and not math.isfinite(c) else c for c in cells]


def _csv_columns(text: str, path: str | Path) -> dict[str, list[Any]]:
    try:
        rows = [row for row in csv.reader(io.StringIO(text, newline=""), strict=True) if row]
    except csv.Error as problem:
        raise InvalidSpecError(f"table '{path}' is not CSV: {problem}") from problem
    if not rows:
        return {}
    header, *body = rows
    repeated = {name for name in header if header.count(name) > 1}
    if repeated:
        raise InvalidSpecError(f"table '{path}' has two columns named {min(repeated)!r}")
    for number, row in enumerate(body, start=2):
        if len(row) != len(header):
            raise InvalidSpecError(
                f"table '{path}', record {number}: {len(row)} cells where the header names "
                f"{len(header)} columns"
            )
    cells = zip(*body, strict=True) if body else ([] for _ in header)
    return {name: _typed_cells(column) for name, column in zip(header, cells, strict=True)}


def _typed_cells(cells: Sequence[str]) -> list[Any]:
    """Return numbers if all cells are numbers in canonical spelling, else text; None if empty.

    "007", "1e3" and "0.90" stay text, so that they are written back unchanged.
    """
    for read in (_plain_int, _plain_float):
        numbers = {text: read(text) for text in set(cells) if text}
        if None not in numbers.values():
            return [numbers.get(cell) for cell in cells]
    return [cell or None for cell in cells]


def _plain_int(text: str) -> int | None:
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= INT64_DIGITS):
        return None
    return int(text) if str(int(text)) == text else None


def _plain_float(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) and repr(number) == text else None


def _jsonl_columns(text: str, path: str | Path) -> dict[str, list[Any]]:
    rows = []
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line, parse_constant=_refuse_constant)
        except (ValueError, RecursionError) as problem:
            raise InvalidSpecError(f"table '{path}', line {number}: {problem}") from problem
        if not isinstance(row, dict):
            raise InvalidSpecError(f"table '{path}', line {number}: expected an object {{...}}")
        rows.append(row)
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: [row.get(name) for row in rows] for name in names}


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not a JSON number")


def _csv_text(columns: Mapping[str, Sequence[Any]]) -> str:
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    cells = [_csv_cells(column) for column in columns.values()]
    writer.writerows(zip(*cells, strict=True))
    return text.getvalue()


def _csv_cells(column: Sequence[Any]) -> list[Any]:
    return [csv_cell(cell) for cell in column]


def _jsonl_text(columns: Mapping[str, Sequence[Any]]) -> str:
    names = list(columns)
    # ASCII: some readers treat U+2028 and similar characters as line ends
    encode = json.JSONEncoder(default=str).encode
    rows = zip(*columns.values(), strict=True)
    return "".join(encode(dict(zip(names, row, strict=True))) + "\n" for row in rows)
