"""`perfatlas fleet report`: a fleet or a history of failures on one page, in plain words."""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

from cyclopts import Parameter

from perfatlas.commands.flags import SWITCH, File, PageScript, given
from perfatlas.commands.output import envelope, print_json, require
from perfatlas.files import check_writable, write_atomic

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perfatlas.report.charts import Script

EXAMPLE: Final = "perfatlas fleet report fleet.toml --output page.html"


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class ReportFlags:
    """Where the page goes.

    Args:
        output: The page, HTML.
        html_script: Where the page gets plotly.js: inline (2 MB in the page, which opens without a
            network), cdn (a link to cdn.plot.ly) or none (the page that embeds it has it).
        json: Print what is on it as one JSON object.
    """

    output: Annotated[File | None, Parameter(alias="-o")] = None
    html_script: PageScript = None
    json: Annotated[bool, SWITCH] = False


def report(subject: str, /, *, flags: ReportFlags | None = None) -> int:
    """Return the exit code of a report.

    Args:
        subject: A fleet: llama3, rsc1 or a TOML file; or a history: a table of fleet import.
        flags: Where the page goes.
    """
    from perfatlas.fleet.model import shipped_fleets

    flags = flags or ReportFlags()
    if not flags.json:
        require(given(flags), ("output",), example=EXAMPLE)
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
    from perfatlas.fleet.model import fleet_facts, read_evidence, resolve_fleet

    return {
        "fleet": fleet_facts(resolve_fleet(subject)),
        "evidence": read_evidence(subject),
    }


def _history(subject: str) -> dict[str, Any]:
    from perfatlas.telemetry.history import history_facts, read_history

    return {"history": history_facts(read_history(subject))}


def _write(path: File, subject: str, facts: Mapping[str, Any], *, script: Script) -> None:
    from perfatlas.verbs.fleet.history import history_page
    from perfatlas.verbs.fleet.page import fleet_page

    name = Path(subject).name
    line = shlex.join(["perfatlas", "fleet", "report", subject, "--output", str(path)])
    if "fleet" in facts:
        page = fleet_page(name, facts["fleet"], facts["evidence"], reproduce=line, script=script)
    else:
        page = history_page(name, facts["history"], reproduce=line, script=script)
    write_atomic(path, page)
    sys.stderr.write(f"perfatlas: --output written to {path}\n")
