"""Parquet through pyarrow, which is imported only when a Parquet file is used."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from perfatlas.files.atomic import atomic_file
from perfatlas.files.number_cells import NumberCells
from perfatlas.quantities import InvalidSpecError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path


def is_arrow(column: object) -> bool:
    """Return whether a column is an Arrow column, without importing pyarrow.

    Args:
        column: Cells in any form.
    """
    arrow = sys.modules.get("pyarrow")
    return arrow is not None and isinstance(column, (arrow.Array, arrow.ChunkedArray))


def read_parquet(path: str | Path) -> dict[str, Any]:
    """Return the columns of a Parquet file as Arrow columns with their types.

    Args:
        path: The file.

    Raises:
        InvalidSpecError: The file is not Parquet, or has duplicate column names.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            table = file.read()
    except pa.ArrowException as problem:
        raise InvalidSpecError(f"table '{path}' is not Parquet: {problem}") from problem
    names = table.column_names
    repeated = {name for name in names if names.count(name) > 1}
    if repeated:
        raise InvalidSpecError(f"table '{path}' has two columns named {min(repeated)!r}")
    return dict(zip(names, table.columns, strict=True))


def write_parquet(path: str | Path, columns: Mapping[str, Any]) -> None:
    """Write columns to a Parquet file (zstd) atomically.

    Args:
        path: The file.
        columns: Cells by column name: lists, `NumberCells` or Arrow columns of equal length.

    Raises:
        InvalidSpecError: A list mixes types, or the file cannot be written.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    arrays = {}
    for name, cells in columns.items():
        try:
            arrays[name] = _arrow(cells)
        except (pa.ArrowException, OverflowError) as problem:
            raise InvalidSpecError(
                f"column {name!r} cannot be a Parquet column, which has one type: {problem}; "
                "write .csv or .jsonl instead"
            ) from problem
    table = pa.table(arrays)
    with atomic_file(path) as scratch:
        try:
            pq.write_table(table, scratch, compression="zstd")
        except pa.ArrowException as problem:
            raise InvalidSpecError(f"cannot write '{path}' as Parquet: {problem}") from problem


def _arrow(cells: Any) -> Any:  # noqa: ANN401 - an Arrow column
    import pyarrow as pa

    if isinstance(cells, NumberCells):
        return cells.arrow()
    return cells if is_arrow(cells) else pa.array(cells)


def plain_cells(column: Sequence[Any]) -> list[Any]:
    """Return cells as plain Python values: numbers, text, booleans, None, lists, dicts.

    Args:
        column: A list, returned unchanged, or an Arrow column, whose dates, decimals and byte
            strings are returned as text.
    """
    if not is_arrow(column):
        return list(column)
    import pyarrow as pa

    arrow: Any = column
    if pa.types.is_dictionary(arrow.type):
        arrow = arrow.cast(arrow.type.value_type)
    if pa.types.is_temporal(arrow.type) or pa.types.is_decimal(arrow.type):
        arrow = arrow.cast(pa.string())
    cells: list[Any] = arrow.to_pylist()
    if pa.types.is_nested(arrow.type):
        return [json.loads(json.dumps(cell, default=str)) for cell in cells]
    if pa.types.is_binary(arrow.type) or pa.types.is_large_binary(arrow.type):
        return [None if cell is None else cell.decode("utf-8", "replace") for cell in cells]
    return cells
