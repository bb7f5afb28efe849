"""The page of an answer as a file, and its charts as an image."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from perfatlas.files import write_atomic
from perfatlas.quantities import printable

if TYPE_CHECKING:
    from perfatlas.commands.flags import PageFlags
    from perfatlas.report.pages import Page


def write_page_files(flags: PageFlags, page: Page, *, note: str = "") -> None:
    """Write the HTML page and the image that are asked for, and say so on stderr.

    Raises:
        UsageError: The page has no chart, or none of the wanted title.
    """
    from perfatlas.report.charts import figure_bytes, figure_format
    from perfatlas.report.pages import page_html

    if flags.html is not None:
        write_atomic(flags.html, page_html(page, script=flags.script))
    if flags.figure is not None:
        charts = page.chosen("--figure-chart", flags.figure_chart)
        write_atomic(flags.figure, figure_bytes(charts, figure_format(flags.figure), page.heading))
    for flag, path in flags.files().items():
        sys.stderr.write(printable(f"perfatlas: {flag} written to {path}{note}\n"))
