"""Errors that name a position in a log: file, line and column."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.quantities import InvalidSpecError

if TYPE_CHECKING:
    from pathlib import Path


def refuse(
    path: str | Path, line: int, problem: str, *, column: str = "", unit: str = "line"
) -> InvalidSpecError:
    """Return an error for a position in a log.

    Args:
        line: Number of the line or record, 0 for the whole file.
        problem: Description of the problem and the remedy.
        column: Field, "" for none.
        unit: Numbered unit: line or record.

    Example:
        >>> from perfatlas.reliability.telemetry.reading import refuse
        >>> str(refuse("a.log", 7, "not a time", column="End"))
        "log 'a.log', line 7, column 'End': not a time"
    """
    where = f", {unit} {line}" if line else ""
    field = f", column '{column}'" if column else ""
    return InvalidSpecError(f"log '{path}'{where}{field}: {problem}")
