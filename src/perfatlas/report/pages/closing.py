"""The page of an answer: its content, its evidence and versions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from perfatlas.report.pages.page import Page, Section, Table, Value
from perfatlas.report.text import (
    CALIBRATION_COLUMNS,
    METHODS,
    evidence_headline,
    format_value,
    headline,
    interval_text,
    label_of,
    limited_text,
    limits_of,
    printed_results,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from perfatlas.report.pages.page import Block
    from perfatlas.report.text import Shown

MAX_VALUES: Final = 4  # that a page begins with


def answer_page(
    answer: Mapping[str, Any],
    *,
    title: str,
    subtitle: str = "",
    values: Sequence[Value] = (),
    sections: Sequence[Section],
    reproduce: str,
) -> Page:
    """Return the page of an answer, with its evidence, warnings and versions."""
    return Page(
        command=str(answer["command"]),
        title=title,
        subtitle=subtitle,
        values=values,
        sections=sections,
        evidence=_evidence(answer),
        warnings=answer["warnings"],
        reproduce=reproduce,
        versions=_versions(answer),
    )


def results_page(
    answer: Mapping[str, Any],
    *,
    reproduce: str,
    sections: Sequence[Section] = (),
    title: str = "",
    lines: Sequence[Shown] = (),
) -> Page:
    """Return the page of any answer: its numbers with their intervals, after its charts.

    Args:
        title: By default the headline of the answer.
        lines: Its numbers, where they are not those of all answers.
    """
    results = answer["results"]
    limits = limits_of(results, tier=str(answer["evidence"].get("tier") or ""))
    shown = lines or printed_results(results, limits=limits)
    brief = lines or printed_results(results, limits=limits, brief=True)
    rows = [(row.label, row.value, row.interval) for row in shown]
    table = Table(head=("", "value", "90% interval"), rows=rows)
    return answer_page(
        answer,
        title=title or headline(answer),
        values=[
            Value(label=row.label, value=row.value, interval=row.interval)
            for row in brief[:MAX_VALUES]
        ],
        sections=[*sections, *([Section(title="Results", blocks=[table])] if rows else [])],
        reproduce=reproduce,
    )


def key_values(
    results: Mapping[str, Any], names: Iterable[str], *, tier: str = "", short: bool = False
) -> list[Value]:
    """Return metrics as key numbers, without unknown ones; limits have "≥" or "≤" before them.

    Args:
        tier: Tier of the answer; all times and rates of tier bound are limits.
    """
    limits = limits_of(results, tier=tier)
    return [
        Value(
            label=label_of(name, short=short, item=results.get("item", "")),
            value=limited_text(format_value(name, results[name]), limits.get(name, "")),
            interval="" if name in limits else interval_text(results, name),
        )
        for name in names
        if results.get(name) is not None
    ]


def _evidence(answer: Mapping[str, Any]) -> list[Section]:
    """Return the evidence of an answer: method, calibrations, assumptions, sources."""
    evidence = answer["evidence"]
    method = METHODS.get(evidence["tier"]) or evidence_headline(evidence)
    blocks: list[Block] = [f"Confidence: {method}."]
    if calibrations := evidence.get("calibrations"):
        columns = {
            **CALIBRATION_COLUMNS,
            "measured with": lambda row: str(row.get("protocol") or ""),
        }
        blocks.append(Table.of(calibrations, columns, ("calibration", "measured with")))
    sections = [Section(title="Evidence", blocks=blocks)]
    for title, name in (("Assumptions", "assumptions"), ("Sources", "sources")):
        if texts := evidence.get(name):
            sections.append(Section(title=title, blocks=[str(text) for text in texts]))
    return sections


def _versions(answer: Mapping[str, Any]) -> dict[str, str]:
    """Return the program and data versions of an answer."""
    evidence = answer["evidence"]
    calibrations = {calibration["id"] for calibration in evidence.get("calibrations") or ()}
    data = {
        str(name): str(version)
        for name, version in (evidence.get("data_versions") or {}).items()
        if name not in calibrations
    }
    return {"perfatlas": str(answer["version"]), **data}
