"""All rows of a run as one table file, a block at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from perfatlas.files import write_blocks
from perfatlas.quantities import UsageError, counted

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from perfatlas.studies.run_folder import RunFolder

LAST: Final = ("meets_constraints", "warnings", "error_code", "error")  # columns


def run_blocks(run: RunFolder) -> Iterator[dict[str, Any]]:
    """Yield the blocks of a complete run as Arrow columns, all with the same columns.

    Raises:
        UsageError: The run is not complete.
        InvalidSpecError: A block is missing or damaged.
    """
    import pyarrow as pa

    schema = run_schema(run)
    for number in range(run.describe()["blocks"]):
        table = run.read_block(number)
        names = set(table.column_names)
        yield {
            one.name: table.column(one.name).cast(one.type)
            if one.name in names
            else pa.nulls(table.num_rows, one.type)
            for one in schema
        }


def run_schema(run: RunFolder) -> Any:  # noqa: ANN401 - an Arrow schema
    """Return the columns of a complete run with types that fit all its blocks.

    Raises:
        UsageError: The run is not complete.
        InvalidSpecError: A block is missing or damaged.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    described = run.describe()
    if run.summary() is None:
        kept = sum(run.block_path(number).exists() for number in range(described["blocks"]))
        raise UsageError(
            f"run {run.id} is not complete: {kept:,} of {counted(described['blocks'], 'block')};"
            " continue it with `perfatlas sweep STUDY --resume`"
        )
    schemas = []
    for number in range(described["blocks"]):
        if run.stats(number) is None:
            run.read_block(number)  # raises
        schemas.append(pq.read_schema(run.block_path(number)).remove_metadata())
    schema = pa.unify_schemas(schemas, promote_options="permissive")
    order = [name for name in schema.names if name not in LAST]
    return pa.schema([schema.field(name) for name in (*order, *LAST) if name in schema.names])


def export_run(run: RunFolder, path: Path) -> None:
    """Write all rows of a complete run as CSV, Parquet or JSON Lines.

    Args:
        path: The file; its extension selects the format.

    Raises:
        UsageError: The run is not complete.
        InvalidSpecError: A block is damaged, or the file cannot be written.
    """
    run_schema(run)
    write_blocks(path, lambda: run_blocks(run))
