"""Tables in CSV, Parquet and JSON Lines; unknown columns survive reading and writing unchanged."""

from __future__ import annotations

import csv
import io
import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from perfatlas.files.atomic import atomic_file
from perfatlas.files.csv_text import csv_cell, csv_rows_text, is_long
from perfatlas.files.dictionary_cells import DictionaryCells
from perfatlas.files.number_cells import NumberCells
from perfatlas.files.parquet import (
    arrow_column,
    is_arrow,
    plain_cells,
    read_parquet,
    write_parquet,
)
from perfatlas.files.regular import check_regular
from perfatlas.files.table_source import TableSource, csv_columns, opened_table, scan_table
from perfatlas.files.table_text import csv_rows, jsonl_rows
from perfatlas.quantities import InvalidSpecError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

FORMATS: Final = (".csv", ".parquet", ".jsonl")
TEXT_FORMATS: Final = (".csv", ".jsonl")


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
    check_regular(path, "table")
    if suffix == ".parquet":
        try:
            columns = read_parquet(path)
        except OSError as problem:
            raise InvalidSpecError(f"cannot read table '{path}': {problem.strerror}") from problem
    else:
        with opened_table(path) as text:
            if suffix == ".csv":
                header, *body = list(csv_rows(text, path)) or [[]]
                columns = csv_columns(header, body)
            else:
                columns = _jsonl_columns(list(jsonl_rows(text, path)))
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
    if table_format(path) == ".parquet":  # asks twice: convert the cells once
        columns = {
            name: arrow_column(name, cells) for name, cells in _finite_or_arrow(columns).items()
        }
    write_blocks(path, lambda: [columns])


def write_blocks(path: str | Path, blocks: Callable[[], Iterable[Mapping[str, Any]]]) -> None:
    """Write blocks of columns as one CSV, Parquet or JSON Lines file atomically.

    Args:
        path: The file; its extension selects the format.
        blocks: Returns the blocks, all with the same columns in the same order; Parquet asks for
            them twice. Cells are as in `write_table`.

    Raises:
        InvalidSpecError: As for `write_table`.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from perfatlas.files import write_blocks
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder) / "a.csv"
        ...     write_blocks(path, lambda: [{"tp": [1, 2]}, {"tp": [4]}])
        ...     path.read_text().split()
        ['tp', '1', '2', '4']
    """
    suffix = table_format(path)
    if suffix == ".parquet":
        write_parquet(path, lambda: map(_finite_or_arrow, blocks()))
        return
    texts = _csv_texts(blocks()) if suffix == ".csv" else map(_jsonl_text, blocks())
    with (
        atomic_file(path) as scratch,
        # a lone surrogate, which UTF-8 cannot encode, becomes its escape
        scratch.open("w", encoding="utf-8", errors="backslashreplace", newline="") as file,
    ):
        file.writelines(texts)


def scan_source(path: str | Path) -> TableSource:
    """Return a table to be read in blocks, its columns found and its rows checked.

    Args:
        path: The file, as for `read_table`.

    Raises:
        InvalidSpecError: As for `read_table`.
    """
    return scan_table(Path(path), table_format(unpacked_name(path)))


def _finite_or_arrow(columns: Mapping[str, Any]) -> dict[str, Any]:
    return {n: c if _is_typed(c) else _finite_cells(c) for n, c in columns.items()}


def _is_typed(cells: Sequence[Any]) -> bool:
    return is_arrow(cells) or isinstance(cells, (NumberCells, DictionaryCells))


def _finite_cells(cells: Sequence[Any]) -> list[Any]:
    if isinstance(cells, (NumberCells, DictionaryCells)):
        return cells.plain()
    if not any(issubclass(kind, float) for kind in set(map(type, cells))):
        return list(cells)
    return [None if isinstance(c, float) and not math.isfinite(c) else c for c in cells]


def _plain_columns(columns: Mapping[str, Any]) -> dict[str, list[Any]]:
    return {
        name: _finite_cells(plain_cells(column) if is_arrow(column) else column)
        for name, column in columns.items()
    }


def _jsonl_columns(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: [row.get(name) for row in rows] for name in names}


def _csv_texts(blocks: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    for number, block in enumerate(blocks):
        text = io.StringIO(newline="")
        writer = csv.writer(text, lineterminator="\n")
        if number == 0:
            writer.writerow(block)
        if is_long(block):
            yield text.getvalue() + csv_rows_text(block)
            continue
        cells = [_csv_cells(column) for column in _plain_columns(block).values()]
        writer.writerows(zip(*cells, strict=True))
        yield text.getvalue()


def _csv_cells(column: Sequence[Any]) -> list[Any]:
    return [csv_cell(cell) for cell in column]


def _jsonl_text(block: Mapping[str, Any]) -> str:
    columns = _plain_columns(block)
    names = list(columns)
    # ASCII: some readers treat U+2028 and similar characters as line ends
    encode = json.JSONEncoder(default=str).encode
    rows = zip(*columns.values(), strict=True)
    return "".join(encode(dict(zip(names, row, strict=True))) + "\n" for row in rows)
