"""Lines of text files, decompressed, of bounded length."""

from __future__ import annotations

import io
import zlib
from typing import TYPE_CHECKING, Final

from perfatlas.profiles.formats.json_stream import open_bytes
from perfatlas.quantities import InvalidSpecError, printable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MAX_LINE: Final = 1 << 20


def text_lines(path: str | Path) -> Iterator[str]:
    """Yield the lines of a file without their ends.

    Args:
        path: The file, plain or gzip; bytes that are no UTF-8 are replaced.

    Raises:
        InvalidSpecError: It cannot be read, or is damaged.
    """
    with open_bytes(path) as file:
        text = io.TextIOWrapper(file, "utf-8-sig", "replace")
        try:
            while line := text.readline(MAX_LINE):
                yield line.rstrip("\r\n")
        except (EOFError, OSError, zlib.error) as error:
            raise InvalidSpecError(
                f"profile {printable(str(path))!r} is a damaged gzip file ({error}); copy it again"
            ) from error
