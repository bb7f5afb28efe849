"""Tables read in blocks of rows: one pass finds columns and their types, the next yields rows.

Python's `csv` reads all others, and says what is wrong with a file that Arrow cannot read.
"""

from __future__ import annotations

import contextlib
import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np

from perfatlas.files.arrow_buffers import load_arrow
from perfatlas.files.dictionary_cells import DictionaryCells
from perfatlas.files.parquet import parquet_blocks, parquet_names, sized_tables
from perfatlas.files.regular import check_regular
from perfatlas.files.text import csv_rows, jsonl_rows, open_text
from perfatlas.quantities import InvalidSpecError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    CellReader = Callable[[str], float | None]

MIN_BYTES: Final = 1 << 20  # loading Arrow takes as long as reading as much with Python
CHUNK_BYTES: Final = 1 << 20
_GZIP: Final = b"\x1f\x8b"
_SPECIAL: Final = (b'"', b"\r", b"\0")  # that a line can be without


def is_unquoted(path: Path) -> bool:
    """Return whether a CSV file is long, and has no cell that needs the rules of quoting."""
    if path.stat().st_size < MIN_BYTES:
        return False
    with path.open("rb") as file:
        chunk = file.read(CHUNK_BYTES)
        if chunk.startswith((_GZIP, b"\n")):
            return False
        while chunk and not any(special in chunk for special in _SPECIAL):
            chunk = file.read(CHUNK_BYTES)
    return not chunk


def unquoted_blocks(
    path: Path, names: Sequence[str], size: int, start: int = 0
) -> Iterator[dict[str, DictionaryCells]]:
    """Yield columns of texts of at most `size` rows.

    Args:
        path: A file that `is_unquoted`.
    """
    pa = load_arrow()
    csv = load_arrow("csv")
    texts = csv.ConvertOptions(
        column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=False
    )
    reading = csv.ReadOptions(use_threads=False, block_size=CHUNK_BYTES)
    quoting = csv.ParseOptions(quote_char=False)
    with csv.open_csv(path, reading, quoting, texts) as reader:
        if reader.schema.names != list(names):
            raise ValueError(f"{path} has other columns")
        for table in sized_tables(reader, size, start):
            yield {name: _coded(table[name]) for name in names}


def _coded(column: Any) -> DictionaryCells:  # noqa: ANN401 - an Arrow column
    coded = column.combine_chunks().dictionary_encode()
    codes_N = np.asarray(np.from_dlpack(coded.indices), np.int32)
    return DictionaryCells(values=tuple(coded.dictionary.to_pylist()), codes_N=codes_N)


Item = TypeVar("Item")

INT64_DIGITS: Final = 18  # all integers with this many digits fit in 64 bits
SCANNED_ROWS: Final = 8192  # rows that the first pass holds at a time


@dataclass(frozen=True, kw_only=True)
class TableSource:
    """A table file whose columns are known, to be read in blocks."""

    path: Path
    suffix: str  # Its format: .csv, .jsonl or .parquet
    names: tuple[str, ...]  # Columns in file order
    rows: int  # Number of rows
    # What reads the cells of CSV columns of which all cells are numbers
    readers: Mapping[str, CellReader]
    # JSON Lines columns with cells of more than one type; numbers are one type
    mixed: frozenset[str]
    unquoted: bool = False  # Whether Arrow reads the file, a long CSV file without quotes

    def blocks(self, size: int, start: int = 0) -> Iterator[dict[str, Any]]:
        """Yield columns of `size` rows, fewer in the last block.

        They are lists, Arrow columns of Parquet, or `DictionaryCells` of long CSV files.

        A table without rows is one block without rows.

        Raises:
            InvalidSpecError: The file changed since its columns were found.
        """
        if self.suffix == ".parquet":
            yield from parquet_blocks(self.path, size, start)
        elif self.unquoted:
            yield from self._unquoted_blocks(size, start)
        elif self.rows:
            yield from self._text_blocks(size, start)
        else:
            yield {name: [] for name in self.names}

    def _unquoted_blocks(self, size: int, start: int) -> Iterator[dict[str, Any]]:
        try:
            for block in unquoted_blocks(self.path, self.names, size, start):
                yield {
                    name: cells.mapped(_cell_reader(self.readers.get(name)))
                    for name, cells in block.items()
                }
        except (OSError, ValueError) as problem:
            raise InvalidSpecError(f"table '{self.path}' changed while it was read") from problem

    def _text_blocks(self, size: int, start: int) -> Iterator[dict[str, Any]]:
        with opened_table(self.path) as text:
            if self.suffix == ".csv":
                rows = itertools.islice(csv_rows(text, self.path), 1 + start, None)
                for block in _chunks(rows, size):
                    yield csv_columns(self.names, block, self.readers)
            else:
                objects = itertools.islice(jsonl_rows(text, self.path), start, None)
                for items in _chunks(objects, size):
                    yield {name: [row.get(name) for row in items] for name in self.names}


