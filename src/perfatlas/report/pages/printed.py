"""Sections of a page in a terminal: their texts, tables and shares of a whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.report.charts import Waterfall
from perfatlas.report.pages.page import Chart, Table
from perfatlas.report.text import (
    print_aligned,
    print_heading,
    print_labelled,
    print_line,
    print_more,
    print_rows,
    print_waterfall,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from perfatlas.report.pages.page import Block, Section


def print_sections(console: Console, sections: Sequence[Section], *, verbose: bool = False) -> None:
    """Write sections with their headings; of charts, only shares of a whole are drawn.

    Args:
        verbose: Whether to write details and all rows.
    """
    for section in sections:
        if verbose or not section.is_detail:
            print_heading(console, section.title[:1].lower() + section.title[1:])
            print_blocks(console, section.blocks, most=None if verbose else section.most)


def print_blocks(console: Console, blocks: Sequence[Block], *, most: int | None = None) -> None:
    """Write texts, tables and shares of a whole.

    A table without titles lists labels and texts, one whose first title is empty aligns numbers.

    Args:
        most: Rows of tables with titles, and parts of a whole; by default all.
    """
    for before, block in zip((None, *blocks), blocks, strict=False):
        if isinstance(before, Table) and isinstance(block, Table) and block.head[0]:
            console.print()
        match block:
            case str():
                print_line(console, block)
            case Table(head=("", "")):
                print_labelled(console, [(label, text) for label, text in block.rows])
            case Table(head=("", *heads)):
                print_aligned(console, block.rows, heads if len(heads) > 1 else ())
            case Table():
                rows = [dict(zip(block.head, row, strict=True)) for row in block.rows[:most]]
                texts = [block.head[index] for index in block.text_columns]
                print_rows(console, rows, texts=texts)
                print_more(console, len(block.rows) - len(rows))
            case Chart(figure=Waterfall() as figure):
                print_waterfall(console, figure.rows, figure.labels, most=most)
            case _:
                pass
