"""Bottlenecks of an answer in a few rows: bounds of each step, and its slowest operators."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from perfatlas.report.text.breakdown import (
    BOUND_STYLES,
    break_name,
    hidden_summary,
    phase_table,
    phase_title,
    phases_of,
)
from perfatlas.report.text.quantities import MISSING, format_share, format_value
from perfatlas.report.text.terminal import print_line, print_plain

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.console import Console
    from rich.table import Table

    Row = Mapping[str, Any]

MOST_OPERATORS: Final = 5
MOST_PHASES: Final = 4
SIDE_BY_SIDE: Final = 2  # phases
LEAST_WIDTH: Final = 78  # columns of two phases side by side
NAME_WIDTH: Final = 28


def print_bottlenecks(
    console: Console, breakdown: Sequence[Row], *, most: int = MOST_OPERATORS
) -> None:
    """Write the bounds of each step, then its slowest operators; the others share one row.

    Args:
        console: From `open_terminal`.
        breakdown: The `breakdown` of an answer.
        most: Number of operators with their own row; 0 for steps only.
    """
    phases = phases_of(breakdown)
    for phase, rows in list(phases.items())[:MOST_PHASES]:
        print_line(console, phase_title(phase, rows, width=console.width), style="bold")
        if hidden := hidden_summary(rows):
            print_line(console, f"  {hidden}")
        if most and (len(phases) == 1 or console.width < LEAST_WIDTH):
            print_plain(console, phase_table(rows, width=console.width, most=most))
    if most and len(phases) == SIDE_BY_SIDE and console.width >= LEAST_WIDTH:
        print_plain(console, _both(phases, most))


def slowest(phases: Mapping[str, Sequence[Row]], most: int) -> list[str]:
    """Return the operators with the largest share of any phase, largest first.

    Args:
        phases: From `phases_of`.
        most: Maximum number, or one more if only one would remain.

    Example:
        >>> from perfatlas.report.text.bottlenecks import slowest
        >>> rows = [{"name": "attention", "share": 0.7}, {"name": "norm", "share": 0.3}]
        >>> slowest({"prefill": rows[1:], "decode": rows}, 5)
        ['attention', 'norm']
    """
    shares: dict[str, float] = {}
    for rows in phases.values():
        for row in rows:
            name = str(row.get("name", MISSING))
            shares[name] = max(shares.get(name, 0.0), float(row.get("share") or 0.0))
    ranked = sorted(shares, key=shares.__getitem__, reverse=True)
    return ranked if len(ranked) == most + 1 else ranked[:most]


def _both(phases: Mapping[str, Sequence[Row]], most: int) -> Table:
    """Return a table of the slowest operators in two phases side by side."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False)
    table.add_column("  operator", no_wrap=True, header_style="dim")
    for phase in phases:
        table.add_column(phase, justify="right", no_wrap=True, header_style="dim")
        table.add_column("share", justify="right", no_wrap=True, header_style="dim")
        table.add_column("bound", no_wrap=True, header_style="dim")
    names = slowest(phases, most)
    for name in names:
        cells = [cell for rows in phases.values() for cell in _cells(_named(rows, name))]
        table.add_row(break_name(name, NAME_WIDTH), *cells)
    rest = {
        phase: [r for r in rows if r.get("name") not in names] for phase, rows in phases.items()
    }
    count = len({row.get("name") for rows in rest.values() for row in rows})
    if count:
        cells = [cell for rows in rest.values() for cell in _sums(rows)]
        table.add_row(f"  {count} others", *cells)
    return table


def _named(rows: Sequence[Row], name: str) -> Row:
    return next((row for row in rows if row.get("name") == name), {})


def _cells(row: Row) -> list[Any]:
    from rich.text import Text

    if not row:
        return [MISSING, "", ""]
    bound = str(row.get("bound") or MISSING)
    time = format_value("time_s", row.get("time_s"))
    share = format_share(float(row.get("share") or 0.0))
    return [time, share, Text(bound, style=BOUND_STYLES.get(bound, ""))]


def _sums(rows: Sequence[Row]) -> list[str]:
    time_s = sum(float(row.get("time_s") or 0.0) for row in rows)
    share = sum(float(row.get("share") or 0.0) for row in rows)
    return [format_value("time_s", time_s), format_share(share), ""] if rows else ["", "", ""]
