"""`perfatlas fleet report`: a fleet or a failure history as an HTML page."""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from perfatlas.commands.flags import SWITCH, File, PageScript, changed_flags
from perfatlas.commands.output import envelope, print_json, require
from perfatlas.declarations import example_of
from perfatlas.files import check_writable, write_atomic
from perfatlas.quantities import printable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perfatlas.report.charts import Script


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class ReportFlags:
    """Output of the page.

    Args:
        output: The HTML page.
        html_script: Source of plotly.js: inline (0.7 MB, works offline), cdn or the embedding page.
        json: Print the contents as one JSON object.
    """

    output: Annotated[File | None, Parameter(alias="-o")] = None
    html_script: PageScript = None
    json: Annotated[bool, SWITCH] = False


def report(subject: str, /, *, flags: ReportFlags | None = None) -> int:
    """Write a report; return the exit code.

    Args:
        subject: A fleet (llama3, rsc1 or a TOML file) or a history (a table of fleet import).
        flags: Output of the page.
    """
    from perfatlas.reliability.fleet.model import shipped_fleets

    flags = flags or ReportFlags()
    if not flags.json:
        require(changed_flags(flags), ("output",), example=example_of("fleet report"))
    if flags.output is not None:
        check_writable(flags.output)
    is_fleet = subject in shipped_fleets() or Path(subject).suffix == ".toml"
    facts = _fleet(subject) if is_fleet else _history(subject)
    if flags.output is not None:
        _write(flags.output, subject, facts, script=flags.html_script or "inline")
    if flags.json:
        print_json(envelope("fleet report", results=facts, scenario={"subject": subject}))
    return 0


def _fleet(subject: str) -> dict[str, Any]:
    from perfatlas.reliability.fleet.model import fleet_facts, read_evidence, resolve_fleet

    return {
        "fleet": fleet_facts(resolve_fleet(subject)),
        "evidence": read_evidence(subject),
    }


def _history(subject: str) -> dict[str, Any]:
    from perfatlas.reliability.telemetry.history import history_facts, read_history

    return {"history": history_facts(read_history(subject))}


def _write(path: File, subject: str, facts: Mapping[str, Any], *, script: Script) -> None:
    from perfatlas.report.pages import page_html
    from perfatlas.verbs.fleet.history import history_page
    from perfatlas.verbs.fleet.page import fleet_page

    name = Path(subject).name
    line = shlex.join(["perfatlas", "fleet", "report", subject, "--output", str(path)])
    if "fleet" in facts:
        page = fleet_page(name, facts["fleet"], facts["evidence"], reproduce=line)
    else:
        page = history_page(name, facts["history"], reproduce=line)
    write_atomic(path, page_html(page, script=script))
    sys.stderr.write(printable(f"perfatlas: --output written to {path}\n"))
