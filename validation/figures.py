"""Draw the figures of the validation pages as SVG.

`python -m validation.figures` scores the published serving runs and the printed cache capacities
again (it needs `pip install 'perfatlas[silicon]'` and half a minute), reads the recorded errors of
kernels and of the failure simulator, and writes validation/pages/figures. `--check` exits 1 where
a figure is out of date.
"""

from __future__ import annotations

import math
import re
import sys
import tomllib
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

ROOT: Final = Path(__file__).parents[1]
FOLDER: Final = ROOT / "validation" / "pages" / "figures"
SAMPLES: Final = ROOT / "validation" / "data" / "kernel_samples.toml"
WIDTH: Final = 760
PANEL: Final = 210  # side of a scatter panel
MARGIN: Final = 46
ROW: Final = 18  # height of a row of dots
LABELS: Final = 260  # width of row labels
TARGET: Final = 0.9  # nominal coverage of intervals
BLUE, ORANGE, GREY = "#2f6fb0", "#d9772b", "#8a8f98"
STYLE: Final = "font-family='sans-serif' font-size='11' fill='#30343b'"


class Point(NamedTuple):
    """A measured value and its prediction."""

    measured: float
    predicted: float


class Dots(NamedTuple):
    """A row of a chart: its label, a dot per value, and a mark, NaN for none."""

    label: str
    values: Sequence[float]
    mark: float = math.nan


def svg(height: float, parts: Iterable[str]) -> str:
    """Return a document of a height with white background.

    Args:
        height: Height [px].
        parts: Elements.
    """
    size = f"width='{WIDTH}' height='{height:g}' viewBox='0 0 {WIDTH} {height:g}'"
    head = f"<svg xmlns='http://www.w3.org/2000/svg' {size} {STYLE}>"
    back = f"<rect width='{WIDTH}' height='{height:g}' fill='#ffffff'/>"
    return "\n".join([head, back, *parts, "</svg>", ""])


def text(x: float, y: float, content: str, *, anchor: str = "start", extra: str = "") -> str:
    """Return a text element at a position [px]."""
    return f"<text x='{x:g}' y='{y:g}' text-anchor='{anchor}' {extra}>{escape(content)}</text>"


def line(x1: float, y1: float, x2: float, y2: float, colour: str, *, dash: str = "") -> str:
    """Return a line element between two positions [px]."""
    dashed = f" stroke-dasharray='{dash}'" if dash else ""
    ends = f"x1='{x1:.1f}' y1='{y1:.1f}' x2='{x2:.1f}' y2='{y2:.1f}'"
    return f"<line {ends} stroke='{colour}'{dashed}/>"


def scatter(panels: Mapping[str, Sequence[Point]], unit: str) -> str:
    """Return predicted against measured values, a panel each, on equal logarithmic axes.

    Args:
        panels: Points by title, at most three panels.
        unit: What is compared, with its unit.
    """
    values = [value for points in panels.values() for point in points for value in point]
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    parts = [text(WIDTH / 2, 16, f"{unit}: predicted against measured", anchor="middle")]
    for number, (title, points) in enumerate(panels.items()):
        left = MARGIN + number * (PANEL + 32)
        parts += _panel(left, title, points, (low, high))
    return svg(PANEL + 96, parts)


def _panel(left: float, title: str, points: Sequence[Point], ends: tuple[int, int]) -> list[str]:
    top, bottom = 40.0, 40.0 + PANEL
    low, high = ends
    scale = PANEL / (high - low)

    def place(point: Point) -> tuple[float, float]:
        x = left + (math.log10(point.measured) - low) * scale
        return x, bottom - (math.log10(point.predicted) - low) * scale

    frame = f"<rect x='{left:g}' y='{top:g}' width='{PANEL}' height='{PANEL}' fill='none'"
    parts = [f"{frame} stroke='{GREY}'/>", text(left, top - 6, f"{title} ({len(points):,})")]
    for decade in range(low, high + 1):
        at = (decade - low) * scale
        parts.append(text(left + at, bottom + 14, f"{10.0**decade:g}", anchor="middle"))
        parts.append(text(left - 4, bottom - at + 4, f"{10.0**decade:g}", anchor="end"))
    parts.append(line(left, bottom, left + PANEL, top, GREY))
    shift = math.log10(1.2) * scale
    parts.append(line(left, bottom - shift, left + PANEL - shift, top, GREY, dash="3 3"))
    parts.append(line(left + shift, bottom, left + PANEL, top + shift, GREY, dash="3 3"))
    marks = "".join(f"M{x:.1f} {y:.1f}h0" for x, y in map(place, points))
    width = 2 if len(points) > 100 else 4
    stroke = f"stroke='{BLUE}' stroke-width='{width}' stroke-linecap='round' stroke-opacity='0.5'"
    parts.append(f"<path d='{marks}' fill='none' {stroke}/>")
    parts.append(text(left, bottom + 32, "measured; dashed: 20% too slow, too fast"))
    return parts


