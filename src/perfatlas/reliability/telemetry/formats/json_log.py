"""A log of JSON objects: one per line (.jsonl, .ndjson), or a list in one document."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from perfatlas.quantities import InvalidSpecError, repr_for_error
from perfatlas.reliability.telemetry.reading import (
    LogFile,
    Tally,
    epoch_seconds,
    json_lines,
    refuse,
    stream_items,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perfatlas.reliability.telemetry.reading import FileCounts

_LINES: Final = (".jsonl", ".ndjson", ".jsonl.gz", ".ndjson.gz")


class JsonLog:
    """A log of JSON objects, read once.

    Args:
        path: The file.
        key: Name of the list, for a log in one document.
    """

    def __init__(self, path: str | Path, key: str) -> None:
        """Store the path."""
        self.file = LogFile(path)
        self.key = key
        self.by_line = Path(path).name.lower().endswith(_LINES)
        self.unit = "line" if self.by_line else "record"
        self.tally = Tally(path=path, unit=f"{self.unit}s")
        self.total = 0

    def items(self) -> Iterator[Item]:
        """Yield the objects.

        Raises:
            InvalidSpecError: The log is not JSON, or is truncated.
        """
        source = json_lines(self.file) if self.by_line else stream_items(self.file, self.key)
        for number, value in source:
            self.total = number
            if value is None and self.by_line:
                self.tally.ignore("blank", number)
                continue
            if not isinstance(value, Mapping):
                problem = f"{repr_for_error(value)} is not an object {{...}}"
                raise refuse(self.file.path, number, problem, unit=self.unit)
            yield Item(self.file.path, number, value, self.unit)

    def close(self) -> FileCounts:
        """Return the line counts of the log."""
        return self.tally.close(total=self.total, data_hash=self.file.data_hash)


class Item:
    """One object of a log.

    Args:
        number: Its line or record.
        unit: Numbered unit: line or record.
    """

    def __init__(
        self, path: str | Path, number: int, fields: Mapping[str, Any], unit: str = "line"
    ) -> None:
        """Store the fields."""
        self.path = path
        self.number = number
        self.unit = unit
        self.fields = fields

    def get(self, name: str) -> Any:  # noqa: ANN401
        """Return a field, None where it is missing."""
        return self.fields.get(name)

    def inner(self, name: str) -> Item | None:
        """Return a field that is an object, None where it is missing."""
        value = self.get(name)
        return self.part(value) if isinstance(value, Mapping) else None

    def part(self, fields: Mapping[str, Any]) -> Item:
        """Return an object inside this one, with the same position."""
        return Item(self.path, self.number, fields, self.unit)

    def text(self, name: str, *, required: bool = False) -> str:
        """Return a text, "" where it is missing.

        Raises:
            InvalidSpecError: It is not a string, or missing and required.
        """
        value = self.get(name)
        if value is None and not required:
            return ""
        if isinstance(value, str) and (value or not required):
            return value
        raise self.wrong(
            f"{repr_for_error(value)} is not a name" if value is not None else "missing", name
        )

    def time_s(self, name: str, zone: str | None) -> float:
        """Return a time [s since 1970-01-01 UTC].

        Args:
            zone: Time zone of a text without one.

        Raises:
            InvalidSpecError: It is missing or not a time.
        """
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
