"""Content of a page as plain data; the template lays it out and escapes it.

A notebook shows its head, key numbers and main chart; an image file has its charts.
"""

from __future__ import annotations

import base64
import shlex
from dataclasses import dataclass, field
from functools import cached_property
from html import escape
from typing import TYPE_CHECKING, Any, ClassVar, Final

from perfatlas.quantities import MissingDependencyError, UsageError
from perfatlas.report import charts
from perfatlas.report.text import cells_of, typeset

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from perfatlas.report.charts import Drawing
    from perfatlas.report.text import Value

MAX_SHOWN: Final = 6  # key numbers of a notebook
MAX_VALUE: Final = 100  # letters of one of them, which may be a list


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
    # Titles of columns that a narrow terminal leaves out, the last one first; all others stay. None
    # leaves out the last columns
    optional: Sequence[str] | None = None
    details: Collection[str] = ()  # Titles of columns that a brief text leaves out
    most_on_page: int | None = None  # Rows of a page; None for all

    @property
    def page_rows(self) -> Sequence[Sequence[str]]:
        """The rows of a page."""
        return self.rows[: self.most_on_page]

    @classmethod
    def of(
        cls,
        rows: Sequence[Mapping[str, Any]],
        columns: Mapping[str, str | Callable[[Mapping[str, Any]], str]],
        texts: Collection[str] = (),
        **looks: Any,  # noqa: ANN401 - other fields
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
            **looks,
        )


@dataclass(frozen=True, kw_only=True)
class Values:
    """Numbers with their intervals, one below the other; a table of a page."""

    kind: ClassVar = "table"
    all: Sequence[Value]
    brief: Sequence[Value] | None = None  # Those of a brief text; None for all
    text_columns: ClassVar = (0,)
    dim_rows: ClassVar = ()
    colours: ClassVar = ()

    @property
    def head(self) -> list[str]:
        """Titles; a column over seeds where they differ."""
        return ["", "value", "90% interval", "over seeds, 90%"][: self._columns]

    @property
    def rows(self) -> list[Sequence[str]]:
        """Cells (rows, columns), all on a page."""
        return [value[: self._columns] for value in self.all]

    page_rows = rows

    @property
    def _columns(self) -> int:
        return 4 if any(value.seeds for value in self.all) else 3


@dataclass(frozen=True, kw_only=True)
class Chart:
    """A chart; in a terminal a share of a whole, or the first line over a number."""

    kind: ClassVar = "chart"
    figure: Drawing  # A drawing of `report.charts`
    title: str  # Title, also used for accessibility
    lines: int = 0  # Height of a line over a number in a brief text; 0 for none

    @property
    def alt(self) -> str:
        """The chart in a sentence."""
        return charts.alt_text(self.title, self.figure)


@dataclass(frozen=True, kw_only=True)
class Command:
    """A command line to copy."""

    kind: ClassVar = "command"
    line: str
    label: str = ""  # What is before it in a terminal


@dataclass(frozen=True)
class Note:
    """A paragraph that is shorter, or missing, in a brief text; one that is not is a `str`."""

    kind: ClassVar = "note"
    text: str
    brief: str = ""


@dataclass(frozen=True, kw_only=True)
class TextOnly:
    """What only a terminal draws, and leaves out of pages."""

    kind: ClassVar = "text"
    write: Callable[..., None]  # From a console and `verbose`


Block = str | Note | Table | Values | Chart | Command | TextOnly


@dataclass(frozen=True, kw_only=True)
class Section:
    """A titled section; in a terminal the first one, and one without a title, has no heading."""

    title: str = ""
    blocks: Sequence[Block]  # Blocks in order; a text is a paragraph
    most: int | None = None  # Rows of tables, parts of a whole in the brief text; None for all
    is_detail: bool = False  # Whether the brief text omits it
    on: str = ""  # Where alone it is shown: "page", "terminal", "brief" of a terminal

    @classmethod
    def charted(cls, title: str, figure: Drawing, *blocks: Block, **others: Any) -> Section:  # noqa: ANN401 - fields
        """Return a section that begins with a chart of the same title."""
        return cls(title=title, blocks=[Chart(figure=figure, title=title), *blocks], **others)


@dataclass(frozen=True, kw_only=True)
class Page:
    """An answer: its question, numbers and blocks, evidence, and the command that reproduces it."""

    command: str
    title: str
    lines: Sequence[str] = ()  # Of the question
    summary: Sequence[str] = ()
    values: Sequence[Value] = ()
    sections: Sequence[Section] = ()
    # Returns the sections that only a page has, after the others
    on_page: Callable[[], Iterable[Section]] = tuple
    evidence: Sequence[Section] = ()
    warnings: Sequence[str] = ()  # Warnings to read before relying on them
    reproduce: str
    versions: Mapping[str, str] = field(default_factory=dict)
    has_figures: bool = True  # Whether the command writes charts with --figure
    # What a terminal closes with: the envelope, its method where its tier does not say it, and what
    # its intervals cover
    answer: Mapping[str, Any] = field(default_factory=dict)
    method: str = ""
    covered: str = ""

    @property
    def subtitle(self) -> str:
        """The question in a line."""
        return "; ".join(self.lines)

    @property
    def heading(self) -> str:
        """The title and the question, for an image without the page."""
        return "; ".join(filter(None, (self.title, self.subtitle)))

    @cached_property
    def shown(self) -> list[Section]:
        """The sections of an HTML page or a Markdown document."""
        return [*(one for one in self.sections if one.on in ("", "page")), *self.on_page()]

    def charts(self) -> list[tuple[str, Drawing]]:
        """Return the charts with their titles, in order."""
        blocks = [block for section in self.shown for block in section.blocks]
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
        return charts.drawn_figure(self.chosen("kind", kind), self.heading)

    def text(self) -> str:
        """Return the question and the key numbers with their intervals as a few lines."""
        lines = [self._head()]
        for value in self.values[:MAX_SHOWN]:
            interval = f" ({value.interval})" if value.interval else ""
            lines.append(f"  {value.label}: {_cut(value.value)}{interval}")
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
            f"<td>{_escaped(_cut(value.value))}</td><td>{_escaped(value.interval)}</td></tr>"
            for value in self.values[:MAX_SHOWN]
        ]
        head = f"<b>{_escaped(self._head())}</b>"
        warned = f"<p>{_escaped(self._warned())}</p>" if self.warnings else ""
        table = "<tr><th></th><th></th><th>90% interval</th></tr>"
        return f"<div>{head}<table>{table}{''.join(rows)}</table>{warned}{self._picture()}</div>"

    def _picture(self) -> str:
        """Return the main chart as an element, or what it needs; empty without a chart."""
        main = self.charts()[:1]
        if not main:
            return ""
        try:
            drawn = base64.b64encode(charts.figure_bytes(main, "svg")).decode()
        except MissingDependencyError as problem:
            return f"<p>{_escaped(str(problem))}</p>"
        alt = escape(charts.alt_text(*main[0]))
        return (
            f"<img style='max-width:100%;background:white' alt=\"{alt}\""
            f" src='data:image/svg+xml;base64,{drawn}'>"
        )


def _cut(value: str) -> str:
    return value if len(value) <= MAX_VALUE else f"{value[: MAX_VALUE - 4]} ..."


def _escaped(text: str) -> str:
    return escape(typeset(text))
