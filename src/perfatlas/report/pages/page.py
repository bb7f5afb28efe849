"""Content of a page as plain data; the template lays it out and escapes it.

A notebook shows its head, key numbers and main chart; an image file has its charts.
"""

from __future__ import annotations

import base64
import shlex
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Any, ClassVar, Final

from perfatlas.quantities import MissingDependencyError, UsageError
from perfatlas.report.charts import alt_text, drawn_figure, figure_bytes
from perfatlas.report.text import cells_of, typeset

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from perfatlas.report.charts import Drawing

MAX_SHOWN: Final = 6  # key numbers of a notebook


@dataclass(frozen=True, kw_only=True)
class Value:
    """A key number at the top of a page."""

    label: str
    value: str
    interval: str = ""  # 90% interval, or ""


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table of text cells."""

    kind: ClassVar = "table"
    head: Sequence[str]
    rows: Sequence[Sequence[str]]  # Cells (rows, columns)
    # Indices of text columns, which may wrap; others are right-aligned numbers
    text_columns: Collection[int] = (0,)
    dim_rows: Collection[int] = ()  # Indices of rows that detail the row above
    colours: Sequence[str] = ()  # Colors of rows, as in a chart above, or empty

    @classmethod
    def of(
        cls,
        rows: Sequence[Mapping[str, Any]],
        columns: Mapping[str, str | Callable[[Mapping[str, Any]], str]],
        texts: Collection[str] = (),
    ) -> Table:
        """Return a table of rows of an answer.

        Args:
            columns: By title, what `cells_of` reads a cell from.
            texts: Titles of text columns.
        """
        return cls(
            head=tuple(columns),
            rows=[list(cells.values()) for cells in cells_of(rows, columns)],
            text_columns=[index for index, title in enumerate(columns) if title in texts],
        )


@dataclass(frozen=True, kw_only=True)
class Chart:
    """A chart."""

    kind: ClassVar = "chart"
    figure: Drawing  # A drawing of `report.charts`
    title: str  # Title, also used for accessibility

    @property
    def alt(self) -> str:
        """The chart in a sentence."""
        return alt_text(self.title, self.figure)


@dataclass(frozen=True, kw_only=True)
class Command:
    """A command line to copy."""

    kind: ClassVar = "command"
    line: str


Block = str | Table | Chart | Command


@dataclass(frozen=True, kw_only=True)
class Section:
    """A titled section of paragraphs, tables and charts."""

    title: str
    blocks: Sequence[Block]  # Blocks in order; a text is a paragraph
    most: int | None = None  # Rows of tables, parts of a whole in the brief text; None for all
    is_detail: bool = False  # Whether the brief text omits it

    @classmethod
    def charted(
        cls, title: str, figure: Drawing, *blocks: Block, most: int | None = None
    ) -> Section:
        """Return a section that begins with a chart of the same title."""
        return cls(title=title, blocks=[Chart(figure=figure, title=title), *blocks], most=most)


@dataclass(frozen=True, kw_only=True)
class Page:
    """A page: the answer, its explanation, its evidence, and the command that reproduces it."""

    command: str
    title: str
    subtitle: str = ""
    summary: Sequence[str] = ()
    values: Sequence[Value] = ()
    sections: Sequence[Section] = ()
    evidence: Sequence[Section] = ()
    warnings: Sequence[str] = ()  # Warnings to read before relying on them
    reproduce: str
    versions: Mapping[str, str] = field(default_factory=dict)
    has_figures: bool = True  # Whether the command writes charts with --figure

    def charts(self) -> list[tuple[str, Drawing]]:
        """Return the charts with their titles, in order."""
        blocks = [block for section in self.sections for block in section.blocks]
        return [(block.title, block.figure) for block in blocks if isinstance(block, Chart)]

    def figure_line(self, title: str) -> str:
        """Return the command line that writes a chart as a file, "" if there is none."""
        flags = shlex.join(["--figure", "chart.svg", "--figure-chart", title])
        return f"{self.reproduce} {flags}" if self.has_figures else ""

    def chosen(self, source: str, title: str | None) -> list[tuple[str, Drawing]]:
        """Return the charts with their titles, or the one of a title.

        Args:
            source: What names the chart, for messages: a flag or an argument.
            title: A title, or a part of one, in any case; None for all charts.

        Raises:
            UsageError: The page has no chart, or not exactly one of this title.
        """
        charts = self.charts()
        if not charts:
            flag = "--figure: " if source.startswith("--") else ""
            advice = "; leave --figure out" if flag else ""
            raise UsageError(f"{flag}this answer has no chart{advice}")
        if title is None:
            return charts
        word = title.casefold()
        matches = [chart for chart in charts if chart[0].casefold() == word]
        matches = matches or [chart for chart in charts if word in chart[0].casefold()]
        if len(matches) != 1:
            titles = "; ".join(title for title, _ in charts)
            many = "several charts have it in the title"
            problem = many if matches else "no chart has this title"
            raise UsageError(f"{source} '{title}': {problem}; the charts are: {titles}")
        return matches

    def plot(self, kind: str | None) -> Any:  # noqa: ANN401 - a figure of matplotlib
        """Return the charts, or the one of a title, as a figure of matplotlib.

        Raises:
            MissingDependencyError: matplotlib is not installed.
            UsageError: There is no such chart.
        """
        return drawn_figure(self.chosen("kind", kind))

    def text(self) -> str:
        """Return the question and the key numbers with their intervals as a few lines."""
        lines = [self._head()]
        for value in self.values[:MAX_SHOWN]:
            interval = f" ({value.interval})" if value.interval else ""
            lines.append(f"  {value.label}: {value.value}{interval}")
        if self.warnings:
            lines.append(f"  {self._warned()}")
        return "\n".join(lines)

    def _head(self) -> str:
        named = self.title if self.title.startswith(self.command) else ""
        return f"perfatlas {named or f'{self.command}: {self.title}'}"

    def _warned(self) -> str:
        count = len(self.warnings)
        return f"{count} warning{'' if count == 1 else 's'}: {self.warnings[0]}"

    def part(self) -> str:
        """Return the question, the key numbers and the main chart as HTML for a notebook."""
        rows = [
            f"<tr><th style='text-align:left'>{_escaped(value.label)}</th>"
            f"<td>{_escaped(value.value)}</td><td>{_escaped(value.interval)}</td></tr>"
            for value in self.values[:MAX_SHOWN]
        ]
        head = f"<b>{_escaped(self._head())}</b>"
        warned = f"<p>{_escaped(self._warned())}</p>" if self.warnings else ""
        table = "<tr><th></th><th></th><th>90% interval</th></tr>"
        return f"<div>{head}<table>{table}{''.join(rows)}</table>{warned}{self._picture()}</div>"

    def _picture(self) -> str:
        """Return the main chart as an element, or what it needs; empty without a chart."""
        charts = self.charts()[:1]
        if not charts:
            return ""
        try:
            drawn = base64.b64encode(figure_bytes(charts, "svg")).decode()
        except MissingDependencyError as problem:
            return f"<p>{_escaped(str(problem))}</p>"
        alt = escape(alt_text(*charts[0]))
        return (
            f"<img style='max-width:100%;background:white' alt=\"{alt}\""
            f" src='data:image/svg+xml;base64,{drawn}'>"
        )


def _escaped(text: str) -> str:
    return escape(typeset(text))
