"""Tables in CSV, Parquet and JSON Lines; unknown columns survive reading and writing unchanged.

The text is the one that Python's `csv` and `repr` give, so that a table does not depend on its
length.

Shape legend: N rows.
"""

from __future__ import annotations

import csv
import io
import json
import math
import sys
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.files.arrow_buffers import arrow_numbers, arrow_texts, load_arrow
from perfatlas.files.atomic import atomic_file
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
from perfatlas.files.text import csv_rows, jsonl_rows
from perfatlas.quantities import InvalidSpecError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

# Loading Arrow takes as long as writing this many numbers one by one.
MANY_NUMBERS: Final = 400_000
# Python and Arrow write numbers between these without an exponent.
MIN_PLAIN_NUMBER: Final = 1e-4
MAX_PLAIN_NUMBER: Final = 1e10
MAX_WHOLE_NUMBER: Final = 1e15  # whole numbers below are written as integers with ".0"


def is_long(columns: Mapping[str, Sequence[Any]]) -> bool:
    """Return whether columns have so many numbers that Arrow writes them faster."""
    numbers = sum(len(cells) for cells in columns.values() if isinstance(cells, NumberCells))
    return numbers >= (1 if numbers and "pyarrow" in sys.modules else MANY_NUMBERS)


def csv_rows_text(columns: Mapping[str, Sequence[Any]]) -> str:
    """Return the rows of columns as CSV, without the header.

    Args:
        columns: Cells by column name, of equal length: `NumberCells`, lists or Arrow columns.
    """
    texts = [_texts(cells) for cells in columns.values()]
    texts[-1] = _joined([texts[-1]], "\n")
    rows = texts[0] if len(texts) == 1 else _joined(texts, ",")
    data = rows.buffers()[2]
    return bytes(data).decode() if data is not None else ""


def _joined(texts: Sequence[Any], between: str) -> Any:  # noqa: ANN401 - Arrow arrays
    """Return texts joined row by row; one column gets `between` at its end."""
    pc = load_arrow("compute")
    end = [_scalar("")] if len(texts) == 1 else []
    return pc.binary_join_element_wise(*texts, *end, _scalar(between))


def _scalar(text: str) -> Any:  # noqa: ANN401 - an Arrow scalar
    """Return a text; `pyarrow.scalar` would import pandas."""
    return arrow_texts([text])[0]


def _texts(cells: Sequence[Any]) -> Any:  # noqa: ANN401 - an Arrow array of large_string
    if isinstance(cells, NumberCells):
        return _float_texts(cells.values_N) if cells.kind is float else _arrow_texts(cells.arrow())
    if isinstance(cells, DictionaryCells):
        texts = arrow_texts([_quoted(value) for value in cells.values])
        return texts.take(arrow_numbers(cells.codes_N.astype(np.int64)))
    plain = plain_cells(cells)
    nested = any(issubclass(kind, (dict, list)) for kind in set(map(type, plain)))
    quoted = _quoted if nested else lru_cache(None, typed=True)(_quoted)
    return arrow_texts(list(map(quoted, plain)))


def _arrow_texts(numbers: Any) -> Any:  # noqa: ANN401 - Arrow arrays
    pa = load_arrow()
    pc = load_arrow("compute")
    return pc.fill_null(numbers.cast(pa.large_string()), _scalar(""))


def _float_texts(values_N: NDArray[np.float64]) -> Any:  # noqa: ANN401 - an Arrow array
    """Return numbers as `repr` writes them, "" if they are not finite."""
    pc = load_arrow("compute")
    finite_N = np.isfinite(values_N)
    kept_N = np.where(finite_N, values_N, 0.0)
    size_N = np.abs(kept_N)
    whole_N = finite_N & (size_N == np.floor(size_N)) & (size_N < MAX_WHOLE_NUMBER)
    whole_N &= ~((size_N == 0.0) & np.signbit(kept_N))
    texts = _arrow_texts(arrow_numbers(values_N, ~finite_N | whole_N))
    if whole_N.any():
        whole = _arrow_texts(arrow_numbers(np.where(whole_N, kept_N, 0.0).astype(np.int64)))
        texts = pc.if_else(arrow_numbers(whole_N), _joined([whole], ".0"), texts)
    apart_N = finite_N & ~whole_N & ((size_N < MIN_PLAIN_NUMBER) | (size_N >= MAX_PLAIN_NUMBER))
    if apart_N.any():
        others = arrow_texts([repr(value) for value in values_N[apart_N].tolist()])
        texts = pc.replace_with_mask(texts, arrow_numbers(apart_N), others)
    return texts


def _quoted(cell: object) -> str:
    """Return a cell as a CSV file has it."""
    if cell is None or (isinstance(cell, float) and not np.isfinite(cell)):
        return ""
    if type(cell) in (int, float):
        return repr(cell)
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerow([csv_cell(cell), ""])
    # a lone surrogate, which UTF-8 cannot encode, becomes its escape
    return text.getvalue()[:-2].encode("utf-8", "backslashreplace").decode()


def csv_cell(cell: object) -> object:
    """Return a cell that `csv` writes as it is, booleans and nested values as JSON."""
    if isinstance(cell, (bool, dict, list)):
        return json.dumps(cell, ensure_ascii=False, default=str)
    return cell


FORMATS: Final = (".csv", ".parquet", ".jsonl")
TEXT_FORMATS: Final = (".csv", ".jsonl")


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table as read, each column in a lossless form."""

    # Cells by column name, in file order. CSV gives text, or numbers if all cells are numbers in
    # canonical spelling; JSON Lines gives JSON values; Parquet gives Arrow columns.
    columns: Mapping[str, Any]
    rows: int  # Number of rows

    def cells(self, name: str) -> list[Any]:
        """Return the cells of a column as plain Python values, None if empty."""
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
        columns = read_parquet(path)
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
    """
    return scan_table(Path(path), table_format(unpacked_name(path)))


def _finite_or_arrow(columns: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: cells
        if is_arrow(cells) or isinstance(cells, (NumberCells, DictionaryCells))
        else _finite_cells(cells)
        for name, cells in columns.items()
    }


def _finite_cells(cells: Sequence[Any]) -> list[Any]:
    """Return plain cells, None for floats that are not finite."""
    plain = plain_cells(cells)
    typed = isinstance(cells, (NumberCells, DictionaryCells))
    if typed or not any(issubclass(kind, float) for kind in set(map(type, plain))):
        return plain
    return [None if isinstance(c, float) and not math.isfinite(c) else c for c in plain]


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
        cells = [map(csv_cell, _finite_cells(column)) for column in block.values()]
        writer.writerows(zip(*cells, strict=True))
        yield text.getvalue()


def _jsonl_text(block: Mapping[str, Any]) -> str:
    # ASCII: some readers treat U+2028 and similar characters as line ends
    encode = json.JSONEncoder(default=str).encode
    rows = zip(*map(_finite_cells, block.values()), strict=True)
    return "".join(encode(dict(zip(block, row, strict=True))) + "\n" for row in rows)
