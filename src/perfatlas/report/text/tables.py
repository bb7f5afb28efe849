"""Several tables in one output: as many rows as fit a screen, or all of them."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from perfatlas.quantities import counted
from perfatlas.report.text.rows import print_rows
from perfatlas.report.text.terminal import open_terminal, print_line

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.console import Console

SCREEN_LINES: Final = 33
MIN_ROWS: Final = 3  # of a table that is shown in part
CLOSING_LINES: Final = 4  # reserved for what --verbose shows


class TitledRows(NamedTuple):
    """A table: its title, rows, keys to show with their titles, and whether it may be shortened."""

    title: str
    rows: Sequence[Mapping[str, Any]]  # As for `print_rows`
    columns: Mapping[str, str] | None = None  # As for `print_rows`
    detail: bool = False  # Whether brief output omits the table


def print_tables(
    console: Console, tables: Sequence[TitledRows], *, verbose: bool = False, used: int = 0
) -> None:
    """Write tables in order; unless verbose, only rows that fit a screen, and what is omitted.

    Args:
        tables: The most important first; empty ones are skipped.
        used: Lines that are already on the screen.
    """
    room = SCREEN_LINES - CLOSING_LINES - used
    omitted: list[str] = []
    for table in tables:
        rows = len(table.rows)
        most = rows if verbose else 0 if table.detail else _rows_that_fit(table, console, room)
        if most:
            print_rows(console, table.rows[:most], columns=table.columns, title=table.title)
            room -= _lines_of(table, most, console)
        if most < rows:
            omitted.append(f"{table.title or 'table'} ({_count_text(rows, most)})")
    if omitted:
        print_line(console, f"--verbose shows {', '.join(omitted)}", style="dim")


def _count_text(rows: int, printed: int) -> str:
    return f"{rows - printed:,} more" if printed else counted(rows, "row")


def _rows_that_fit(table: TitledRows, console: Console, room: int) -> int:
    """Return how many rows of a table fit; none if fewer than three of more do."""
    rows = len(table.rows)
    most = next(
        (n for n in range(min(rows, room), 0, -1) if _lines_of(table, n, console) <= room), 0
    )
    return most if most == rows or most >= MIN_ROWS else 0


def _lines_of(table: TitledRows, most: int, console: Console) -> int:
    """Return the lines of the first rows of a table."""
    stream = io.StringIO()
    plain = open_terminal(stream, width=console.width, environ={})
    print_rows(plain, table.rows[:most], columns=table.columns, title=table.title)
    return stream.getvalue().count("\n")
