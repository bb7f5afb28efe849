"""A log of JSON objects: one per line (.jsonl, .ndjson), or a list in one document."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from perfatlas.quantities import InvalidSpecError, repr_for_error
from perfatlas.reliability.telemetry.reading import LogFile, Tally, epoch_seconds, refuse

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perfatlas.reliability.telemetry.reading import FileCounts

_ENDINGS: Final = (".jsonl", ".ndjson", ".jsonl.gz", ".ndjson.gz")
_BY_LINE: Final = "files with one object per line must end in .jsonl or .ndjson (also .gz)"
_SURROGATE: Final = re.compile(r"\\u[dD][89a-fA-F]")


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")


_DECODER: Final = json.JSONDecoder(parse_constant=_refuse_constant)


def _decoded(text: str) -> object:
    """Return the value of a text."""
    value = _DECODER.decode(text)
    if _SURROGATE.search(text):
        json.dumps(value, ensure_ascii=False).encode()
    return value


def _document(file: LogFile, key: str) -> Iterator[tuple[int, object]]:
    """Yield number and value of the items of a list, under `key` or the whole document."""
    try:
        value = _decoded("".join(file.blocks()))
    except (ValueError, RecursionError) as problem:
        message = f"not JSON, or the file is truncated ({problem}); {_BY_LINE}"
        raise refuse(file.path, 0, message) from problem
    items = value.get(key) if isinstance(value, Mapping) else value
    if not isinstance(items, list):
        raise refuse(file.path, 0, f"no list {key!r} in the document; {_BY_LINE}")
    yield from enumerate(items, 1)


def _lines(file: LogFile) -> Iterator[tuple[int, object]]:
    """Yield number and value of each line; None for a blank line."""
    for line in file.lines():
        if not line.text.strip():
            yield line.number, None
            continue
        try:
            value = _decoded(line.text)
        except (ValueError, RecursionError) as problem:
            why = "not JSON" if line.ended else "the file is truncated in this line, or not JSON"
            message = f"{why} ({problem}): {repr_for_error(line.text)}"
            raise refuse(file.path, line.number, message) from problem
        if value is None:
            raise refuse(file.path, line.number, "null is not an object {...}")
        yield line.number, value


class JsonLog:
    """A log of JSON objects, read once.

    Args:
        key: Name of the list, for a log in one document.
    """

    def __init__(self, path: str | Path, key: str) -> None:
        """Store the path."""
        self.file = LogFile(path)
        self.key = key
        self.by_line = Path(path).name.lower().endswith(_ENDINGS)
        self.unit = "line" if self.by_line else "record"
        self.tally = Tally(path=path, unit=f"{self.unit}s")
        self.total = 0

    def items(self) -> Iterator[JsonRecord]:
        """Yield the objects."""
        source = _lines(self.file) if self.by_line else _document(self.file, self.key)
        for number, value in source:
            self.total = number
            if value is None and self.by_line:
                self.tally.ignore("blank", number)
                continue
            if not isinstance(value, Mapping):
                problem = f"{repr_for_error(value)} is not an object {{...}}"
                raise refuse(self.file.path, number, problem, unit=self.unit)
            yield JsonRecord(self.file.path, number, value, self.unit)

    def close(self) -> FileCounts:
        """Return the line counts of the log."""
        return self.tally.close(total=self.total, data_hash=self.file.data_hash)


class JsonRecord:
    """One object of a log.

    Args:
        number: Its line or record.
    """

    def __init__(
        self, path: str | Path, number: int, fields: Mapping[str, Any], unit: str = "line"
    ) -> None:
        """Store the fields."""
        self.path = path
        self.number = number
        self.unit = unit
        self.fields = fields

    def get(self, name: str) -> object:
        """Return a field, None where it is missing."""
        return self.fields.get(name)

    def inner(self, name: str) -> JsonRecord | None:
        """Return a field that is an object, None where it is missing."""
        value = self.get(name)
        return self.part(value) if isinstance(value, Mapping) else None

    def part(self, fields: Mapping[str, Any]) -> JsonRecord:
        """Return an object inside this one, with the same position."""
        return JsonRecord(self.path, self.number, fields, self.unit)

    def text(self, name: str, *, required: bool = False) -> str:
        """Return a text, "" where it is missing."""
        value = self.get(name)
        if value is None and not required:
            return ""
        if isinstance(value, str) and (value or not required):
            return value
        raise self.wrong(
            f"{repr_for_error(value)} is not a name" if value is not None else "missing", name
        )

    def time_s(self, name: str, zone: str | None) -> float:
        """Return a time [s since 1970-01-01 UTC]."""
        value = self.get(name)
        if value is None:
            raise self.wrong("missing", name)
        try:
            return epoch_seconds(value, zone)
        except InvalidSpecError as problem:
            raise self.wrong(str(problem), name) from problem

    def wrong(self, problem: str, name: str = "") -> InvalidSpecError:
        """Return an error for a field.

        Args:
            name: The field, "" for the object as a whole.
        """
        return refuse(self.path, self.number, problem, column=name, unit=self.unit)
