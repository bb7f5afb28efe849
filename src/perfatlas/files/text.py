"""Text files, plain or gzip-compressed, with a limit on the unpacked size."""

from __future__ import annotations

import contextlib
import csv
import gzip
import io
import json
import zlib
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from perfatlas.files.regular import check_regular
from perfatlas.quantities import InvalidSpecError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

MAX_LINE_LENGTH: Final = 1 << 24  # characters; a file without line ends is not a table of text


NAMED_SEPARATORS: Final = {";": "semicolons", "\t": "tabs", "|": "vertical bars"}


MAX_BYTES: Final = 1 << 28  # unpacked text; a table in memory takes about 15 times as much
_GZIP: Final = b"\x1f\x8b"
_DAMAGED: Final = (EOFError, zlib.error, gzip.BadGzipFile)


def csv_rows(text: io.TextIOWrapper, path: str | Path) -> Iterator[list[str]]:
    """Yield the header of a CSV file, then its records; empty lines are skipped."""
    header: list[str] = []
    number = 0
    try:
        for row in csv.reader(_lines(text, path), strict=True):
            if not row:
                continue
            number += 1
            if not header:
                header = row
                refuse_repeated(header, path)
            elif len(row) != len(header):
                raise InvalidSpecError(
                    f"table '{path}', record {number}: {len(row)} cells where the header names "
                    f"{len(header)} columns{separator_hint(header)}"
                )
            yield row
    except csv.Error as problem:
        raise InvalidSpecError(f"table '{path}' is not CSV: {problem}") from problem


def jsonl_rows(text: io.TextIOWrapper, path: str | Path) -> Iterator[dict[str, Any]]:
    """Yield the objects of a JSON Lines file; empty lines are skipped."""
    text.reconfigure(newline="\n")
    for number, line in enumerate(_lines(text, path), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line, parse_constant=_refuse_constant)
        except (ValueError, RecursionError) as problem:
            raise InvalidSpecError(f"table '{path}', line {number}: {problem}") from problem
        if not isinstance(row, dict):
            raise InvalidSpecError(f"table '{path}', line {number}: expected an object {{...}}")
        yield row


def separator_hint(names: Sequence[str]) -> str:
    """Return what to do about a table whose columns are separated by something else, or "".

    Args:
        names: Its columns, as read.

    Example:
        >>> from perfatlas.files.text import separator_hint
        >>> separator_hint(["model;system"])
        '; its columns seem to be separated by semicolons: separate them with commas'
    """
    for separator, noun in NAMED_SEPARATORS.items():
        if any(separator in name for name in names):
            return f"; its columns seem to be separated by {noun}: separate them with commas"
    return ""


def refuse_repeated(header: Sequence[str], path: str | Path) -> None:
    """Refuse a table with two columns of one name."""
    repeated = [name for name, count in Counter(header).items() if count > 1]
    if repeated:
        raise InvalidSpecError(f"table '{path}' has two columns named {min(repeated)!r}")


def _lines(text: io.TextIOWrapper, path: str | Path) -> Iterator[str]:
    """Yield lines of limited length, so that a file without line ends does not fill the memory."""
    for number, line in enumerate(iter(lambda: text.readline(MAX_LINE_LENGTH), ""), start=1):
        if len(line) == MAX_LINE_LENGTH or "\0" in line:
            cause = "has NUL bytes" if "\0" in line else f"has over {MAX_LINE_LENGTH:,} characters"
            raise InvalidSpecError(f"table '{path}', line {number} {cause}: it is not a text table")
        yield line


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not a JSON number")


@contextlib.contextmanager
def open_text(
    path: str | Path, what: str, *, most_bytes: int | None = MAX_BYTES
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
