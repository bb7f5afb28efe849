"""Terminal chart of throughput versus interactivity, with one point per batch."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from perfatlas.report.text import (
    format_number,
    format_value,
    interval_text,
    limits_of,
    print_closing,
    print_plain,
    print_question,
    speaks_unicode,
)
from perfatlas.vocabulary.metrics import METRICS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.console import Console
    from rich.table import Table

X: Final = "output_tokens_per_s_per_user"
Y: Final = "output_tokens_per_s_per_gpu"
HEIGHT: Final = 16
LOW: Final = 8  # lines of the chart of a brief answer
WIDEST: Final = 100
MARGIN: Final = 10  # columns to the left of the vertical axis
TABLE_ROWS: Final = 16
FEW_ROWS: Final = 6  # of a brief answer
WIDE: Final = 76
NARROW: Final = 60
NARROWEST: Final = 46
NEAR: Final = 1.05  # batches closer than this ratio are redundant


class Alphabet(NamedTuple):
    """Characters used to draw a chart."""

    point: str
    line: str
    vertical: str
    horizontal: str
    corner: str


UNICODE: Final = Alphabet("●", "·", "│", "─", "└")
ASCII: Final = Alphabet("o", ".", "|", "-", "+")


def frontier_chart(
    rows: Sequence[Mapping[str, Any]], *, width: int, unicode: bool, height: int = HEIGHT
) -> str:
    """Return a chart of output tokens/s per GPU over those per user, labelled with batches.

    Args:
        rows: Points with `batch`, `output_tokens_per_s_per_gpu`, `output_tokens_per_s_per_user`.
        width: Width in columns.
        unicode: Use Unicode characters instead of ASCII.
        height: Lines between the axes.

    Example:
        >>> from perfatlas.verbs.estimate.text import frontier_chart
        >>> rows = [{"batch": 1, "output_tokens_per_s_per_gpu": 10.0,
        ...          "output_tokens_per_s_per_user": 80.0}]
        >>> frontier_chart(rows, width=40, unicode=False).splitlines()[0]
        '  output tokens/s per GPU, by batch'
    """
    alphabet = UNICODE if unicode else ASCII
    points = [(float(r[X]), float(r[Y]), str(r["batch"])) for r in rows if r.get(X) and r.get(Y)]
    if not points:
        return "  no points to draw"
    columns = max(20, min(width, WIDEST) - MARGIN - 2)
    x_top, y_top = _round_up(max(p[0] for p in points)), _round_up(max(p[1] for p in points))
    grid = [[" "] * columns for _ in range(height)]
    places = [
        (round(x / x_top * (columns - 1)), height - 1 - round(y / y_top * (height - 1)), label)
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
    """Return the priority of a label: the ends first, then powers of two."""
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
    """Write a label beside its point unless it would hide a point or another label."""
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
    last = len(grid) - 1
    ticks = {round(share * last): y_top * (1 - share) for share in (0, 1 / 3, 2 / 3, 1)}
    lines = [f"  {METRICS[Y].label}, by {METRICS['frontier.batch'].label}"]
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
    console: Console, answer: Mapping[str, Any], *, reproduce: str, verbose: bool = False
) -> None:
    """Write the chart, the points as a table, and the common end of answers.

    Args:
        console: From `open_terminal`.
        answer: The `--json` object of the frontier.
        reproduce: The command line that reproduces it.
        verbose: Whether to print a larger chart, more points and all evidence.
    """
    points = answer["results"]["frontier"]
    gpus = {"gpus": points[0]["gpus"]} if "gpus" in points[0] else {}
    print_question(console, {**answer, "results": gpus})
    rows = distinct(points)
    chart = frontier_chart(
        rows,
        width=console.width,
        unicode=speaks_unicode(console),
        height=HEIGHT if verbose else LOW,
    )
    print_plain(console, chart + "\n")
    tier = str((answer.get("evidence") or {}).get("tier") or "")
    most = TABLE_ROWS if verbose else FEW_ROWS
    print_plain(console, _points_table(_thinned(rows, most), width=console.width, tier=tier))
    print_closing(console, answer, reproduce=reproduce, verbose=verbose)


def _points_table(rows: Sequence[Mapping[str, Any]], *, width: int, tier: str) -> Table:
    """Return a table of points: limits say so in their titles, others have their interval."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    limits = limits_of(rows[0], tier=tier)
    names = ["batch", Y, X, *(["ttft_s"] if width >= NARROWEST else []), "tpot_s"]
    shown = {name: _title(name, limits.get(name, ""), narrow=width < NARROW) for name in names}
    for title in shown.values():
        table.add_column(title, justify="right", no_wrap=True, header_style="dim")
    has_intervals = width >= WIDE and not limits and f"{Y}_low" in rows[0]
    if has_intervals:
        title = f"{METRICS[Y].short_label}, 90%"
        table.add_column(title, justify="right", no_wrap=True, header_style="dim")
    for row in rows:
        cells = [format_value(name, row.get(name)) for name in shown]
        table.add_row(*cells, *([interval_text(row, Y)] if has_intervals else []))
    return table


def _title(name: str, limit: str, *, narrow: bool) -> str:
    """Return the title of a column; of a limit, "at least" or "at most" in a line below."""
    if name == "batch":
        return f"  {METRICS['frontier.batch'].label}"
    label = METRICS[name].short_label
    title = label.replace("/s/", "/s\nper ") if narrow else label
    return f"{title}\n{limit}" if limit else title


def distinct(rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the rows without those whose batch is close to the next one; the maximum is kept.

    Args:
        rows: Points in ascending order of batch.

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


def _thinned(rows: Sequence[Mapping[str, Any]], most: int) -> list[Mapping[str, Any]]:
    """Return at most `most` rows, evenly spaced, including the first and last."""
    if len(rows) <= most:
        return list(rows)
    picked = {round(i * (len(rows) - 1) / (most - 1)) for i in range(most)}
    return [rows[i] for i in sorted(picked)]
