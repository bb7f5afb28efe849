"""The summary of a table run: counts, the first error, warnings."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from perfatlas.quantities import counted, printable

if TYPE_CHECKING:
    from collections.abc import Mapping


def show_summary(
    command: str, summary: Mapping[str, Any], *, set_fields: Mapping[str, Any], as_json: bool
) -> int:
    """Write the summary of a table run; return exit code 0, since rows carry their own errors.

    Args:
        summary: From `answer_table`.
        set_fields: Flags set beside --table.
    """
    warnings = summary["warnings"]
    first_error = summary.get("first_error", "")
    separate = ("warnings", "first_error")
    summary = {name: value for name, value in summary.items() if name not in separate}
    for warning in warnings:
        sys.stderr.write(printable(f"perfatlas: {warning}\n"))
    if first_error:
        sys.stderr.write(printable(f"perfatlas: first error: {first_error}\n"))
    if as_json:
        from perfatlas.commands.output.answers import print_json
        from perfatlas.commands.output.envelopes import envelope

        answer = envelope(command, results=summary, scenario=set_fields, warnings=warnings)
        print_json(answer)
        return 0
    failed = f", {summary['failed']:,} with an error" if summary["failed"] else ""
    limits = summary.get("rows_in_tier_bound", 0)
    message = f"; {limits:,} in tier bound: limits, not predictions" if limits else ""
    text = (
        f"{counted(summary['rows'], 'row')} in {summary['elapsed_s']:.2f} s: "
        f"{summary['answered']:,} answered{failed}{message}\n{summary['output']}\n"
    )
    sys.stdout.write(printable(text))
    return 0
