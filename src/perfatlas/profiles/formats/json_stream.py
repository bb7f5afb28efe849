"""The elements of one array of a JSON file, one at a time, in bounded memory."""

from __future__ import annotations

import codecs
import gzip
import json
import re
import zlib
from decimal import Decimal
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final, Self, cast

from perfatlas.files import check_regular
from perfatlas.quantities import InvalidSpecError, printable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

CHUNK_BYTES: Final = 1 << 18
MAX_VALUE_CHARACTERS: Final = 1 << 26  # of one value outside the array, or of one element
GZIP_MAGIC: Final = b"\x1f\x8b"
_GAP: Final = re.compile(r"[ \t\r\n]*")
_COMMA: Final = re.compile(r"[ \t\r\n]*,[ \t\r\n]*")


# What the decoder raises: for text that ends or is wrong, for exponents without end, for depth.
MALFORMED: Final = (ValueError, ArithmeticError, RecursionError)


class _EndOfFileError(Exception):
    """The file ends inside a value."""


def open_bytes(path: str | Path) -> IO[bytes]:
    """Return a file opened for reading, decompressed if it is gzip."""
    check_regular(path)
    try:
        with Path(path).open("rb") as file:
            is_gzip = file.read(2) == GZIP_MAGIC
        return cast("IO[bytes]", gzip.open(path)) if is_gzip else Path(path).open("rb")
    except OSError as error:
        raise InvalidSpecError(
            f"profile {printable(str(path))!r} cannot be read: {error.strerror or error}"
        ) from error


class JsonStream:
    """A JSON object of which one member, an array, is read element by element.

    Numbers with a fraction are decimals: microseconds since 1970 have more digits than a float.

    Other members are kept in `members`; a bare array is read as the array itself. After the last
    element, `truncated` tells whether the file ended before its closing bracket.

    Args:
        path: The file, plain or gzip.
        array: Name of the member that is streamed.
    """

    def __init__(self, path: str | Path, array: str) -> None:
        """Open the file."""
        self.path, self.array = str(path), array
        self.members: dict[str, object] = {}
        self.truncated = False
        self.has_array = False
        self._file = open_bytes(path)
        self._decode = codecs.getincrementaldecoder("utf-8-sig")("replace").decode
        self._scan = json.JSONDecoder(parse_float=Decimal).raw_decode
        self._text, self._at, self._ended = "", 0, False

    def __enter__(self) -> Self:
        """Return the stream."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the file."""
        self._file.close()

    def elements(self) -> Iterator[object]:
        """Return the elements of the array, and read the other members on the way."""
        try:
            yield from self._elements()
        except _EndOfFileError:
            self.truncated = True

    def _elements(self) -> Iterator[object]:
        opening = self._character()
        self._at += 1
        if opening == "[":
            self.has_array = True
            yield from self._array()
            return
        if opening != "{":
            raise self._malformed("it does not begin with { or [")
        while self._character() != "}":
            key = self._value()
            if not isinstance(key, str) or self._character() != ":":
                raise self._malformed("a name and a colon were expected")
            self._at += 1
            if key == self.array and self._character() == "[":
                self._at += 1
                self.has_array = True
                yield from self._array()
            else:
                self.members[key] = self._value()
            if self._character() == ",":
                self._at += 1

    def _array(self) -> Iterator[object]:
        """Yield elements up to the closing bracket."""
        if self._character() == "]":
            self._at += 1
            return
        scan, comma = self._scan, _COMMA.match
        while True:
            text, at = self._text, self._at
            try:  # all elements of the chunk at hand, without a call for each
                while True:
                    value, end = scan(text, at)
                    separator = comma(text, end)
                    if separator is None:
                        break
                    yield value
                    at = separator.end()
            except MALFORMED:
                pass
            self._at = at
            yield self._value()  # at the end of the chunk, or before the bracket
            if self._character() == "]":
                self._at += 1
                return
            if self._character() != ",":
                raise self._malformed("a comma was expected")
            self._at += 1
            self._character()

    def _character(self) -> str:
        """Return the next character that is no space, without moving past it."""
        while True:
            match = _GAP.match(self._text, self._at)
            self._at = match.end() if match else self._at
            if self._at < len(self._text):
                return self._text[self._at]
            self._more()

    def _value(self) -> object:
        """Return the next value, and move past it."""
        self._character()
        while True:
            try:
                value, end = self._scan(self._text, self._at)
            except MALFORMED as error:
                if isinstance(error, RecursionError):
                    raise self._malformed("it is nested too deeply") from error
                if self._ended or len(self._text) - self._at > MAX_VALUE_CHARACTERS:
                    self._refuse_garbage()
                self._more()
                continue
            if end < len(self._text) or self._ended:
                self._at = end
                return value
            self._more()  # a number may go on

    def _refuse_garbage(self) -> None:
        """Raise for text that is no beginning of a value, and for a value that is too long."""
        if len(self._text) - self._at > MAX_VALUE_CHARACTERS:
            raise self._malformed(f"a value is longer than {MAX_VALUE_CHARACTERS:,} characters")
        if self._text[self._at] not in '{["-0123456789tfnNI':
            raise self._malformed(f"unexpected {self._text[self._at : self._at + 20]!r}")

    def _more(self) -> None:
        """Append the next chunk; a value that spans chunks doubles it."""
        if self._ended:
            raise _EndOfFileError
        rest = self._text[self._at :]
        try:
            data = self._file.read(max(CHUNK_BYTES, len(rest)))
        except (EOFError, OSError, zlib.error):  # gzip cut off, or damaged from here on
            data = b""
        self._ended = not data
        self._text, self._at = rest + self._decode(data, not data), 0

    def _malformed(self, why: str) -> InvalidSpecError:
        return InvalidSpecError(
            f"profile {printable(self.path)!r} is not valid JSON: {printable(why)}; export it"
            " again, or check that the download is complete"
        )