@contextlib.contextmanager
def opened_table(path: str | Path) -> Iterator[Any]:
    """Open a table of text; errors of the file name it."""
    try:
        with open_text(path, "table") as text:
            yield text
    except UnicodeDecodeError as problem:
        raise InvalidSpecError(f"table '{path}' is not UTF-8 text: {problem.reason}") from problem
    except OSError as problem:
        raise InvalidSpecError(f"cannot read table '{path}': {problem.strerror}") from problem


def scan_table(path: Path, suffix: str) -> TableSource:
    """Return a table with its columns found and every row checked.

    Args:
        suffix: Its format: .csv, .jsonl or .parquet.
    """
    check_regular(path, "table")
    kinds: dict[str, set[type]] = {}  # types of the JSON cells of each column
    readers: dict[str, CellReader] = {}
    unquoted = False
    if suffix == ".parquet":
        names, rows = parquet_names(path)
    elif suffix == ".jsonl":
        rows = 0
        with opened_table(path) as text:
            for row in jsonl_rows(text, path):
                rows += 1
                for name, cell in row.items():
                    found = kinds.setdefault(name, set())
                    if cell is not None:
                        found.add(type(cell))
        names = list(kinds)
    else:
        with opened_table(path) as text:
            records = csv_rows(text, path)
            names = next(records, [])
            if is_unquoted(path):
                with contextlib.suppress(ValueError):  # Python says what is wrong
                    blocks = unquoted_blocks(path, names, SCANNED_ROWS)
                    rows, readers = _number_readers(names, map(_distinct, blocks))
                    unquoted = True
            if not unquoted:
                chunks = _chunks(records, SCANNED_ROWS)
                columns = ((len(chunk), zip(*chunk, strict=True)) for chunk in chunks)
                rows, readers = _number_readers(names, columns)
    if not names:
        raise InvalidSpecError(f"table '{path}' has no columns; the first line names them")
    numbers = ({int, float}, {int}, {float})
    return TableSource(
        path=path,
        suffix=suffix,
        names=tuple(names),
        rows=rows,
        readers=readers,
        mixed=frozenset(n for n, kind in kinds.items() if len(kind) > 1 and kind not in numbers),
        unquoted=unquoted,
    )


def _distinct(block: Mapping[str, DictionaryCells]) -> tuple[int, Iterable[Sequence[str]]]:
    """Return the number of rows, and the texts of each column."""
    columns = list(block.values())
    return len(columns[0]), (cells.values for cells in columns)


def _number_readers(
    names: Sequence[str], blocks: Iterable[tuple[int, Iterable[Sequence[str]]]]
) -> tuple[int, dict[str, CellReader]]:
    """Return the number of rows, and what reads the columns whose cells are all numbers."""
    fitting: dict[str, list[CellReader]] = {name: [_plain_int, _plain_float] for name in names}
    rows = 0
    for count, columns in blocks:
        rows += count
        for name, texts in zip(names, columns, strict=True):
            if fitting[name]:
                fitting[name] = _fitting(texts, fitting[name])
    return rows, {name: readers[0] for name, readers in fitting.items() if readers}


def csv_columns(
    names: Sequence[str],
    rows: Sequence[Sequence[str]],
    readers: Mapping[str, CellReader] | None = None,
) -> dict[str, list[Any]]:
    """Return columns of CSV records: numbers, or text; None if empty.

    Args:
        readers: Reader of each column of numbers; by default a column is one if all its cells are
            numbers in canonical spelling. "007", "1e3" and "0.90" stay text, so that they are
            written back unchanged.
    """
    columns: dict[str, list[Any]] = {}
    cells_of = zip(*rows, strict=True) if rows else (() for _ in names)
    for name, cells in zip(names, cells_of, strict=True):
        if readers is None:
            read = next(iter(_fitting(cells, [_plain_int, _plain_float])), None)
        else:
            read = readers.get(name)
        if read is None:
            columns[name] = [cell or None for cell in cells]
        else:
            numbers = {text: read(text) for text in set(cells) if text}
            columns[name] = [numbers.get(cell) for cell in cells]
    return columns


def _fitting(cells: Iterable[str], readers: Sequence[CellReader]) -> list[CellReader]:
    texts = [text for text in set(cells) if text]
    return [read for read in readers if all(read(text) is not None for text in texts)]


def _cell_reader(read: CellReader | None) -> Callable[[str], Any]:
    """Return the function from the text of a CSV cell to its value, None if empty."""
    if read is None:
        return lambda text: text or None
    return lambda text: read(text) if text else None


def _chunks(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    iterator = iter(items)
    while chunk := list(itertools.islice(iterator, size)):
        yield chunk


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
