"""`perfatlas search training`: the best layouts, why, and a table of all that were priced."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final

from cyclopts import Parameter

from perfatlas.commands.flags import OUTPUT, SWITCH, File, set_flags, takes_fields
from perfatlas.commands.output import print_json, require
from perfatlas.declarations import example_of, verb_fields
from perfatlas.files import check_writable, table_format, write_table

if TYPE_CHECKING:
    from typing import Any

COMMAND: Final = "search training"
SLOW_S: Final = 1.5
EVERY_S: Final = 0.5


@Parameter(name="*", group=OUTPUT)
@dataclass(frozen=True, kw_only=True)
class LayoutSearchFlags:
    """Output of the search.

    Args:
        scenario: TOML file with the same names as the flags; flags take precedence.
        json: Print one JSON object in SI units instead of text.
        verbose: Print all rejected counts, calibrations, assumptions and sources.
        output: Write every layout that was priced and fits (CSV, Parquet or JSON Lines).
    """

    scenario: File | None = None
    json: Annotated[bool, SWITCH] = False
    verbose: Annotated[bool, SWITCH] = False
    output: File | None = None


class _Progress:
    """A line on stderr with the layouts that are decided, after a while."""

    def __init__(self) -> None:
        self._started = self._told = time.monotonic()
        self._shown = False

    def __call__(self, done: int, total: int) -> None:
        """Show how many layouts are priced or excluded.

        Args:
            done: Layouts that are decided.
            total: All layouts.
        """
        now = time.monotonic()
        if now - self._started < SLOW_S or now - self._told < EVERY_S:
            return
        self._told = now
        start = "\r\033[K" if sys.stderr.isatty() else ""
        end = "" if sys.stderr.isatty() else "\n"
        if end and self._shown:
            return
        self._shown = True
        sys.stderr.write(f"{start}perfatlas: {done:,} of {total:,} layouts{end}")
        sys.stderr.flush()

    def clear(self) -> None:
        """Remove the line of a terminal."""
        if self._shown and sys.stderr.isatty():
            sys.stderr.write("\r\033[K")


@takes_fields(COMMAND)
def search_training(*, flags: object = None, output: LayoutSearchFlags | None = None) -> int:
    """Answer a search among training layouts; return the exit code.

    Args:
        flags: The search.
        output: Output of the answer.
    """
    from perfatlas.verbs.train.search.answer import search_training as search_answer

    output = output or LayoutSearchFlags()
    set_fields: dict[str, Any] = set_flags(flags, output.scenario)
    needed = tuple(name for name, field in verb_fields(COMMAND).items() if field.required)
    require(set_fields, needed, example=example_of(COMMAND))
    if output.output is not None:
        table_format(str(output.output))
        check_writable(output.output)
    progress = _Progress()
    try:
        answer = search_answer(progress=progress, **set_fields)
    finally:
        progress.clear()
    told = answer.to_dict()
    if output.output is not None:
        columns = answer.columns
        write_table(str(output.output), columns)
        count = len(columns["step_time_s"])
        sys.stderr.write(f"perfatlas: {count:,} layouts written to {output.output}\n")
    if output.json:
        print_json(told)
        return 0
    from perfatlas.report.text import open_terminal, reproduce_line
    from perfatlas.verbs.train.search.text import print_layouts

    line = reproduce_line(COMMAND, set_fields)
    print_layouts(
        open_terminal(sys.stdout),
        told,
        reproduce=line,
        rate_per_cpu_s=answer.layouts_per_cpu_s if output.verbose else None,
    )
    return 0
