"""`perfatlas report`: saved answers and runs in one document."""

from __future__ import annotations

import json
import math
import re
import shlex
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from cyclopts import Parameter

from perfatlas.answer import SCHEMA
from perfatlas.commands.flags import OUTPUT, PageScript, WrittenFile
from perfatlas.commands.output import reproduced, run_page
from perfatlas.declarations import commands, has_fields, page_of, without_defaults
from perfatlas.files import check_regular, exists, write_atomic
from perfatlas.hardware import names_file
from perfatlas.quantities import InvalidSpecError, UsageError, printable, repr_for_error
from perfatlas.studies import find_run
from perfatlas.version import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perfatlas.report.pages import Page

FORMATS: Final = (".html", ".md")
SHAPE: Final[
    Mapping[str, tuple[type, ...]]
] = {  # of an answer, by key: its type, and that of the items of a list
    "schema": (str,),
    "version": (str,),
    "command": (str,),
    "scenario": (dict,),
    "results": (dict,),
    "breakdown": (list, dict),
    "evidence": (dict,),
    "warnings": (list, str),
}
EVIDENCE: Final[Mapping[str, tuple[type, ...]]] = {
    "calibrations": (list, dict),
    "data_versions": (dict,),
    "assumptions": (list, str),
    "sources": (list, str),
}
MAX_BYTES: Final = 1 << 28  # of a file
MAX_LEVELS: Final = 24  # of nested values; an answer has 8
MAX_DIGITS: Final = 300  # of a number, which charts then can multiply
SURROGATE: Final = re.compile("[\\ud800-\\udfff]")  # half of a character
# what a page raises at a value of another form than its verb writes
OTHER_FORM: Final = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError)
LEFT_OUT: Final = (
    "charts that need {} are left out, since a report opens no file that an answer names"
)


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
    from perfatlas.verbs.report.conclusion import concluded

    flags = flags or ReportFlags()
    if not answers:
        raise UsageError("missing an answer or a run; for example: perfatlas report answer.json")
    suffix = flags.output.suffix.lower()
    if suffix not in FORMATS:
        raise UsageError(f"--output {flags.output}: expected a file that ends in .html or .md")
    pages = [_page(answer) for answer in answers]
    line = shlex.join(["perfatlas", "report", *answers, "--output", str(flags.output)])
    try:
        title, front, names = concluded([page.answer for page in pages])
    except OTHER_FORM as problem:
        raise InvalidSpecError(
            f"{', '.join(answers)}: results that {__version__} of perfatlas cannot compare, as"
            f" {type(problem).__name__}: {problem}; write the answers again with --json"
        ) from problem
    whole = joined_page(pages, reproduce=line, title=title, front=front, names=names)
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
    from perfatlas.report.pages import page_html, results_page

    if not (Path(place).suffix == ".json" or exists(place)):
        return run_page(find_run(place))
    answer = _read(Path(place))
    command, scenario = answer["command"], answer["scenario"]
    verb = command.partition(" --")[0]
    try:
        asked = without_defaults(verb, scenario) if has_fields(verb) else scenario
        line = reproduced(command, asked) if has_fields(verb) else f"perfatlas {command}"
        systems = [str(value) for name, value in scenario.items() if "system" in name]
        if named := [printable(name) for name in systems if names_file(name)]:
            warnings = [*answer["warnings"], LEFT_OUT.format(" and ".join(named))]
            return results_page({**answer, "warnings": warnings}, reproduce=line)
        page: Page = page_of(command)(answer, reproduce=line)
        page_html(page, script="none")  # charts read values too
    except OTHER_FORM as problem:
        raise InvalidSpecError(
            f"{place}: no answer that {__version__} of `perfatlas {verb}` writes, as its page has"
            f" {type(problem).__name__}: {problem}; write the answer again with --json"
        ) from problem
    return replace(page, answer=answer)


def _read(path: Path) -> Mapping[str, Any]:
    """Return an answer that --json wrote."""
    check_regular(path, "answer")
    try:
        if path.stat().st_size > MAX_BYTES:
            raise InvalidSpecError(f"{path} has more than {MAX_BYTES >> 20} MiB")
        answer = json.loads(path.read_text("utf-8"))
    except RecursionError as problem:
        raise InvalidSpecError(f"{path}: values are nested too deep") from problem
    except (OSError, ValueError) as problem:
        raise InvalidSpecError(f"{path}: {problem}") from problem
    if wrong := _wrong_value(answer, MAX_LEVELS) or _wrong_shape(answer):
        raise InvalidSpecError(f"{path}: no answer of perfatlas, as {wrong}: write one with --json")
    return dict(answer)


def _wrong_value(value: Any, levels: int) -> str:  # noqa: ANN401 - any JSON value
    """Return what no answer has: texts that are not Unicode, numbers too large, too many levels."""
    if isinstance(value, str) and not value.isascii() and SURROGATE.search(value):
        return f"{repr_for_error(value)} has half of a character"
    if isinstance(value, float) and not math.isfinite(value):
        return f"{value} is no finite number"
    if isinstance(value, int | float) and not abs(value) < 10**MAX_DIGITS:
        return f"a number has more than {MAX_DIGITS} digits"
    if not isinstance(value, dict | list):
        return ""
    if not levels:
        return f"it has more than {MAX_LEVELS} levels"
    parts = [*value, *value.values()] if isinstance(value, dict) else value
    return next(filter(None, (_wrong_value(part, levels - 1) for part in parts)), "")


def _wrong_shape(answer: Any) -> str:  # noqa: ANN401 - any JSON value
    """Return what the parts of an answer that all verbs share do not have."""
    parts = answer if isinstance(answer, dict) else {}
    checked: tuple[tuple[Any, Mapping[str, tuple[type, ...]]], ...] = (
        (parts, SHAPE),
        (parts.get("evidence"), EVIDENCE),
    )
    for where, shape in checked:
        for name, (kind, *of_items) in shape.items():
            if name not in where:
                return f"{name} is missing"
            value = where[name]
            if not isinstance(value, kind):
                return f"{name} is {repr_for_error(value)}"
            if of_items and not all(isinstance(item, of_items[0]) for item in where[name]):
                return f"{name} has an item of another type"
    if parts["schema"] != SCHEMA:
        return f"its schema is {repr_for_error(parts['schema'])}, not '{SCHEMA}'"
    verb = parts["command"].partition(" --")[0]
    return "" if verb in commands() else f"{repr_for_error(verb)} is no command"
