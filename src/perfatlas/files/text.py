"""Text files, plain or gzip-compressed: a small file that unpacks to a huge one is refused."""

from __future__ import annotations

import contextlib
import gzip
import io
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from perfatlas.quantities import InvalidSpecError

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST_BYTES: Final = 1 << 28  # of text out of a compressed file; a table takes some 15 times that
_GZIP: Final = b"\x1f\x8b"
_DAMAGED: Final = (EOFError, zlib.error, gzip.BadGzipFile)


@contextlib.contextmanager
def open_text(
    path: str | Path, what: str, *, most_bytes: int | None = MOST_BYTES
) -> Iterator[io.TextIOWrapper]:
    """Open a UTF-8 text file, plain or gzip-compressed, whatever its name.

    Line breaks are left as they are.

    Args:
        path: The file.
        what: What it is, for messages: table, trace.
        most_bytes: Most text of a compressed file [bytes]; None where it is read in pieces.

    Raises:
        InvalidSpecError: A compressed file is cut off or damaged, or unpacks to more.
        OSError: The file cannot be read.
        UnicodeDecodeError: It is not UTF-8.
    """
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
            f"{what} '{path}' is cut off or damaged inside its gzip compression ({problem}): copy"
            " or download it again"
        ) from problem


class _Bounded(io.RawIOBase):
    """A stream that refuses to give more than so many bytes."""

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
                f"{self._name} unpacks to more than {self._most >> 20:,} MiB: unpack it first"
                " (gzip -d) if it is meant to be so large"
            )
        return count
