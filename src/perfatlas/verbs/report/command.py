"""`perfatlas report`: saved answers and runs in one document."""

from __future__ import annotations

import json
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from cyclopts import Parameter

from perfatlas.commands.flags import OUTPUT, PageScript, WrittenFile
from perfatlas.commands.output import envelope, reproduced
from perfatlas.declarations import has_fields, page_of, without_defaults
from perfatlas.files import write_atomic
from perfatlas.quantities import InvalidSpecError, UsageError, printable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perfatlas.report.pages import Page

FORMATS: Final = (".html", ".md")
KEYS: Final = ("schema", "command", "scenario", "results", "breakdown", "evidence", "warnings")


@Parameter(name="*", group=OUTPUT)
@dataclass(frozen=True, kw_only=True)
class ReportFlags:
    """Where a report goes.

    Args:
        output: The report, an HTML page (.html), or Markdown (.md) with its charts as SVG beside.
        html_script: Source of plotly.js: inline (0.7 MB, works offline), cdn or the embedding page.
    """

    output: WrittenFile = Path("report.html")
    html_script: PageScript = None


def report(*answers: str, flags: ReportFlags | None = None) -> int:
    """Write a report; return the exit code.

    Args:
        answers: Files with answers of --json, or names of runs.
        flags: Where it goes.

    Raises:
        UsageError: There is no answer, or no format of this extension.
    """
    from perfatlas.report.pages import joined_page, page_html

    flags = flags or ReportFlags()
    if not answers:
        raise UsageError("missing an answer or a run; for example: perfatlas report answer.json")
    suffix = flags.output.suffix.lower()
    if suffix not in FORMATS:
        raise UsageError(f"--output {flags.output}: expected a file that ends in .html or .md")
    pages = [_page(answer) for answer in answers]
    line = shlex.join(["perfatlas", "report", *answers, "--output", str(flags.output)])
    whole = joined_page(pages, reproduce=line)
    if suffix == ".html":
        write_atomic(flags.output, page_html(whole, script=flags.html_script or "inline"))
    else:
        _write_markdown(flags.output, whole)
    sys.stderr.write(printable(f"perfatlas: report written to {flags.output}\n"))
    return 0


def write_report(
    *answers: str | Path, output: str | Path = "report.html", html_script: PageScript = None
) -> Path:
    """Write saved answers and runs of `sweep` as one document; return its path.

    Args:
        *answers: Files with answers of --json, or names of runs.
        output: The report, an HTML page (.html), or Markdown (.md) with its charts as SVG beside.
        html_script: Source of plotly.js: inline (0.7 MB, works offline), cdn or none.
    """
    path = Path(output)
    report(*map(str, answers), flags=ReportFlags(output=path, html_script=html_script))
    return path


def _write_markdown(path: Path, page: Page) -> None:
    """Write a report as Markdown, with each chart as an image beside it."""
    from perfatlas.report.charts import figure_bytes
    from perfatlas.report.pages import page_markdown

    files = [f"{path.stem}_{number}.svg" for number, _ in enumerate(page.charts(), 1)]
    for name, chart in zip(files, page.charts(), strict=True):
        write_atomic(path.with_name(name), figure_bytes([chart], "svg"))
    write_atomic(path, page_markdown(page, files))


def _page(place: str) -> Page:
    """Return the page of a file with an answer, or of a run."""
    if Path(place).suffix == ".json" or Path(place).is_file():
        answer = _read(Path(place))
        command, scenario = str(answer["command"]), answer["scenario"]
        verb = command.partition(" --")[0]
        asked = without_defaults(verb, scenario) if has_fields(verb) else scenario
        line = reproduced(command, asked) if has_fields(verb) else f"perfatlas {command}"
        page: Page = page_of(command)(answer, reproduce=line)
        return page
    return _run_page(place)


def _read(path: Path) -> Mapping[str, Any]:
    """Return an answer that --json wrote.

    Raises:
        InvalidSpecError: The file cannot be read, or has no answer.
    """
    try:
        answer = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as problem:
        raise InvalidSpecError(f"{path}: {problem}") from problem
    missing = [name for name in KEYS if not isinstance(answer, dict) or name not in answer]
    if missing:
        raise InvalidSpecError(
            f"{path}: no answer of perfatlas, as {missing[0]} is missing: write one with --json"
        )
    return dict(answer)


def _run_page(run: str) -> Page:
    """Return the page of a run of `sweep`.

    Raises:
        InvalidSpecError: There is no such run, or it is not complete.
    """
    from perfatlas.studies import find_run

    folder = find_run(run)
    summary = folder.summary()
    if summary is None:
        raise InvalidSpecError(f"run {folder.id} is not complete: finish it with sweep --resume")
    results = {"run": folder.id, **summary}
    answer = envelope("sweep", results=results, scenario={"study": folder.describe()["study"]})
    line = f"perfatlas runs show {folder.id}"
    page: Page = page_of("sweep")(answer, folder.pictured(), reproduce=line)
    return page
