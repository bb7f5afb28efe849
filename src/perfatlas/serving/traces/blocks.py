"""Read trace files in blocks of whole lines, with bounded memory for any file size.

A block provides its rows as an Arrow table, parsed in compiled code, and as Python mappings with
line numbers. The mappings are used only if the table cannot be read, to locate the invalid line.
"""

from __future__ import annotations

import contextlib
import csv
import gzip
import json
import zlib
from collections import Counter
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, NamedTuple, cast

from perfatlas.files import check_regular, load_arrow
from perfatlas.quantities import InvalidSpecError, did_you_mean, repr_for_error

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import pyarrow as pa

BLOCK_BYTES: Final = 1 << 23
MAX_LINE_BYTES: Final = 1 << 26
_MAX_LISTS: Final = 64  # per row, for Arrow to read it
_GZIP: Final = b"\x1f\x8b"
_DAMAGED: Final = (EOFError, zlib.error, gzip.BadGzipFile)
_SIGNATURES: Final = {
    b"\x28\xb5\x2f\xfd": "zstd-compressed; decompress it first (zstd -d)",
    b"PK\x03\x04": "a zip archive; unpack it first",
    b"PAR1": "a Parquet file; name it .parquet",
    b"version https://git-lfs": "a Git LFS pointer; fetch the data first (git lfs pull)",
}


class Block(NamedTuple):
    """Consecutive rows of a trace."""

    row_word: str  # Word for a row in messages: line or row
    first: int  # Number of the first row
    # Returns the rows as an Arrow table with the requested columns, one row per line from `first`
    # on; None if that is not possible
    table: Callable[[], pa.Table | None]
    # Yields number and cells of each non-blank row
    rows: Callable[[], Iterator[tuple[int, Mapping[str, object]]]]


def refuse(path: str | Path, position: str, problem: str) -> InvalidSpecError:
    """Return the error for a location in a trace.

    Args:
        position: Line or row and its number, "" for the whole file.
    """
    where = f", {position}" if position else ""
    return InvalidSpecError(f"trace '{path}'{where}: {problem}")


def jsonl_blocks(path: str | Path, schema: Mapping[str, pa.DataType]) -> Iterator[Block]:
    """Yield the objects of a JSON Lines file."""
    for first, data in line_blocks(path):
        yield Block(
            row_word="line",
            first=first,
            table=partial(_jsonl_table, data, schema),
            rows=partial(_jsonl_rows, path, first, data),
        )


def csv_blocks(
    path: str | Path, schema: Mapping[str, pa.DataType], required: Sequence[str]
) -> Iterator[Block]:
    """Yield the records of a CSV file with a header.

    Limits: Quoted cells must not contain line breaks.
    """
    names: list[str] = []
    for first, data in line_blocks(path):
        start, body = first, data
        if not names:
            header, _, body = data.partition(b"\n")
            start = first + 1
            text = _text(path, "line 1", header)
            names = [name.strip() for name in _cells(path, 1, text)]
            repeated = [name for name, count in Counter(names).items() if count > 1]
            if repeated:
                raise refuse(path, "line 1", f"duplicate column {repr_for_error(min(repeated))}")
            _check_names(path, names, required)
        if not body:
            continue
        present = {name: kind for name, kind in schema.items() if name in names}
        yield Block(
            row_word="line",
            first=start,
            table=partial(_csv_table, body, names, present),
            rows=partial(_csv_rows, path, start, body, names),
        )


def parquet_blocks(
    path: str | Path, names: Sequence[str], required: Sequence[str]
) -> Iterator[Block]:
    """Yield the rows of a Parquet file, numbered from 1."""
    pa = load_arrow()
    pq = load_arrow("parquet")
    check_regular(path, "trace")
    try:
        with pq.ParquetFile(path) as file:
            columns = file.schema_arrow.names
            _check_names(path, columns, required)
            first = 1
            for batch in file.iter_batches(columns=[n for n in names if n in columns]):
                yield Block(
                    row_word="row",
                    first=first,
                    table=partial(pa.Table.from_batches, [batch]),
                    rows=partial(_batch_rows, batch, first),
                )
                first += batch.num_rows
    except OSError as problem:
        raise refuse(path, "", f"cannot be read: {problem.strerror or problem}") from problem
    except pa.ArrowException as problem:
        raise refuse(path, "", f"is not a Parquet file: {problem}") from problem


def _batch_rows(batch: pa.RecordBatch, first: int) -> Iterator[tuple[int, Mapping[str, object]]]:
    yield from enumerate(batch.to_pylist(), first)


def line_blocks(path: str | Path) -> Iterator[tuple[int, bytes]]:
    """Yield blocks of whole lines, with the number of their first line."""
    first, rest = 1, b""
    check_regular(path, "trace")
    try:
        with _opened(path) as file:
            while data := file.read(BLOCK_BYTES):
                if len(data) < BLOCK_BYTES and not data.endswith(b"\n"):
                    data += b"\n"  # the last line of the file
                if first == 1 and not rest:
                    for signature, reason in _SIGNATURES.items():
                        if data.startswith(signature):
                            raise refuse(path, "", f"is {reason}")
                    data = data.removeprefix(b"\xef\xbb\xbf")
                cut = data.rfind(b"\n") + 1
                if cut == 0:
                    rest += data
                    if len(rest) > MAX_LINE_BYTES:
                        most = f"{MAX_LINE_BYTES >> 20} MiB"
                        problem = f"longer than {most}; one request per line is expected"
                        raise refuse(path, f"line {first}", problem)
                    continue
                block, rest = rest + data[:cut], data[cut:]
                yield first, block
                first += block.count(b"\n")
    except _DAMAGED as problem:
        text = f"truncated or damaged gzip file ({problem}); copy it again"
        raise refuse(path, f"line {first}", text) from problem
    except OSError as problem:
        raise refuse(path, "", f"cannot be read: {problem.strerror}") from problem
    if rest:
        yield first, rest + b"\n"
    elif first == 1:
        raise refuse(path, "", "is empty")


