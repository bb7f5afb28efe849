"""A chart of points joined by lines, for terminals."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Final, NamedTuple

from perfatlas.report.text.quantities import format_number

if TYPE_CHECKING:
    from collections.abc import Sequence

WIDEST: Final = 100
MARGIN: Final = 10  # columns to the left of the vertical axis


class Alphabet(NamedTuple):
    """Characters used to draw a chart."""

    point: str
    line: str
    vertical: str
    horizontal: str
    corner: str


UNICODE: Final = Alphabet("●", "·", "│", "─", "└")
ASCII: Final = Alphabet("o", ".", "|", "-", "+")


def line_chart(
    points: Sequence[tuple[float, float, str]],
    *,
    titles: tuple[str, str],
    width: int,
    unicode: bool,
    height: int,
    joined: bool = True,
) -> str:
    """Return a chart of points, both axes from 0.

    Args:
        points: Horizontal and vertical values above 0, and labels, "" for none.
        titles: Titles of the horizontal and the vertical axis.
        height: Lines between the axes.
        joined: Whether the points are joined in the given order.

    Example:
        >>> from perfatlas.report.text import line_chart
        >>> chart = line_chart([(80.0, 10.0, "")], titles=("x", "y"), width=40, unicode=False,
        ...     height=3)
        >>> chart.splitlines()[:2]
        ['  y', '       10 |                           o']
    """
    alphabet = UNICODE if unicode else ASCII
    if not points:
        return "  no points to draw"
    columns = max(20, min(width, WIDEST) - MARGIN - 2)
    x_top, y_top = _round_up(max(p[0] for p in points)), _round_up(max(p[1] for p in points))
    grid = [[" "] * columns for _ in range(height)]
    cells = [
        (round(x / x_top * (columns - 1)), height - 1 - round(y / y_top * (height - 1)), label)
        for x, y, label in points
    ]
    for (x0, y0, _), (x1, y1, _) in itertools.pairwise(cells if joined else ()):
        _line(grid, (x0, y0), (x1, y1), alphabet.line)
    for column, line, _ in cells:
        grid[line][column] = alphabet.point
    for column, line, label in sorted(cells, key=lambda cell: _rank(cell[2], points)):
        if label:
            _label(grid, column, line, label, alphabet)
    return "\n".join(_framed(grid, tops=(x_top, y_top), titles=titles, alphabet=alphabet))


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


def _framed(
    grid: list[list[str]],
    *,
    tops: tuple[float, float],
    titles: tuple[str, str],
    alphabet: Alphabet,
) -> list[str]:
    (x_top, y_top), (caption, title) = tops, titles
    last = len(grid) - 1
    ticks = {round(share * last): y_top * (1 - share) for share in (0, 1 / 3, 2 / 3, 1)}
    lines = [f"  {title}"]
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
    return [*lines, "".join(scale).rstrip(), f"{caption:>{MARGIN + 1 + columns}}"]
