"""Lines, tables and JSON values of files, decompressed, of bounded length."""

from __future__ import annotations

import csv
import io
import json
import math
import re
import zlib
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Final

from perfatlas.profiles.formats.json_stream import open_bytes
from perfatlas.quantities import InvalidSpecError, printable

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from pathlib import Path

MAX_LINE: Final = 1 << 20
MAX_BYTES: Final = 1 << 28
_VALUE: Final = re.compile(r"\S")
# What a damaged file raises while its values are read.
DAMAGED: Final = (
    *(ValueError, LookupError, TypeError, AttributeError, RecursionError),
    *(EOFError, OSError, zlib.error),
)


def text_lines(path: str | Path, max_characters: float = math.inf) -> Iterator[str]:
    """Yield the lines of a file without their ends.

    Args:
        path: The file, plain or gzip; bytes that are no UTF-8 are replaced.
        max_characters: Size above which it is refused.
    """
    characters = 0
    with open_bytes(path) as file:
        text = io.TextIOWrapper(file, "utf-8-sig", "replace")
        try:
            while line := text.readline(MAX_LINE):
                characters += len(line)
                if characters > max_characters:
                    shown = f"{printable(str(path))!r} has over {max_characters:,} characters"
                    raise InvalidSpecError(f"profile {shown}: keep the lines of its results")
                yield line.rstrip("\r\n")
        except (EOFError, OSError, zlib.error) as error:
            raise InvalidSpecError(
                f"profile {printable(str(path))!r} is a damaged gzip file ({error}); copy it again"
            ) from error


def table_rows(
    path: str | Path, columns: Collection[str], begins: str = ""
) -> Iterator[Mapping[str, str]]:
    """Yield the rows of CSV tables with some columns, whatever text is around them.

    Args:
        path: The file, plain or gzip.
    """
    header: list[str] = []
    csv.field_size_limit(MAX_LINE)
    try:
        for cells in csv.reader(line for line in text_lines(path) if line.startswith(begins)):
            if set(columns) <= set(cells):
                header = cells
            elif header and 1 < len(cells) <= len(header):
                yield dict(zip_longest(header, cells, fillvalue=""))
    except csv.Error as error:
        raise InvalidSpecError(
            f"profile {printable(str(path))!r} has a damaged table ({error}); write it again"
        ) from error


def json_values(path: str | Path) -> Iterator[Any]:
    """Yield the JSON values of a file, one after another.

    Args:
        path: The file, plain or gzip.
    """
    with open_bytes(path) as file:
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise InvalidSpecError(
            f"profile {printable(str(path))!r} is larger than {MAX_BYTES:,} bytes"
        )
    text, decoder, at = data.decode("utf-8-sig"), json.JSONDecoder(), 0
    while match := _VALUE.search(text, at):
        value, at = decoder.raw_decode(text, match.start())
        yield value
