"""Long CSV files read with Arrow, where every record is one line without quotes.

Python's `csv` reads all others, and says what is wrong with a file that Arrow cannot read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from perfatlas.files.arrow_buffers import dictionary_codes
from perfatlas.files.dictionary_cells import DictionaryCells
from perfatlas.files.parquet import sized_tables

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

LEAST_BYTES: Final = 1 << 20  # loading Arrow takes as long as reading as much with Python
CHUNK_BYTES: Final = 1 << 20
_GZIP: Final = b"\x1f\x8b"
_SPECIAL: Final = (b'"', b"\r", b"\0")  # that a line can be without


def is_unquoted(path: Path) -> bool:
    """Return whether a CSV file is long, and has no cell that needs the rules of quoting.

    Args:
        path: The file.

    Raises:
        OSError: The file cannot be read.
    """
    if path.stat().st_size < LEAST_BYTES:
        return False
    with path.open("rb") as file:
        chunk = file.read(CHUNK_BYTES)
        if chunk.startswith((_GZIP, b"\n")):
            return False
        while chunk and not any(one in chunk for one in _SPECIAL):
            chunk = file.read(CHUNK_BYTES)
    return not chunk


def unquoted_blocks(
    path: Path, names: Sequence[str], size: int, start: int = 0
) -> Iterator[dict[str, DictionaryCells]]:
    """Yield columns of texts of at most `size` rows.

    Args:
        path: A file that `is_unquoted`.
        names: Its columns.
        size: Rows per block.
        start: Rows to skip.

    Raises:
        ValueError: It is not a table of these columns.
        OSError: The file cannot be read.
    """
    import pyarrow as pa
    from pyarrow import csv

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
    return DictionaryCells(
        values=tuple(coded.dictionary.to_pylist()), codes_N=dictionary_codes(coded)
    )
