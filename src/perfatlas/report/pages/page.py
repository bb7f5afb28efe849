"""What a page holds: plain data, which the shell lays out and escapes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence


@dataclass(frozen=True, kw_only=True)
class Value:
    """One of the numbers a page begins with.

    Args:
        label: What it is.
        value: With its unit.
        interval: Its 90% interval, or "".
    """

    label: str
    value: str
    interval: str = ""


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table; cells are shown as they are.

    Args:
        head: Titles of columns.
        rows: Cells (rows, columns).
        text_columns: Columns that are text and may wrap; the others are numbers at the right.
        dim_rows: Rows that say more about the one above.
        colours: Of rows, as a chart above has them, or none.
    """

    kind: ClassVar = "table"
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    text_columns: Collection[int] = (0,)
    dim_rows: Collection[int] = ()
    colours: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True)
class Chart:
    """A figure.

    Args:
        figure: A figure of plotly, from `report.charts`.
        title: What it shows; also for those who cannot see it.
    """

    kind: ClassVar = "chart"
    figure: Any
    title: str


@dataclass(frozen=True, kw_only=True)
class Command:
    """A command line, to be copied.

    Args:
        line: The command.
    """

    kind: ClassVar = "command"
    line: str


Block = str | Table | Chart | Command


@dataclass(frozen=True, kw_only=True)
class Section:
    """Paragraphs, tables and charts under a title.

    Args:
        title: Of the section.
        blocks: In order; a text is a paragraph.
    """

    title: str
    blocks: Sequence[Block]


@dataclass(frozen=True, kw_only=True)
class Page:
    """An answer as a page: the answer first, why, how far to trust it, how to get it again.

    Args:
        command: The verb.
        title: What was asked.
        subtitle: Under which conditions.
        summary: Sentences that answer it.
        values: Numbers that answer it.
        sections: Intervals, charts and tables.
        evidence: What the numbers rest on.
        warnings: What a reader should know before trusting them.
        reproduce: The command line that gives the page again.
        versions: Of programs and data, by name.
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
