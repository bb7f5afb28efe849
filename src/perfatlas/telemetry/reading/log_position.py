"""Where in a log something is wrong: every refusal names file, line and column."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.quantities import InvalidSpecError

if TYPE_CHECKING:
    from pathlib import Path


def refuse(
    path: str | Path, line: int, problem: str, *, column: str = "", unit: str = "line"
) -> InvalidSpecError:
    """Return the error of a place in a log.

    Args:
        path: The file.
        line: Number of the line or record, 0 for the whole file.
        problem: What is wrong, and what to do.
        column: Field it is about, "" for none.
        unit: What is numbered: line or record.

    Example:
        >>> from perfatlas.telemetry.reading import refuse
        >>> str(refuse("a.log", 7, "not a time", column="End"))
        "log 'a.log', line 7, column 'End': not a time"
    """
    where = f", {unit} {line}" if line else ""
    field = f", column '{column}'" if column else ""
    return InvalidSpecError(f"log '{path}'{where}{field}: {problem}")
