"""Records of `sacct -P` or `-p` text: lines joined until all fields of the header are present.

sacct escapes nothing. A line break or the delimiter inside SubmitLine, Comment or JobName splits a
record, so lines are joined until the number of fields matches, and extra delimiters are returned to
a free-text field where only one way is consistent with all other fields.
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from perfatlas.quantities import InvalidSpecError, repr_for_error
from perfatlas.reliability.telemetry.formats.slurm_fields import UNKNOWN_TIMES, duration_s, job_name
from perfatlas.reliability.telemetry.reading import INVALID_UTF8, LogRecord, refuse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from perfatlas.reliability.telemetry.reading import LogFile, LogLine

MAX_LINES: Final = 2_000  # lines of one record
_HEADER: Final = re.compile(r"\ufeff?(?P<first>[A-Za-z]\w*)(?P<bar>[^\w\s]+|\t)(?=[A-Za-z])")
# Free text of users or programs.
FREE_TEXT: Final = (
    "SubmitLine", "Comment", "AdminComment", "SystemComment", "JobName", "WorkDir", "Extra",
    "Container", "StdOut", "StdErr", "StdIn", "Constraints", "WCKey", "Account", "Reservation",
)  # fmt: skip
_STAMP: Final = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?(\.\d+)?|\d{9,12}", re.ASCII)
_STATE: Final = re.compile(r"[A-Z][A-Z_]+\+?( by \S+)?")
_NO_RECORD: Final = "text that belongs to no record"
_NO_DELIMITER: Final = (
    "the first line has no delimited column names; write the log with 'sacct -P' (or -p) and"
    " without -n"
)


class Header(NamedTuple):
    """The header line of the output."""

    names: tuple[str, ...]  # Columns in order, possibly duplicated
    bar: str  # Delimiter
    closed: bool  # Whether a delimiter ends each row, as with -p


def sacct_records(file: LogFile, required: Sequence[str]) -> Iterator[LogRecord]:
    """Yield the records of a file in its order; other lines are counted."""
    lines = file.lines()
    assembler = _Assembler(file, _header(file, next(lines), required))
    for line in lines:
        record = assembler.add(line)
        if record is not None:
            yield record
    assembler.end()


def _header(file: LogFile, line: LogLine, required: Sequence[str]) -> Header:
    match = _HEADER.match(line.text)
    if match is None:
        raise refuse(file.path, 1, f"{_NO_DELIMITER}; it is {repr_for_error(line.text)}")
    bar = match["bar"]
    closed = line.text.endswith(bar)
    names = tuple(line.text.removesuffix(bar).split(bar))
    lacking = [name for name in required if name not in names]
    if lacking:
        ask = ",".join(dict.fromkeys((*required, "Submit", "NodeList", "AllocTRES", "ElapsedRaw")))
        problem = f"no column {', '.join(lacking)} among {len(names)}"
        raise refuse(file.path, 1, f"{problem}; run sacct with at least --format={ask}")
    file.tally.ignore("header", 1)
    return Header(names, bar, closed)


class _Assembler:
    """Joins the lines of a record."""

    def __init__(self, file: LogFile, header: Header) -> None:
        self.file = file
        self.tally = file.tally
        self.header = header
        self.pending: list[LogLine] = []
        self.bars: list[int] = []  # delimiters of each pending line
        self.checks = [(i, _CHECKS[name]) for i, name in enumerate(header.names) if name in _CHECKS]
        self.free = [i for i, name in enumerate(header.names) if name in FREE_TEXT]

    def add(self, line: LogLine) -> LogRecord | None:
        """Return the record completed by a line, if any."""
        if not self.pending and not line.text.strip():
            self.tally.ignore("blank", line.number)
            return None
        if not line.valid:
            self.tally.repair(INVALID_UTF8, line.number)
        self.pending.append(line)
        self.bars.append(line.text.count(self.header.bar))
        if len(self.pending) > MAX_LINES:
            problem = f"a record of more than {MAX_LINES} lines; is the delimiter right?"
            raise refuse(self.file.path, self.pending[0].number, problem)
        wanted = len(self.header.names) - 1
        for fields_of in (self._whole, self._restored):
            left = sum(self.bars)
            for skipped, bars in enumerate(self.bars):  # unrelated lines before the record
                if left < wanted:
                    break
                cells = fields_of(self.pending[skipped:])
                if cells is not None:
                    return self._record(skipped, cells)
                left -= bars
        while sum(self.bars) > 2 * wanted:
            self.tally.ignore(_NO_RECORD, self.pending.pop(0).number)
            self.bars.pop(0)
        return None

    def end(self) -> None:
        """Raise for an incomplete record at the end of the file."""
        if not self.pending:
            return
        wanted = len(self.header.names)
        count = len(self._split(self.pending))
        problem = "the file is truncated, or ends in text of no record"
        if count > wanted:
            problem = "more fields than columns"
        for line in reversed(self.pending):
            cells = self._split([line])
            if len(cells) == wanted and (misfits := self._misfits(cells)):
                name, text = self.header.names[misfits[0]], repr_for_error(cells[misfits[0]])
                problem = f"line {line.number}, column '{name}': {text} does not fit its column"
        first, last = self.pending[0].number, self.pending[-1].number
        text = f"a record of {count} fields up to line {last} where the header has {wanted}"
        remedy = "write the log again, or delete these lines"
        raise refuse(self.file.path, first, f"{text}: {problem}; {remedy}")

    def _record(self, skipped: int, cells: list[str]) -> LogRecord:
        self.tally.ignore(_NO_RECORD, self.pending[0].number, skipped)
        line = self.pending[skipped].number
        joined = len(self.pending) - skipped - 1
        self.tally.merge("continuation of the previous record", line + 1, joined)
        self.pending.clear()
        self.bars.clear()
        fields: dict[str, str] = {}
        for name, cell in zip(self.header.names, cells, strict=True):
            fields.setdefault(name, cell)
        return LogRecord(self.file.path, line, fields)

    def _split(self, lines: Sequence[LogLine]) -> list[str]:
        text = "\n".join(line.text for line in lines)
        if self.header.closed:
            text = text.removesuffix(self.header.bar)
        return text.split(self.header.bar)

    def _whole(self, lines: Sequence[LogLine]) -> list[str] | None:
        """Return the fields, None where they do not fit the columns."""
        cells = self._split(lines)
        return cells if len(cells) == len(self.header.names) and self._fits(cells) else None

    def _restored(self, lines: Sequence[LogLine]) -> list[str] | None:
        """Return the fields with delimiters restored in free text, if unambiguous."""
        cells = self._split(lines)
        extra = len(cells) - len(self.header.names)
        if extra <= 0:
            return None
        fitting = []
        for index in self.free:
            text = self.header.bar.join(cells[index : index + extra + 1])
            way = [*cells[:index], text, *cells[index + extra + 1 :]]
            if self._fits(way):
                fitting.append(way)
        if len({tuple(way[index] for index, _ in self.checks) for way in fitting}) != 1:
            return None
        self.tally.repair("delimiters inside free text", lines[0].number)
        return fitting[0]

    def _misfits(self, cells: list[str]) -> list[int]:
        return [index for index, check in self.checks if not check(cells[index])]

    def _fits(self, cells: list[str]) -> bool:
        """Return whether the cells fit their columns, and those of one name are equal."""
        named = set(zip(self.header.names, cells, strict=True))
        return not self._misfits(cells) and len(named) == len(set(self.header.names))


def _is_time(text: str) -> bool:
    return text.strip().lower() in UNKNOWN_TIMES or _STAMP.fullmatch(text.strip()) is not None


def _readable(parse: Callable[[str], object], text: str) -> bool:
    try:
        parse(text)
    except InvalidSpecError:
        return False
    return True


# Whether a text fits a column, by which ways to split a record are told apart.
_CHECKS: Final[dict[str, Callable[[str], bool]]] = {
    "JobID": partial(_readable, job_name),
    "State": lambda text: _STATE.fullmatch(text.strip()) is not None,
    **dict.fromkeys(("Start", "End", "Submit", "Eligible"), _is_time),
    **dict.fromkeys(("Elapsed", "ElapsedRaw", "Suspended"), partial(_readable, duration_s)),
}
