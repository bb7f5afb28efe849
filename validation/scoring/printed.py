"""Results of a validation as text or as one JSON object."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from perfatlas.commands.output import envelope, print_json
from perfatlas.quantities import ValidationGateError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Row = dict[str, Any]


def print_results(
    verb: str,
    results: Mapping[str, Any],
    columns: Mapping[str, Mapping[str, str]],
    titles: Mapping[str, str],
    *,
    json: bool,
) -> int:
    """Print the tables of a validation, and return its exit code.

    Args:
        verb: Name of the command.
        columns: Headings of the columns of each table, by part of the results.
        titles: Title of each table.
        json: Print one JSON object with all parts instead.
    """
    if json:
        print_json(envelope(f"validation {verb}", results=dict(results), scenario={}))
        return 0
    from perfatlas.report.text import open_terminal, print_rows

    console = open_terminal(sys.stdout)
    for part, shown in columns.items():
        print_rows(console, results[part], columns=shown, title=titles[part])
    return 0


def failed_gates(failures: Sequence[str]) -> int:
    """Print exceeded budgets; return 7, or 0 for none."""
    for failure in failures:
        sys.stderr.write(f"perfatlas: gate failed: {failure}\n")
    return ValidationGateError.exit_code if failures else 0


def with_units(row: Row) -> Row:
    """Return a row with published and predicted values as text in the unit of its metric.

    Args:
        row: With `metric`.
    """
    from perfatlas.report.text import format_value

    names = [name for name in ("published", "predicted", "low", "high") if row[name] is not None]
    return row | {name: format_value(row["metric"], row[name]) for name in names}
