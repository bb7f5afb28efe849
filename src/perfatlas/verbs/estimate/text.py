"""Throughput against interactivity, one point per batch, as a chart a terminal can show."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from perfatlas.report.text import (
    format_number,
    format_value,
    headline,
    print_closing,
    print_line,
    print_plain,
    speaks_unicode,
    subheadline,
)
from perfatlas.vocabulary.metrics import METRICS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.console import Console

X: Final = "output_tokens_per_s_per_user"
Y: Final = "output_tokens_per_s_per_gpu"
HEIGHT: Final = 16
WIDEST: Final = 100
MARGIN: Final = 10  # columns left of the vertical axis
TABLE_ROWS: Final = 16
NARROW: Final = 60
NARROWEST: Final = 46
NEAR: Final = 1.05  # batches closer than this tell the same


class Alphabet(NamedTuple):
    """Characters a chart is drawn with."""

    point: str
    line: str
    vertical: str
    horizontal: str
    corner: str


UNICODE: Final = Alphabet("●", "·", "│", "─", "└")
ASCII: Final = Alphabet("o", ".", "|", "-", "+")


def frontier_chart(rows: Sequence[Mapping[str, Any]], *, width: int, unicode: bool) -> str:
    """Return output tokens/s per GPU over those per user, points labelled with their batch.

    Args:
        rows: Points with `batch`, `output_tokens_per_s_per_gpu`, `output_tokens_per_s_per_user`.
        width: Columns to fill.
        unicode: Dots and lines, or ASCII.

    Example:
        >>> from perfatlas.verbs.estimate.text import frontier_chart
        >>> rows = [{"batch": 1, "output_tokens_per_s_per_gpu": 10.0,
        ...          "output_tokens_per_s_per_user": 80.0}]
        >>> frontier_chart(rows, width=40, unicode=False).splitlines()[0]
        '  output tokens/s per GPU'
    """
    alphabet = UNICODE if unicode else ASCII
    points = [(float(r[X]), float(r[Y]), str(r["batch"])) for r in rows if r.get(X) and r.get(Y)]
    if not points:
        return "  no point to draw"
    columns = max(20, min(width, WIDEST) - MARGIN - 2)
    x_top, y_top = _round_up(max(p[0] for p in points)), _round_up(max(p[1] for p in points))
    grid = [[" "] * columns for _ in range(HEIGHT)]
    places = [
        (round(x / x_top * (columns - 1)), HEIGHT - 1 - round(y / y_top * (HEIGHT - 1)), label)
        for x, y, label in points
    ]
    for (x0, y0, _), (x1, y1, _) in itertools.pairwise(places):
        _line(grid, (x0, y0), (x1, y1), alphabet.line)
    for column, line, _ in places:
        grid[line][column] = alphabet.point
    for column, line, label in sorted(places, key=lambda place: _rank(place[2], points)):
        _label(grid, column, line, label, alphabet)
    return "\n".join(_framed(grid, x_top=x_top, y_top=y_top, alphabet=alphabet))


def _rank(label: str, points: Sequence[tuple[float, float, str]]) -> int:
    """Return who gets a label first where they crowd: the ends, then powers of two."""
    if label in (points[0][2], points[-1][2]):
        return 0
    return 1 if label.isdigit() and int(label).bit_count() == 1 else 2


def _round_up(value: float) -> float:
    """Return the next 1, 1.5, 2, 2.5, 3, 4, 5, 6 or 8 times a power of ten."""
    scale = 10.0 ** math.floor(math.log10(value))
    steps = (1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0)
    return next(step * scale for step in steps if step * scale >= value * (1 - 1e-9))


def _line(grid: list[list[str]], start: tuple[int, int], end: tuple[int, int], mark: str) -> None:
    steps = max(abs(end[0] - start[0]), abs(end[1] - start[1]))
    for step in range(1, steps):
        column = round(start[0] + (end[0] - start[0]) * step / steps)
        line = round(start[1] + (end[1] - start[1]) * step / steps)
        grid[line][column] = mark


def _label(grid: list[list[str]], column: int, line: int, label: str, alphabet: Alphabet) -> None:
    """Write a label beside its point where that hides neither a point nor another label."""
    free = (" ", alphabet.line)
    width = len(grid[0])
    for row in (line, line - 1, line + 1):
        for first in (column + 1, column - len(label)):
            cells = range(first, first + len(label))
            around = range(max(first - 1, 0), min(first + len(label) + 1, width))
            if not (0 <= row < len(grid) and cells[0] >= 0 and cells[-1] < width):
                continue
            clear = all(grid[row][c] in free for c in cells)
            if clear and not any(grid[row][c].isdigit() for c in around):
                grid[row][first : first + len(label)] = label
                return


def _framed(grid: list[list[str]], *, x_top: float, y_top: float, alphabet: Alphabet) -> list[str]:
    ticks = {round(share * (HEIGHT - 1)): y_top * (1 - share) for share in (0, 1 / 3, 2 / 3, 1)}
    lines = [f"  {METRICS[Y].label}"]
    for number, cells in enumerate(grid):
        tick = format_number(ticks[number]) if number in ticks else ""
        lines.append(f"{tick:>{MARGIN - 1}} {alphabet.vertical}{''.join(cells)}".rstrip())
    columns = len(grid[0])
    lines.append(" " * MARGIN + alphabet.corner + alphabet.horizontal * columns)
    scale = [" "] * (MARGIN + columns + 8)
    for share in (0, 0.25, 0.5, 0.75, 1):
        text = format_number(x_top * share)
        first = MARGIN + 1 + round(share * (columns - 1)) - len(text) // 2
        first = min(first, MARGIN + 1 + columns - len(text))
        scale[first : first + len(text)] = text
    caption = METRICS[X].label
    return [*lines, "".join(scale).rstrip(), f"{caption:>{MARGIN + 1 + columns}}"]


def print_frontier(
    console: Console,
    answer: Mapping[str, Any],
    *,
    reproduce: str,
) -> None:
    """Write the chart, the points as a table, and what every answer ends with.

    Args:
        console: From `open_terminal`.
        answer: The `--json` object of the frontier.
        reproduce: The command line.
    """
    from rich.table import Table

    points = answer["results"]["frontier"]
    gpus = {"gpus": points[0]["gpus"]} if "gpus" in points[0] else {}
    print_line(console, headline({**answer, "results": gpus}), style="bold")
    if detail := subheadline(answer):
        print_line(console, detail)
    print_plain(console, "batch from 1 to the largest that fits; points are labelled with it\n")
    rows = distinct(points)
    chart = frontier_chart(rows, width=console.width, unicode=speaks_unicode(console))
    print_plain(console, chart + "\n")
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    narrow = console.width < NARROW
    names = {"batch": f"  {METRICS['frontier.batch'].label}"}
    for name in (Y, X, "ttft_s", "tpot_s"):
        label = METRICS[name].short_label
        names[name] = label.replace("/s/", "/s\nper ") if narrow else label
    if console.width < NARROWEST:
        del names["ttft_s"]
    for name in names.values():
        table.add_column(name, justify="right", no_wrap=True, header_style="dim")
    for row in _thinned(rows):
        table.add_row(*(format_value(name, row.get(name)) for name in names))
    print_plain(console, table)
    print_closing(console, answer, reproduce=reproduce)


def distinct(rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the rows without those whose batch nearly is the next one's; the largest stays.

    Args:
        rows: Points, smallest batch first.

    Example:
        >>> from perfatlas.verbs.estimate.text import distinct
        >>> [row["batch"] for row in distinct([{"batch": b} for b in (1, 2, 1180, 1184)])]
        [1, 2, 1184]
    """
    kept: list[Mapping[str, Any]] = []
    for row in reversed(rows):
        if not kept or kept[-1]["batch"] >= NEAR * row["batch"]:
            kept.append(row)
    return kept[::-1]


def _thinned(rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return at most `TABLE_ROWS` rows, evenly over the list, first and last among them."""
    if len(rows) <= TABLE_ROWS:
        return list(rows)
    picked = {round(i * (len(rows) - 1) / (TABLE_ROWS - 1)) for i in range(TABLE_ROWS)}
    return [rows[i] for i in sorted(picked)]
