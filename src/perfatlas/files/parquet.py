"""Parquet through pyarrow, which is imported only when a Parquet file is used."""

from __future__ import annotations

import contextlib
import json
import sys
from typing import TYPE_CHECKING, Any

from perfatlas.files.arrow_buffers import arrow_list, load_arrow
from perfatlas.files.atomic import atomic_file
from perfatlas.files.dictionary_cells import DictionaryCells
from perfatlas.files.number_cells import NumberCells
from perfatlas.files.text import refuse_repeated
from perfatlas.quantities import InvalidSpecError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path


def is_arrow(column: object) -> bool:
    """Return whether a column is an Arrow column, without importing pyarrow."""
    arrow = sys.modules.get("pyarrow")
    return arrow is not None and isinstance(column, (arrow.Array, arrow.ChunkedArray))


def read_parquet(path: str | Path) -> dict[str, Any]:
    """Return the columns of a Parquet file as Arrow columns with their types."""
    names, _ = parquet_names(path)
    with _opened(path) as file:
        table = file.read()
    return dict(zip(names, table.columns, strict=True))


def parquet_names(path: str | Path) -> tuple[list[str], int]:
    """Return the columns of a Parquet file and its number of rows, without reading cells."""
    with _opened(path) as file:
        names: list[str] = file.schema_arrow.names
        rows: int = file.metadata.num_rows
    refuse_repeated(names, path)
    return names, rows


def parquet_blocks(path: str | Path, size: int, start: int) -> Iterator[dict[str, Any]]:
    """Yield Arrow columns of at most `size` rows."""
    pa = load_arrow()
    with _opened(path) as file:
        yield from map(_columns, sized_tables(file.iter_batches(batch_size=size), size, start))
        if not file.metadata.num_rows:
            yield _columns(pa.Table.from_batches([], schema=file.schema_arrow))


def sized_tables(source: Iterable[Any], size: int, start: int) -> Iterator[Any]:
    """Yield Arrow tables of `size` rows, fewer in the last one."""
    pa = load_arrow()
    held, count, skipped = [], 0, start
    for batch in source:
        rest = batch.slice(min(skipped, batch.num_rows))
        skipped -= batch.num_rows - rest.num_rows
        held.append(rest)
        count += rest.num_rows
        while count >= size:
            table = pa.Table.from_batches(held)
            yield table.slice(0, size)
            held, count = table.slice(size).to_batches(), count - size
    if count:
        yield pa.Table.from_batches(held)


def _columns(table: Any) -> dict[str, Any]:  # noqa: ANN401 - an Arrow table
    return dict(zip(table.column_names, table.columns, strict=True))


@contextlib.contextmanager
def _opened(path: str | Path) -> Iterator[Any]:
    pa = load_arrow()
    pq = load_arrow("parquet")
    try:
        with pq.ParquetFile(path) as file:
            yield file
    except (pa.ArrowException, UnicodeDecodeError) as problem:
        raise InvalidSpecError(f"table '{path}' is not Parquet: {problem}") from problem
    except OSError as problem:
        if problem.errno:  # of the system
            text = f"cannot read table '{path}': {problem.strerror}"
        else:
            text = f"table '{path}' is damaged: {problem}; copy or write it again"
        raise InvalidSpecError(text) from problem


def write_parquet(path: str | Path, blocks: Callable[[], Iterable[Mapping[str, Any]]]) -> None:
    """Write blocks of columns to a Parquet file (zstd) atomically.

    Args:
        blocks: Returns the blocks, which are read twice: for the types of columns, and to write
            them. Cells by column name: lists, `NumberCells`, `DictionaryCells` or Arrow columns of
            equal length.
    """
    pa = load_arrow()
    pq = load_arrow("parquet")
    schema: Any = None
    for block in blocks():
        own_schema = pa.schema([(name, _arrow_type(name, cells)) for name, cells in block.items()])
        try:
            both = [own_schema] if schema is None else [schema, own_schema]
            schema = pa.unify_schemas(both, promote_options="permissive")
        except pa.ArrowException as problem:
            raise _mixed("a column", problem) from problem
    with atomic_file(path) as scratch:
        try:
            # floats are mostly distinct: a dictionary takes longer and makes the file larger
            repeated = [field.name for field in schema if not pa.types.is_floating(field.type)]
            with pq.ParquetWriter(
                scratch, schema, compression="zstd", use_dictionary=repeated
            ) as writer:
                for block in blocks():
                    columns = [
                        arrow_column(n, cells, schema.field(n).type) for n, cells in block.items()
                    ]
                    writer.write_table(pa.table(columns, schema=schema))
        except pa.ArrowException as problem:
            raise InvalidSpecError(f"cannot write '{path}' as Parquet: {problem}") from problem


def _arrow_type(name: str, cells: Any) -> Any:  # noqa: ANN401 - an Arrow type
    """Return the type of cells as an Arrow column."""
    if isinstance(cells, NumberCells):
        return cells[:0].arrow().type
    return arrow_column(name, cells.values if isinstance(cells, DictionaryCells) else cells).type


def arrow_column(name: str, cells: Any, kind: object = None) -> Any:  # noqa: ANN401 - an Arrow column
    """Return cells as an Arrow column.

    Args:
        name: The column, for messages.
        cells: A list, `NumberCells`, `DictionaryCells` or an Arrow column.
        kind: Arrow type; by default the one that fits the cells.

    Raises:
        InvalidSpecError: The cells have several types.
    """
    pa = load_arrow()
    if is_arrow(cells):
        return cells
    if isinstance(cells, NumberCells):
        return cells.arrow()
    try:
        array = arrow_list(cells)
        if array is not None and kind in (None, array.type):
            return array
        if all(cell is None for cell in cells):
            return pa.nulls(len(cells), kind)
        return pa.array(list(cells), kind)
    except UnicodeEncodeError:  # a lone surrogate, which is no text in UTF-8
        return pa.array([_encodable(cell) for cell in cells], kind)
    except (pa.ArrowException, OverflowError) as problem:
        raise _mixed(f"column {name!r}", problem) from problem


def _encodable(cell: object) -> object:
    return cell.encode("utf-8", "backslashreplace").decode() if isinstance(cell, str) else cell


def _mixed(column: str, problem: Exception) -> InvalidSpecError:
    return InvalidSpecError(
        f"{column} cannot be a Parquet column, which has one type: {problem}; write .csv or .jsonl"
        " instead"
    )


def plain_cells(column: Sequence[Any]) -> list[Any]:
    """Return cells as plain Python values: numbers, text, booleans, None, lists, dicts.

    Args:
        column: A list, returned unchanged, or an Arrow column, whose dates, decimals and byte
            strings are returned as text.
    """
    if not is_arrow(column):
        return list(column)
    pa = load_arrow()
    arrow: Any = column
    if pa.types.is_dictionary(arrow.type):
        arrow = arrow.cast(arrow.type.value_type)
    if pa.types.is_temporal(arrow.type) or pa.types.is_decimal(arrow.type):
        arrow = arrow.cast(pa.string())
    try:
        cells: list[Any] = arrow.to_pylist()
    except UnicodeDecodeError as problem:
        raise InvalidSpecError(
            f"a column of Parquet has text that is not UTF-8: {problem}"
        ) from None
    if pa.types.is_nested(arrow.type):
        return [json.loads(json.dumps(cell, default=str)) for cell in cells]
    if pa.types.is_binary(arrow.type) or pa.types.is_large_binary(arrow.type):
        return [None if cell is None else cell.decode("utf-8", "replace") for cell in cells]
    return cells
