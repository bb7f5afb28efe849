"""`perfatlas search training`: the best layouts, why, and a table of all that were priced."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Final

from cyclopts import Parameter

from perfatlas.commands.flags import (
    CHART_TITLES,
    OUTPUT,
    SWITCH,
    File,
    PageFlags,
    set_flags,
    takes_fields,
)
from perfatlas.commands.output import late_lines, print_json, require, write_page_files
from perfatlas.declarations import example_of, verb_fields
from perfatlas.files import check_writable, table_format, write_table

if TYPE_CHECKING:
    from typing import Any

COMMAND: Final = "search training"
EVERY_S: Final = 2.0  # between two lines of progress


@Parameter(name="*", group=OUTPUT)
@dataclass(frozen=True, kw_only=True)
class LayoutSearchFlags:
    """Output of the search.

    Args:
        scenario: TOML file with the same names as the flags; flags take precedence.
        json: Print one JSON object in SI units instead of text.
        verbose: Print all rejected counts, calibrations, assumptions and sources.
        page: HTML page of the best layouts.
        output: Write every layout that was priced and fits (CSV, Parquet or JSON Lines).
    """

    scenario: File | None = None
    json: Annotated[bool, SWITCH] = False
    verbose: Annotated[bool, SWITCH] = False
    page: PageFlags = field(default_factory=PageFlags)
    output: File | None = None


@takes_fields(COMMAND)
def search_training(*, flags: object = None, output: LayoutSearchFlags | None = None) -> int:
    """Answer a search among training layouts; return the exit code."""
    from perfatlas.verbs.train.search.answer import search_training as search_answer

    output = output or LayoutSearchFlags()
    output.page.check(CHART_TITLES[COMMAND])
    set_fields: dict[str, Any] = set_flags(flags, output.scenario)
    needed = tuple(name for name, field in verb_fields(COMMAND).items() if field.required)
    require(set_fields, needed, example=example_of(COMMAND))
    if output.output is not None:
        table_format(str(output.output))
        check_writable(output.output)
    for path in output.page.files().values():
        check_writable(path)
    tell = late_lines(EVERY_S)
    answer = search_answer(
        progress=lambda done, total: tell(f"{done:,} of {total:,} layouts"), **set_fields
    )
    told = answer.to_dict()
    if output.output is not None:
        columns = answer.columns
        write_table(str(output.output), columns)
        count = len(columns["step_time_s"])
        sys.stderr.write(f"perfatlas: {count:,} layouts written to {output.output}\n")
    from perfatlas.report.text import open_terminal, reproduce_line
    from perfatlas.verbs.train.search.text import print_layouts

    line = reproduce_line(COMMAND, set_fields)
    if output.page.files():
        from perfatlas.verbs.train.search.page import layouts_page

        write_page_files(output.page, layouts_page(told, reproduce=line))
    if output.json:
        print_json(told)
        return 0
    print_layouts(
        open_terminal(sys.stdout),
        told,
        reproduce=line,
        rate_per_cpu_s=answer.layouts_per_cpu_s if output.verbose else None,
    )
    return 0