def rows_of_dots(title: str, rows: Sequence[Dots], *, most: float, target: float = 0.0) -> str:
    """Return rows of dots on a linear axis in percent.

    Args:
        rows: The rows, from top to bottom.
        most: End of the axis.
        target: Value of a vertical line, 0 for none.
    """
    room = WIDTH - LABELS - 30
    bottom = 34.0 + ROW * len(rows)
    parts = [text(LABELS, 16, title)]
    for number in range(6):
        share = most * number / 5
        x = LABELS + room * number / 5
        parts.append(line(x, 26, x, bottom, "#e4e6ea"))
        parts.append(text(x, bottom + 14, f"{100 * share:.0f}%", anchor="middle"))
    if target:
        x = LABELS + room * target / most
        parts.append(line(x, 26, x, bottom, ORANGE, dash="4 3"))
    for number, row in enumerate(rows):
        y = 40.0 + ROW * number
        parts.append(text(LABELS - 8, y + 4, row.label, anchor="end"))
        places = (LABELS + room * min(value, most) / most for value in row.values)
        marks = "".join(f"M{x:.1f} {y:.1f}h0" for x in places)
        stroke = f"stroke='{BLUE}' stroke-width='6' stroke-linecap='round' stroke-opacity='0.6'"
        parts.append(f"<path d='{marks}' fill='none' {stroke}/>")
        if not math.isnan(row.mark):
            x = LABELS + room * min(row.mark, most) / most
            parts.append(line(x, y - 6, x, y + 6, ORANGE))
    return svg(bottom + 24, parts)


def serving_figures() -> dict[str, str]:
    """Return TPOT by engine, and the coverage of its interval by network."""
    from validation.serving.steps import validate_steps

    found = validate_steps()["predictions"]
    runs = [run for run in found if run["tpot_s_high"] is not None]
    panels = {
        engine: [_milliseconds(run) for run in runs if run["backend"] == engine]
        for engine in sorted({run["backend"] for run in runs})
    }
    networks: dict[str, list[bool]] = {}
    for run in runs:
        inside = run["tpot_s_low"] <= run["tpot_measured_s"] <= run["tpot_s_high"]
        networks.setdefault(run["network"], []).append(inside)
    rows = [
        Dots(f"{name} ({len(inside):,})", [sum(inside) / len(inside)])
        for name, inside in sorted(networks.items())
    ]
    title = "measured TPOT inside the 90% interval, by network (runs); dashed: 90%"
    return {
        "serving-tpot": scatter(panels, "TPOT [ms]"),
        "serving-coverage": rows_of_dots(title, rows, most=1.0, target=TARGET),
    }


def _milliseconds(run: Mapping[str, Any]) -> Point:
    return Point(1e3 * run["tpot_measured_s"], 1e3 * run["tpot_s"])


def capacity_figures() -> dict[str, str]:
    """Return predicted against printed KV cache capacities, tokens and bytes."""
    from validation.serving.capacity import validate_capacity

    panels: dict[str, list[Point]] = {}
    for run in validate_capacity()["runs"]:
        scale = 1e3 if run["unit"] == "tokens" else 1e9
        title = "thousand tokens" if run["unit"] == "tokens" else "GB"
        point = Point(run["published"] / scale, run["predicted"] / scale)
        panels.setdefault(title, []).append(point)
    return {"capacity": scatter(panels, "KV cache capacity")}


def kernel_figures() -> dict[str, str]:
    """Return the recorded errors of calibrations by operator, a dot per device and format."""
    cells: dict[str, list[float]] = {}
    for name, cell in tomllib.loads(SAMPLES.read_text("utf-8")).items():
        cells.setdefault(name.split("/")[1].replace("_", " "), []).append(cell["mape"])
    rows = [
        Dots(f"{name} ({len(errors)})", errors, sorted(errors)[len(errors) // 2])
        for name, errors in sorted(cells.items())
    ]
    title = "mean error (MAPE) of each calibration (device, family, format); line: median"
    return {"kernels": rows_of_dots(title, rows, most=0.35)}


def fleet_figures() -> dict[str, str]:
    """Return the largest deviations that the page of the failure simulator records."""
    page = (ROOT / "validation" / "pages" / "fleet.md").read_text("utf-8")
    found = re.findall(r"^\| ([a-z ,]+) \| (\d+) \| ([\d.]+) \| ([\d.]+) \|", page, re.MULTILINE)
    rows = [
        Dots(f"{name} ({points})", [float(largest) / 4.0], float(expected) / 4.0)
        for name, points, largest, expected in found
    ]
    title = "largest deviation from the closed form, 100% = 4 standard errors; line: by chance"
    return {"fleet": rows_of_dots(title, rows, most=1.0)}


def figures() -> dict[str, str]:
    """Return every figure by name."""
    return serving_figures() | capacity_figures() | kernel_figures() | fleet_figures()


def main() -> int:
    """Write the figures, or with --check report which are out of date."""
    FOLDER.mkdir(exist_ok=True)
    stale = 0
    for name, content in figures().items():
        path = FOLDER / f"{name}.svg"
        if path.exists() and path.read_text("utf-8") == content:
            continue
        stale += 1
        if "--check" in sys.argv[1:]:
            sys.stderr.write(f"{path.relative_to(ROOT)}: run python validation/figures.py\n")
        else:
            path.write_text(content, "utf-8")
    return int(bool(stale) and "--check" in sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