@contextlib.contextmanager
def _opened(path: str | Path) -> Iterator[BinaryIO]:
    """Open a file, decompressing gzip regardless of the file name."""
    with Path(path).open("rb") as file:
        packed = file.peek(len(_GZIP)).startswith(_GZIP)
        yield cast("BinaryIO", gzip.GzipFile(fileobj=file)) if packed else file


def _check_names(path: str | Path, names: Sequence[str], required: Sequence[str]) -> None:
    for name in required:
        if name not in names:
            raise refuse(
                path,
                "",
                f"missing column {name!r}; the file has "
                f"{', '.join(repr_for_error(n) for n in names[:12]) or 'none'}"
                f"{did_you_mean(name, names)}; required: {', '.join(required)}",
            )


def _jsonl_table(data: bytes, schema: Mapping[str, pa.DataType]) -> pa.Table | None:
    pa = load_arrow()
    pj = load_arrow("json")
    if not (_is_utf8(data) and all(map(_is_plain, data[:-1].split(b"\n")))):
        return None
    try:
        table = pj.read_json(
            pa.BufferReader(data),
            read_options=pj.ReadOptions(use_threads=False, block_size=len(data) + 1),
            parse_options=pj.ParseOptions(
                explicit_schema=pa.schema(list(schema.items())),
                unexpected_field_behavior="ignore",
            ),
        )
    except pa.ArrowException:
        return None
    return table if table.num_rows == data.count(b"\n") else None


def _is_utf8(data: bytes) -> bool:
    if data.isascii():
        return True
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _is_plain(line: bytes) -> bool:
    """Return whether a line is one object without nested objects and with few lists.

    Arrow's parser aborts the process on deep nesting and on a bare null (pyarrow 26); json does
    not.
    """
    text = line.strip()
    return (
        text.startswith(b"{")
        and text.endswith(b"}")
        and text.count(b"{") == text.count(b"}") == 1
        and text.count(b"[") <= _MAX_LISTS
    )


def _csv_table(data: bytes, names: list[str], schema: Mapping[str, pa.DataType]) -> pa.Table | None:
    pa = load_arrow()
    pc = load_arrow("csv")
    try:
        table = pc.read_csv(
            pa.BufferReader(data),
            read_options=pc.ReadOptions(
                use_threads=False, block_size=len(data) + 1, column_names=names
            ),
            convert_options=pc.ConvertOptions(
                column_types=dict(schema), include_columns=list(schema), null_values=[]
            ),
        )
    except pa.ArrowException:
        return None
    return table if table.num_rows == data.count(b"\n") else None


def _jsonl_rows(
    path: str | Path, first: int, data: bytes
) -> Iterator[tuple[int, Mapping[str, object]]]:
    for number, line in _lines(first, data):
        yield number, json_object(path, f"line {number}", line)


def json_object(path: str | Path, position: str, line: bytes) -> Mapping[str, object]:
    """Return the object in a line or file."""
    text = _text(path, position, line)
    try:
        row = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as problem:
        raise refuse(
            path,
            position,
            f"not JSON ({problem}): {repr_for_error(text.strip())}; one object per"
            f" {'line' if position else 'file'} is expected (a truncated file ends within one)",
        ) from problem
    if not isinstance(row, dict):
        raise refuse(path, position, f"{repr_for_error(row)} is not an object {{...}}")
    return row


def _csv_rows(
    path: str | Path, first: int, data: bytes, names: list[str]
) -> Iterator[tuple[int, Mapping[str, object]]]:
    for number, line in _lines(first, data):
        cells = _cells(path, number, _text(path, f"line {number}", line))
        if len(cells) != len(names):
            raise refuse(
                path,
                f"line {number}",
                f"{len(cells)} cells, but the header has {len(names)} columns: {', '.join(names)}",
            )
        yield number, dict(zip(names, cells, strict=True))


def _lines(first: int, data: bytes) -> Iterator[tuple[int, bytes]]:
    for number, line in enumerate(data.split(b"\n"), first):
        if line.strip():
            yield number, line


def _text(path: str | Path, position: str, line: bytes) -> str:
    try:
        return line.decode()
    except UnicodeDecodeError as problem:
        raise refuse(
            path, position, f"not UTF-8 text ({problem.reason}); this may not be a trace"
        ) from problem


def _cells(path: str | Path, number: int, line: str) -> list[str]:
    try:
        return next(csv.reader([line.rstrip("\r")], strict=True), [])
    except csv.Error as problem:
        raise refuse(path, f"line {number}", f"not CSV: {problem}") from problem


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not a JSON number")
