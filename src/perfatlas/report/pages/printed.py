"""An answer in a terminal: its question, its blocks and its evidence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfatlas.answer import BOTTLENECK
from perfatlas.report import charts, text
from perfatlas.report.pages import page as parts

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from rich.console import Console

VERBOSE_LINES: Final = 16  # height of a chart


def print_page(console: Console, page: parts.Page, *, verbose: bool = False) -> None:
    """Write a page to a console; unless verbose, it fits one screen.

    Args:
        verbose: Whether to write details and all rows.
    """
    text.print_line(console, page.title, style="bold")
    for line in (*page.lines, *page.summary):
        text.print_line(console, line)
    for warning in page.warnings:
        if warning.startswith(BOTTLENECK):
            text.print_line(console, text.typeset(warning), style="yellow")
    console.print()
    _print_sections(console, page.sections, verbose=verbose)
    if page.answer:
        text.print_closing(
            console,
            page.answer,
            reproduce=page.reproduce,
            method=page.method,
            covered=page.covered,
            verbose=verbose,
        )
    else:
        console.print()
        for warning in page.warnings:
            text.print_line(console, f"warning: {warning}", style="yellow")
        text.print_plain(console, f"reproduce: {page.reproduce}", style="dim", wrap=False)


def _print_sections(console: Console, sections: Sequence[parts.Section], *, verbose: bool) -> None:
    """Write sections with their headings, but the first; of charts, what a terminal draws."""
    left_out = ("page", "brief") if verbose else ("page",)
    shown = [
        one
        for one in sections
        if one.on not in left_out
        and (verbose or not one.is_detail)
        and any(map(_is_drawn, one.blocks))
    ]
    for section in shown:
        blocks = [one for one in section.blocks if _is_drawn(one)]
        curve = isinstance(blocks[0], parts.Chart) and blocks[0].lines
        if section.title and not curve and section is not shown[0]:
            console.print()
            text.print_line(console, section.title[:1].lower() + section.title[1:], style="bold")
        elif section is not shown[0]:
            console.print()
        most = None if verbose else section.most
        _print_blocks(console, blocks, most=most, verbose=verbose)


def _is_drawn(block: parts.Block) -> bool:
    """Return whether a terminal has a block: of charts, shares of a whole and some curves."""
    return not isinstance(block, parts.Chart) or (
        isinstance(block.figure, charts.Waterfall) or bool(block.lines)
    )


def _print_blocks(
    console: Console,
    blocks: Sequence[parts.Block],
    *,
    most: int | None = None,
    verbose: bool = False,
) -> None:
    """Write blocks.

    Args:
        most: Rows of tables with titles, and parts of a whole; by default all.
    """
    for before, block in zip((None, *blocks), blocks, strict=False):
        if isinstance(before, parts.Table) and isinstance(block, parts.Table) and block.head[0]:
            console.print()
        match block:
            case str():
                text.print_line(console, block)
            case parts.Note():
                if words := block.text if verbose else block.brief:
                    text.print_line(console, words)
            case parts.Values():
                brief = block.all if verbose or block.brief is None else block.brief
                text.print_values(console, brief)
            case parts.Command():
                text.print_plain(console, f"{block.label}{block.line}", wrap=False)
            case parts.TextOnly():
                block.write(console, verbose=verbose)
            case parts.Table():
                _print_table(console, block, most, () if verbose else block.details)
            case parts.Chart(figure=charts.Waterfall() as figure):
                text.print_waterfall(console, figure.rows, figure.labels, most=most)
            case parts.Chart(figure=charts.LineChart() as figure) if block.lines:
                _print_curve(console, figure, VERBOSE_LINES if verbose else block.lines)
            case _:
                pass


def _print_table(
    console: Console, table: parts.Table, most: int | None, left_out: Collection[str]
) -> None:
    """Write a table: labels and texts, aligned numbers, or columns of which the first ones fit."""
    match table.head:
        case ("", ""):
            text.print_labelled(console, [(label, words) for label, words in table.rows])
        case ("", *heads) if table.optional is None:
            text.print_aligned(console, table.rows, heads if len(heads) > 1 else ())
        case head:
            shown = table.rows[:most]
            if table.optional is not None:
                text.print_cells(console, head, shown, table.text_columns, table.optional)
            else:
                rows = [dict(zip(head, row, strict=True)) for row in shown]
                titles = {title: title for title in head if title not in left_out}
                texts = [head[at] for at in table.text_columns]
                text.print_rows(console, rows, columns=titles, texts=texts)
            text.print_more(console, len(table.rows) - len(shown))


def _print_curve(console: Console, figure: charts.LineChart, height: int) -> None:
    """Draw the first line of a chart, over its axes from 0."""
    curve = figure.lines[0]
    texts = curve.texts or [""] * len(curve.x)
    chart = text.line_chart(
        list(zip(curve.x, curve.y, texts, strict=True)),
        titles=(figure.x.title, f"{figure.y.title}, {curve.name}"),
        width=console.width,
        unicode=text.speaks_unicode(console),
        height=height,
        joined=not curve.is_dotted,
    )
    text.print_plain(console, chart)
