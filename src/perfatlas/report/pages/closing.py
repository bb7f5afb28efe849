"""Closing sections of every page: evidence and versions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from perfatlas.report.pages.page import Section, Table
from perfatlas.report.text import evidence_headline, format_share

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from perfatlas.report.pages.page import Block


def answer_evidence(answer: Mapping[str, Any], *, method: str = "") -> list[Section]:
    """Return the evidence of an answer: method, calibrations, assumptions, sources.

    Args:
        answer: The `--json` object of a computing verb.
        method: Description of the method; derived from tier and calibrations by default.
    """
    evidence = answer["evidence"]
    blocks: list[Block] = [f"Confidence: {method or evidence_headline(evidence)}."]
    if calibrations := evidence.get("calibrations"):
        blocks.append(_calibrations(calibrations))
    sections = [Section(title="Evidence", blocks=blocks)]
    for title, name in (("Assumptions", "assumptions"), ("Sources", "sources")):
        if texts := evidence.get(name):
            sections.append(Section(title=title, blocks=[str(text) for text in texts]))
    return sections


def answer_versions(answer: Mapping[str, Any]) -> dict[str, str]:
    """Return the program and data versions of an answer.

    Args:
        answer: The `--json` object of a computing verb.
    """
    evidence = answer["evidence"]
    calibrations = {calibration["id"] for calibration in evidence.get("calibrations") or ()}
    data = {
        str(name): str(version)
        for name, version in (evidence.get("data_versions") or {}).items()
        if name not in calibrations
    }
    return {"perfatlas": str(answer["version"]), **data}


def _calibrations(calibrations: Sequence[Mapping[str, Any]]) -> Table:
    rows = [
        (
            str(calibration["id"]),
            f"{int(calibration.get('rows') or 0):,}",
            _error(calibration.get("median_error")),
            _error(calibration.get("p90_error")),
            str(calibration.get("protocol") or ""),
        )
        for calibration in calibrations
    ]
    head = ("calibration", "rows", "median error", "p90 error", "measured with")
    return Table(head=head, rows=rows, text_columns=(0, 4))


def _error(error: float | None) -> str:
    return "-" if error is None else format_share(error)
