"""Fields of one line or record of a log; errors name the position and the field."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from perfatlas.files import read_table
from perfatlas.quantities import InvalidSpecError, did_you_mean, repr_for_error
from perfatlas.reliability.telemetry.reading.lines import refuse

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from perfatlas.files import Table

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
