"""Lines of a log, plain or gzip-compressed, of any size in little memory, and their fields.

Bytes are hashed as they are read, so that the hash is exact, also for a pipe.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import io
import zlib
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from perfatlas.files import check_regular, read_table
from perfatlas.quantities import InvalidSpecError, did_you_mean, repr_for_error
from perfatlas.reliability.telemetry.reading.line_tally import FileCounts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from _typeshed import WriteableBuffer

    from perfatlas.files import Table

MAX_LINE_BYTES: Final = 1 << 24
INVALID_UTF8: Final = "invalid UTF-8 shown as U+FFFD"  # a repair of a line
_BLOCK_BYTES: Final = 1 << 18
_GZIP: Final = b"\x1f\x8b"
_START_BYTES: Final = 4096
# Not control characters; zeros occur where a machine lost power while writing.
_PRINTED: Final = bytes({0, *b"\t\n\v\f\r\x1b", *range(0x20, 0x7F), *range(0x80, 0x100)})
_MAX_ODD: Final = 0.04  # share of control characters at the start of a log; random bytes have 10%
_BYTE_ORDER_MARK: Final = "\ufeff"
_TO_UTF8: Final = "UTF-16 text; convert it to UTF-8 first (iconv -f UTF-16 -t UTF-8)"
_SIGNATURES: Final = {
    b"\x28\xb5\x2f\xfd": "zstd-compressed; decompress it first (zstd -d)",
    b"\xfd7zXZ": "xz-compressed; decompress it first (xz -d)",
    b"BZh": "bzip2-compressed; decompress it first (bzip2 -d)",
    b"PK\x03\x04": "a zip archive; unpack it first",
    b"PAR1": "a Parquet file; expected a text log",
    b"\xff\xfe": _TO_UTF8,
    b"\xfe\xff": _TO_UTF8,
    b"LPKSHHRH": "a binary journal; write it as text first (journalctl --file ... -o short-iso)",
}


class LogLine(NamedTuple):
    """One line of a log."""

    number: int  # Its number; the first is 1
    text: str  # Its text without the line break, with U+FFFD for invalid UTF-8
    valid: bool  # Whether it is valid UTF-8
    ended: bool  # Whether it has a line break; only the last line of a file may lack one


class LogFile:
    """A log, read once by lines or by blocks of text, with the counts of its lines.

    Args:
        path: The file, or a pipe.
    """

    def __init__(self, path: str | Path) -> None:
        """Store the path."""
        self.path = path
        self.tally = FileCounts(path=str(path))
        self._digest = hashlib.sha256()

    def close(self) -> FileCounts:
        """Return the counts of the file that was read, with the hash of its bytes on disk."""
        self.tally.data_hash = f"sha256:{self._digest.hexdigest()}"
        return self.tally

    def lines(self) -> Iterator[LogLine]:
        """Yield the lines; the total of `tally` counts those of the blocks read.

        Raises:
            InvalidSpecError: The file cannot be read, is empty, has an unsupported or truncated
                compression, or a line is too long.
        """
        with self._opened() as stream:
            rest = b""
            while block := stream.read1(_BLOCK_BYTES):
                block = rest + block
                first_end = block.find(b"\n")
                if (len(block) if first_end < 0 else first_end) >= MAX_LINE_BYTES:
                    problem = f"longer than {MAX_LINE_BYTES >> 20} MiB; is this a text log?"
                    raise refuse(self.path, self.tally.total + 1, problem)
                end = block.rfind(b"\n") + 1
                rest = block[end:]
                yield from self._whole(block[:end])
            yield from self._whole(rest)

    def _whole(self, raw: bytes) -> Iterator[LogLine]:
        """Yield whole lines; those of a block that is not valid UTF-8 are decoded one by one."""
        text, valid = _decoded(raw)
        if not valid and raw.count(b"\n", 0, -1):
            *ended, last = raw.split(b"\n")
            for line in (*(line + b"\n" for line in ended), last):
                yield from self._whole(line)
            return
        if not raw:
            return
        if not self.tally.total:
            text = text.removeprefix(_BYTE_ORDER_MARK)
        texts = text.removesuffix("\n").split("\n")
        before = self.tally.total
        total = self.tally.total = before + len(texts)
        for number, written in enumerate(texts, before + 1):
            is_ended = number < total or raw.endswith(b"\n")
            yield LogLine(number, written.rstrip("\r"), valid, is_ended)

    def blocks(self) -> Iterator[str]:
        """Yield the text in arbitrary blocks, with U+FFFD for invalid UTF-8."""
        with self._opened() as stream:
            text = io.TextIOWrapper(stream, encoding="utf-8-sig", errors="replace")
            while block := text.read(_BLOCK_BYTES):
                yield block

    @contextlib.contextmanager
    def _opened(self) -> Iterator[io.BufferedReader[_Stream]]:
        check_regular(self.path, "log", once=True)
        try:
            with Path(self.path).open("rb", buffering=0) as file:
                stream = io.BufferedReader(_Stream(partial(self._hashed, file)), _BLOCK_BYTES)
                if stream.peek(2).startswith(_GZIP):
                    unzipped = gzip.GzipFile(fileobj=stream)  # reports truncation at its end
                    stream = io.BufferedReader(_Stream(unzipped.read1), _BLOCK_BYTES)
                self._check_start(stream.peek(_START_BYTES)[:_START_BYTES])
                yield stream
        except (EOFError, zlib.error, gzip.BadGzipFile) as problem:
            line = self.tally.total and self.tally.total + 1
            text = f"truncated or damaged gzip compression ({problem}); copy it again"
            raise refuse(self.path, line, text) from problem
        except OSError as problem:
            raise refuse(self.path, 0, f"cannot be read: {problem.strerror}") from problem

    def _hashed(self, file: io.FileIO, size: int) -> bytes:
        data = file.read(size) or b""
        self._digest.update(data)
        return data

    def _check_start(self, start: bytes) -> None:
        if not start:
            raise refuse(self.path, 0, "is empty")
        for signature, reason in _SIGNATURES.items():
            if start.startswith(signature):
                raise refuse(self.path, 0, f"is {reason}")
        odd = len(start.translate(None, _PRINTED))
        if odd > _MAX_ODD * len(start):
            problem = f"not a text file: {odd} of its first {len(start)} bytes are control"
            problem += " characters; expected the original log, plain or gzip-compressed"
            raise refuse(self.path, 0, problem)


class _Stream(io.RawIOBase):
    """The bytes that a function reads."""

    def __init__(self, read: Callable[[int], bytes]) -> None:
        super().__init__()
        self._read = read

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        view = memoryview(buffer)
        data = self._read(len(view))
        view[: len(data)] = data
        return len(data)


def _decoded(raw: bytes) -> tuple[str, bool]:
    try:
        return raw.decode(), True
    except UnicodeDecodeError:
        return raw.decode("utf-8", "replace"), False


def refuse(
    path: str | Path, line: int, problem: str, *, column: str = "", unit: str = "line"
) -> InvalidSpecError:
    """Return an error for a position in a log.

    Args:
        line: Number of the line or record, 0 for the whole file.
        problem: Description of the problem and the remedy.
        column: Field, "" for none.

    Example:
        >>> from perfatlas.reliability.telemetry.reading import refuse
        >>> str(refuse("a.log", 7, "not a time", column="End"))
        "log 'a.log', line 7, column 'End': not a time"
    """
    where = f", {unit} {line}" if line else ""
    field = f", column '{column}'" if column else ""
    return InvalidSpecError(f"log '{path}'{where}{field}: {problem}")


_Value = TypeVar("_Value")


class LogRecord(NamedTuple):
    """Named fields at one position of a log.

    Example:
        >>> from perfatlas.reliability.telemetry.reading import LogRecord
        >>> record = LogRecord("a.log", 7, {"End": "soon"})
        >>> str(record.wrong("not a time", "End"))
        "log 'a.log', line 7, column 'End': not a time"
    """

    path: str | Path
    number: int  # Number of the line or record; the first is 1
    fields: Mapping[str, Any]  # Cells by column, or the members of a JSON object
    unit: str = "line"  # What `number` counts

    def get(self, name: str) -> Any:  # noqa: ANN401 - a cell or any JSON value
        """Return a field, None where it is missing."""
        return self.fields.get(name)

    def read(self, name: str, parse: Callable[..., _Value], *options: object) -> _Value:
        """Return the parsed text of a column, of "" where the column is missing."""
        try:
            return parse(self.fields.get(name, ""), *options)
        except InvalidSpecError as problem:
            raise self.wrong(str(problem), name) from problem

    def text(self, name: str, *, required: bool = False) -> str:
        """Return a name of a JSON object, "" where it is missing."""
        value = self.get(name)
        if value is None and not required:
            return ""
        if isinstance(value, str) and (value or not required):
            return value
        raise self.wrong(
            f"{repr_for_error(value)} is not a name" if value is not None else "missing", name
        )

    def inner(self, name: str) -> LogRecord | None:
        """Return a field that is an object, None where it is missing."""
        value = self.get(name)
        return self._replace(fields=value) if isinstance(value, Mapping) else None

    def wrong(self, problem: str, name: str = "") -> InvalidSpecError:
        """Return an error for a field, "" for the whole record."""
        return refuse(self.path, self.number, problem, column=name, unit=self.unit)


def read_log_table(path: str | Path, required: Sequence[str]) -> Table:
    """Return a table with at least some columns."""
    table = read_table(path)
    for name in required:
        if name not in table.columns:
            hint = did_you_mean(name, table.columns)
            raise refuse(path, 0, f"no column {name!r}{hint}; needed: {', '.join(required)}")
    return table
