"""Text files, plain or gzip-compressed, with a limit on the unpacked size."""

from __future__ import annotations

import contextlib
import gzip
import io
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from perfatlas.files.regular import check_regular
from perfatlas.quantities import InvalidSpecError

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST_BYTES: Final = 1 << 28  # unpacked text; a table in memory takes about 15 times as much
_GZIP: Final = b"\x1f\x8b"
_DAMAGED: Final = (EOFError, zlib.error, gzip.BadGzipFile)


@contextlib.contextmanager
def open_text(
    path: str | Path, what: str, *, most_bytes: int | None = MOST_BYTES
) -> Iterator[io.TextIOWrapper]:
    """Open a UTF-8 text file, plain or gzip-compressed (detected by content).

    Line breaks are kept.

    Args:
        what: Noun for messages: table, trace.
        most_bytes: Maximum unpacked size [bytes]; None if it is read in chunks.

    Raises:
        InvalidSpecError: It is not a regular file, or a compressed file is truncated or damaged,
            or unpacks to more.
        OSError: The file cannot be read.
        UnicodeDecodeError: The text is not UTF-8.
    """
    check_regular(path, what)
    try:
        with Path(path).open("rb") as file:
            stream: Any = file
            if file.peek(len(_GZIP)).startswith(_GZIP):
                unzipped: Any = gzip.GzipFile(fileobj=file)
                stream = io.BufferedReader(_Bounded(unzipped, f"{what} '{path}'", most_bytes))
            with io.TextIOWrapper(stream, encoding="utf-8-sig", newline="") as text:
                yield text
    except _DAMAGED as problem:
        raise InvalidSpecError(
            f"{what} '{path}' is truncated or damaged inside its gzip compression ({problem}): copy"
            " or download it again"
        ) from problem


class _Bounded(io.RawIOBase):
    """A stream with a maximum size."""

    def __init__(self, stream: Any, name: str, most_bytes: int | None) -> None:  # noqa: ANN401
        super().__init__()
        self._stream, self._name, self._most = stream, name, most_bytes
        self._given = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:  # noqa: ANN401
        count = int(self._stream.readinto(buffer))
        self._given += count
        if self._most is not None and self._given > self._most:
            raise InvalidSpecError(
                f"{self._name} unpacks to more than {self._most >> 20:,} MiB: if this is intended,"
                " unpack it first (gzip -d)"
            )
        return count
