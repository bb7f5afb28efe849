"""Content of a page as plain data; the template lays it out and escapes it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from perfatlas.report.charts import Drawing


@dataclass(frozen=True, kw_only=True)
class Value:
    """A key number at the top of a page.

    Args:
        value: Value with its unit.
        interval: 90% interval, or "".
    """

    label: str
    value: str
    interval: str = ""


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table of text cells.

    Args:
        head: Column titles.
        rows: Cells (rows, columns).
        text_columns: Indices of text columns, which may wrap; others are right-aligned numbers.
        dim_rows: Indices of rows that detail the row above.
        colours: Colors of rows, as in a chart above, or empty.
    """

    kind: ClassVar = "table"
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    text_columns: Collection[int] = (0,)
    dim_rows: Collection[int] = ()
    colours: Sequence[str] = ()

    @classmethod
    def of(
        cls,
        rows: Sequence[Mapping[str, Any]],
        columns: Mapping[str, Callable[[Mapping[str, Any]], str]],
        texts: Collection[str] = (),
    ) -> Table:
        """Return a table of rows of an answer.

        Args:
            columns: By title, the function that returns the cell of a row.
            texts: Titles of text columns.
        """
        return cls(
            head=tuple(columns),
            rows=[[cell(row) for cell in columns.values()] for row in rows],
            text_columns=[place for place, title in enumerate(columns) if title in texts],
        )


@dataclass(frozen=True, kw_only=True)
class Chart:
    """A chart.

    Args:
        figure: A drawing of `report.charts`.
        title: Title, also used for accessibility.
    """

    kind: ClassVar = "chart"
    figure: Drawing
    title: str


@dataclass(frozen=True, kw_only=True)
class Command:
    """A command line to copy."""

    kind: ClassVar = "command"
    line: str


Block = str | Table | Chart | Command


@dataclass(frozen=True, kw_only=True)
class Section:
    """A titled section of paragraphs, tables and charts.

    Args:
        blocks: Blocks in order; a text is a paragraph.
    """

    title: str
    blocks: Sequence[Block]

    @classmethod
    def charted(cls, title: str, figure: Drawing, *blocks: Block) -> Section:
        """Return a section that begins with a chart of the same title."""
        return cls(title=title, blocks=[Chart(figure=figure, title=title), *blocks])


@dataclass(frozen=True, kw_only=True)
class Page:
    """A page: the answer, its explanation, its evidence, and the command that reproduces it.

    Args:
        command: The verb.
        title: The question.
        subtitle: Conditions.
        summary: Summary sentences.
        values: Key numbers.
        sections: Intervals, charts and tables.
        evidence: Evidence for the numbers.
        warnings: Warnings to read before relying on them.
        versions: Versions of programs and data, by name.
    """

    command: str
    title: str
    subtitle: str = ""
    summary: Sequence[str] = ()
    values: Sequence[Value] = ()
    sections: Sequence[Section] = ()
    evidence: Sequence[Section] = ()
    warnings: Sequence[str] = ()
    reproduce: str
    versions: Mapping[str, str] = field(default_factory=dict)

    def charts(self) -> list[tuple[str, Drawing]]:
        """Return the charts with their titles, in order."""
        blocks = [block for section in self.sections for block in section.blocks]
        return [(block.title, block.figure) for block in blocks if isinstance(block, Chart)]
