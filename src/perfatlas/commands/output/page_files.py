"""The page of an answer as a file, and its charts as an image."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from perfatlas.commands.output.envelopes import envelope
from perfatlas.declarations import page_of
from perfatlas.files import write_atomic
from perfatlas.quantities import InvalidSpecError, printable

if TYPE_CHECKING:
    from perfatlas.commands.flags import PageFlags
    from perfatlas.report.pages import Page
    from perfatlas.studies import RunFolder


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
        write_atomic(flags.figure, figure_bytes(charts, figure_format(flags.figure)))
    for flag, path in flags.files().items():
        sys.stderr.write(printable(f"perfatlas: {flag} written to {path}{note}\n"))


def run_page(run: RunFolder) -> Page:
    """Return the page of a run of `sweep`.

    Raises:
        InvalidSpecError: It is not complete.
    """
    summary = run.summary()
    if summary is None:
        raise InvalidSpecError(f"run {run.id} is not complete: finish it with sweep --resume")
    results = {"run": run.id, **summary}
    answer = envelope("sweep", results=results, scenario={"study": run.describe()["study"]})
    page: Page = page_of("sweep")(answer, run.pictured(), reproduce=f"perfatlas runs show {run.id}")
    return page
