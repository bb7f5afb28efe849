"""The page of an answer: its content, its evidence and versions."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from perfatlas.report.pages.page import Page, Section, Table, TextOnly, Values
from perfatlas.report.text import (
    CALIBRATION_COLUMNS,
    METHODS,
    Value,
    evidence_headline,
    format_value,
    headline,
    interval_text,
    label_of,
    limited_text,
    limits_of,
    print_body,
    printed_results,
    question_lines,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from perfatlas.report.pages.page import Block

MAX_VALUES: Final = 4  # that a page begins with


def answer_page(
    answer: Mapping[str, Any],
    sections: Sequence[Section],
    *,
    reproduce: str,
    title: str = "",
    lines: Sequence[str] | None = None,
    values: Sequence[Value] = (),
    on_page: Callable[[], Iterable[Section]] = tuple,
    method: str = "",
    covered: str = "",
) -> Page:
    """Return the page of an answer, with its evidence, warnings and versions.

    Args:
        on_page: Returns the sections that only a page has.
        title: By default the headline of the answer.
        lines: Those of the question; by default its plan and its load.
        method: Description of the method; by default that of the tier.
        covered: What its intervals cover, if the method is set.
    """
    return Page(
        command=str(answer["command"]),
        title=title or headline(answer),
        lines=question_lines(answer) if lines is None else lines,
        values=values,
        sections=sections,
        on_page=on_page,
        evidence=_evidence(answer),
        warnings=answer["warnings"],
        reproduce=reproduce,
        versions=_versions(answer),
        answer=answer,
        method=method,
        covered=covered,
    )


def results_page(
    answer: Mapping[str, Any],
    *sections: Section,
    reproduce: str,
    shown: Values | None = None,
    on_page: Callable[[], Iterable[Section]] = tuple,
    **others: Any,  # noqa: ANN401 - as below
) -> Page:
    """Return any answer: its numbers with their intervals, on a page after its charts.

    Args:
        shown: Its numbers, where they are not those of all answers.
        on_page: Returns the charts that only a page has.
        **others: As for `answer_page`.
    """
    first = Section(blocks=[shown], on="terminal") if shown else answer_text(answer)
    if shown is None:
        results = answer["results"]
        limits = limits_of(results, tier=str(answer["evidence"].get("tier") or ""))
        brief = printed_results(results, limits=limits, brief=True)
        shown = Values(all=printed_results(results, limits=limits), brief=brief)
    values = (shown.brief or ()) if first.blocks[0] is not shown else shown.all
    last = [Section(title="Results", blocks=[shown])] if shown.all else []
    return answer_page(
        answer,
        [first, *sections],
        on_page=lambda: (*on_page(), *last),
        reproduce=reproduce,
        **{"values": values[:MAX_VALUES], **others},
    )


def answer_text(answer: Mapping[str, Any]) -> Section:
    """Return the numbers, the memory and the breakdown of an answer, as a terminal has them."""
    return Section(blocks=[TextOnly(write=partial(print_body, answer=answer))], on="terminal")


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
            label_of(name, short=short, item=results.get("item", "")),
            limited_text(format_value(name, results[name]), limits.get(name, "")),
            "" if name in limits else interval_text(results, name),
        )
        for name in names
        if results.get(name) is not None
    ]


def _evidence(answer: Mapping[str, Any]) -> list[Section]:
    """Return the evidence of an answer: method, calibrations, assumptions, sources."""
    evidence = answer["evidence"]
    blocks: list[Block] = []
    if evidence["tier"]:  # rows of a study have their own
        method = METHODS.get(evidence["tier"]) or evidence_headline(evidence)
        blocks.append(f"Confidence: {method}.")
    if calibrations := evidence.get("calibrations"):
        columns = {
            **CALIBRATION_COLUMNS,
            "measured with": lambda row: str(row.get("protocol") or ""),
        }
        blocks.append(Table.of(calibrations, columns, ("calibration", "measured with")))
    sections = [Section(title="Evidence", blocks=blocks)] if blocks else []
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
