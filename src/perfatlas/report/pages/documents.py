"""Several pages as one, and a page as Markdown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from perfatlas.report.charts import alt_text
from perfatlas.report.pages.page import Chart, Command, Note, Page, Section, Table, Values
from perfatlas.report.text import typeset

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from perfatlas.report.pages.page import Block


def joined_page(
    pages: Sequence[Page],
    *,
    reproduce: str,
    title: str = "",
    front: Sequence[Section] = (),
    names: Sequence[str] = (),
) -> Page:
    """Return the pages of answers as one: what they conclude, then each answer, then evidence.

    Args:
        pages: One or more.
        title: By default that of the only page, or their number.
        front: The conclusion; its table is in place of key numbers side by side.
        names: Names of the pages, before the titles of their sections; by default numbers.
    """
    labels = dict.fromkeys(value.label for page in pages for value in page.values)
    values = [
        {value.label: _with_interval(value.value, value.interval) for value in page.values}
        for page in pages
    ]
    numbers = names or [str(number) for number, _ in enumerate(pages, 1)]
    rows = [[label, *(row.get(label, "-") for row in values)] for label in labels]
    answers = Table(head=("", *numbers), rows=rows)
    questions = [
        [number, page.title, page.subtitle] for number, page in zip(numbers, pages, strict=True)
    ]
    head = Table(head=("", "question", "conditions"), rows=questions, text_columns=(0, 1, 2))
    tabled = any(isinstance(block, Table) for one in front for block in one.blocks)
    sections = [
        *front,
        Section(title="Questions", blocks=[head]),
        *([] if tabled else [Section(title="Answers", blocks=[answers])]),
    ]
    evidence: list[Section] = []
    warnings: list[str] = []
    versions: dict[str, str] = {}
    for number, page in zip(numbers, pages, strict=True):
        before = f"{number}: " if len(pages) > 1 else ""
        sections += [_retitled(section, before) for section in page.shown]
        again = Section(title="Reproduce", blocks=[Command(line=page.reproduce)])
        evidence += [_retitled(section, before) for section in (*page.evidence, again)]
        warnings += [f"{before}{text}" for text in page.warnings]
        versions |= dict(page.versions)
    return Page(
        command="report",
        title=title or (pages[0].title if len(pages) == 1 else f"{len(pages)} answers"),
        sections=sections,
        evidence=evidence,
        warnings=warnings,
        reproduce=reproduce,
        versions=versions,
        has_figures=False,
    )


def _with_interval(value: str, interval: str) -> str:
    return f"{value} ({interval})" if interval else value


def _retitled(section: Section, before: str) -> Section:
    blocks = [
        Chart(figure=block.figure, title=f"{before}{block.title}")
        if isinstance(block, Chart)
        else block
        for block in section.blocks
    ]
    return Section(title=f"{before}{section.title}", blocks=blocks)


def page_markdown(page: Page, files: Sequence[str]) -> str:
    """Return a page as Markdown.

    Args:
        files: Names of the image files of its charts, in order.

    Example:
        >>> from perfatlas.report.pages import Page, page_markdown
        >>> page = Page(command="report", title="a_b", reproduce="perfatlas report a.json")
        >>> page_markdown(page, ()).splitlines()[0].replace(chr(92), "/")
        '# a/_b'
    """
    images = iter(files)
    lines = [f"# {_escaped(page.title)}", ""]
    for section in (*page.shown, *page.evidence):
        lines += [f"## {_escaped(section.title)}", ""]
        for block in section.blocks:
            lines += [*_block(block, images), ""]
    if page.warnings:
        lines += ["## Warnings", "", *(f"- {_escaped(text)}" for text in page.warnings), ""]
    versions = ", ".join(f"{name} {version}" for name, version in page.versions.items())
    lines += ["## Reproduce the report", "", *_code(page.reproduce), "", _escaped(versions), ""]
    return "\n".join(lines)


def _block(block: Block, images: Iterator[str]) -> list[str]:
    match block:
        case str():
            return [_escaped(block)]
        case Note():
            return [_escaped(block.text)]
        case Chart():
            return [f"![{_escaped(alt_text(block.title, block.figure))}]({next(images)})"]
        case Command():
            return _code(block.line)
        case Table() | Values():
            sides = [
                ":--" if index in block.text_columns else "--:"
                for index, _ in enumerate(block.head)
            ]
            return [_row(block.head), f"|{'|'.join(sides)}|", *map(_row, block.page_rows)]
        case _:
            return []


def _row(cells: Sequence[Any]) -> str:
    return f"| {' | '.join(map(_escaped, cells))} |"


def _code(line: str) -> list[str]:
    return ["```sh", line.replace("```", ""), "```"]


def _escaped(text: str) -> str:
    """Return a text of which Markdown reads nothing as a mark, in one line."""
    shown = typeset(" ".join(str(text).split()))
    return "".join(f"\\{letter}" if letter in "\\`*_[]<>|#" else letter for letter in shown)
