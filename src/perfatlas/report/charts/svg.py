"""Charts over numbers as SVG text, which a page carries inside itself: no library, no network."""

from __future__ import annotations

import html
import math
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

WIDTH: Final = 1040.0  # of the drawing; a page scales it to its own width
HEIGHT: Final = 330.0
LEFT, RIGHT, TOP, BOTTOM = 76.0, 16.0, 10.0, 46.0
TICKS: Final = 7  # on an axis, about
ROOM: Final = 1.05  # of the largest value, so that no line runs along the frame
DECADE: Final = (1.0, 2.0, 5.0)
CHART_STYLE: Final = """
.chart{width:100%;height:auto;display:block;font:13px system-ui,sans-serif;fill:#59636e}
.chart .grid{stroke:#d1d9e0;stroke-width:1}.chart .frame{stroke:#818b98;fill:none}
.chart .line{fill:none;stroke-width:1.8;stroke-linejoin:round}
.chart .dots{fill:none;stroke-width:3.2;stroke-linecap:round;opacity:.55}
.chart .cursor{stroke:#1f2328;stroke-width:1}.chart .read{fill:#1f2328;white-space:pre}
.chart .mark{stroke-width:1.2;stroke-dasharray:4 3}.chart .span{opacity:.16}
.legend{display:flex;flex-wrap:wrap;gap:.1rem 1.2rem;font-size:.85rem;margin:.3rem 0 0 4.6rem}
.legend i{display:inline-block;width:1.1rem;height:.25rem;margin:0 .4rem .2rem 0}
.legend i.area{height:.75rem;margin-bottom:-.05rem;opacity:.3}
"""
# what a reader points at, told in numbers
HOVER_SCRIPT: Final = """<script>
document.querySelectorAll("svg.chart").forEach(chart => {
  const [xl, xh, xs, xe, log] = chart.dataset.x.split(" ").map(Number);
  const [yl, yh, ys, ye, percent] = chart.dataset.y.split(" ").map(Number);
  const read = chart.querySelector(".read"), cursor = chart.querySelector(".cursor");
  const lines = [...chart.querySelectorAll("path.line")].map(path => {
    const points = []; let x = 0, y = 0;
    for (const [, c, a, b] of path.getAttribute("d").matchAll(/([MLHV])([-.0-9]+) ?([-.0-9]+)?/g)) {
      if (c === "H") x = +a; else { if (c === "V") y = +a; else { x = +a; y = +b; }
        points.push([x, y]); }
    }
    return [path.querySelector("title").textContent, points];
  });
  const told = v => Number(v.toPrecision(3)).toLocaleString("en");
  chart.onmouseleave = () => { read.textContent = ""; cursor.setAttribute("d", ""); };
  chart.onmousemove = event => {
    const box = chart.getBoundingClientRect();
    const at = (event.clientX - box.left) * chart.viewBox.baseVal.width / box.width;
    if (at < xs || at > xe) return chart.onmouseleave();
    const part = (at - xs) / (xe - xs);
    const x = log ? xl * Math.pow(xh / xl, part) : xl + (xh - xl) * part;
    const values = lines.map(([name, points]) => {
      let low = 0, high = points.length - 1;
      while (low < high) {
        const middle = (low + high + 1) >> 1;
        if (points[middle][0] <= at) low = middle; else high = middle - 1;
      }
      const y = yl + (yh - yl) * (points[low][1] - ys) / (ye - ys);
      return name + " " + (percent ? told(100 * y) + " %" : told(y));
    });
    read.textContent = [told(x) + " s", ...values].join("   ");
    cursor.setAttribute("d", "M" + at + " " + ye + "V" + ys);
  };
});
</script>"""


class Line(NamedTuple):
    """Points of a chart.

    Args:
        name: In the legend.
        x: Values along (points,).
        y: Values up (points,).
        colour: As CSS writes it.
        kind: line, step (a value holds until the next) or dots.
    """

    name: str
    x: Sequence[float]
    y: Sequence[float]
    colour: str
    kind: str = "line"


class Span(NamedTuple):
    """A part of the x axis that is shaded, or one place of it that is marked.

    Args:
        name: In the legend; spans of one name share an entry.
        start: Where it begins.
        end: Where it ends; where it begins for a mark.
        colour: As CSS writes it.
        said: What a reader sees who points at it.
    """

    name: str
    start: float
    end: float
    colour: str
    said: str


class Chart(NamedTuple):
    """What a chart shows.

    Args:
        lines: In the order of the legend.
        x_title: What is along, with its unit.
        y_title: What is up, with its unit.
        x_log: The x axis is logarithmic and in seconds.
        top: Where the y axis ends; over the largest value by default.
        percent: The y axis is a share, written as per cent.
        spans: Shaded behind the lines.
    """

    lines: Sequence[Line]
    x_title: str
    y_title: str
    x_log: bool = False
    top: float | None = None
    percent: bool = False
    spans: Sequence[Span] = ()


class _Axis(NamedTuple):
    """From values to places of the drawing."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def at(self, value: float) -> float:
        low, high = (math.log(v) if self.log else v for v in (self.low, self.high))
        along = (math.log(max(value, self.low)) if self.log else value) - low
        return self.start + (self.end - self.start) * along / (high - low)


def chart_html(chart: Chart) -> str:
    """Return a chart with its legend as HTML; "" where no line has a point.

    Args:
        chart: What it shows.

    Example:
        >>> from perfatlas.report.charts import Chart, Line, chart_html
        >>> page = chart_html(Chart([Line("load", [0, 1], [2, 3], "red")], "seconds", "requests"))
        >>> page.count("<svg"), "load" in page, "requests" in page
        (1, True, True)
    """
    lines = [line for line in chart.lines if len(line.x)]
    if not lines:
        return ""
    x_axis, y_axis = _axes(chart, lines)
    head = (
        f'<svg class="chart" viewBox="0 0 {WIDTH:g} {HEIGHT:g}" role="img"'
        f' aria-label="{html.escape(chart.y_title)} over {html.escape(chart.x_title)}"'
        f' data-x="{_told(x_axis)} {x_axis.log:d}" data-y="{_told(y_axis)} {chart.percent:d}">'
    )
    parts = [
        head,
        *_grid(chart, x_axis, y_axis),
        *(_span(span, x_axis) for span in chart.spans if span.start <= x_axis.high),
        *(_path(line, x_axis, y_axis) for line in lines),
        '<path class="cursor"/>',
        f'<text class="read" x="{WIDTH - RIGHT - 6:g}" y="{TOP + 15:g}" text-anchor="end"></text>',
        "</svg>",
    ]
    return _legend(lines, chart.spans) + "".join(parts)


def _told(axis: _Axis) -> str:
    return f"{axis.low:.6g} {axis.high:.6g} {axis.start:g} {axis.end:g}"


def _axes(chart: Chart, lines: Sequence[Line]) -> tuple[_Axis, _Axis]:
    low, high = min(min(line.x) for line in lines), max(max(line.x) for line in lines)
    if chart.x_log:
        positive = [x for line in lines for x in line.x if x > 0.0]
        low = min(positive, default=1e-3)
        low, high = low / ROOM, max(high, low) * ROOM
    else:
        low = min(low, 0.0)
        high = high if high > low else low + 1.0
    largest = max(max(line.y) for line in lines)
    top = (largest * ROOM if largest > 0.0 else 1.0) if chart.top is None else chart.top
    return (
        _Axis(low, high, LEFT, WIDTH - RIGHT, chart.x_log),
        _Axis(0.0, top, HEIGHT - BOTTOM, TOP),
    )


def ticks(low: float, high: float) -> list[float]:
    """Return round values between two, about `TICKS` of them.

    Args:
        low: From here.
        high: To here, above it.

    Example:
        >>> from perfatlas.report.charts import ticks
        >>> ticks(0.0, 47.0)
        [0.0, 10.0, 20.0, 30.0, 40.0]
    """
    rough = (high - low) / TICKS
    decade = 10.0 ** math.floor(math.log10(rough))
    step = next(m * decade for m in (*DECADE, 10.0) if m * decade >= rough * (1.0 - 1e-9))
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [number * step for number in range(first, last + 1)]


def log_ticks(low: float, high: float, most_decades: float = 3.0) -> list[float]:
    """Return 1, 2 and 5 of each decade between two values; of too many decades, the 1.

    Args:
        low: From here, above 0.
        high: To here.
        most_decades: Decades that have room for three ticks each.
    """
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    heads = DECADE if math.log10(high / low) <= most_decades else DECADE[:1]
    found = [head * 10.0**decade for decade in decades for head in heads]
    return [value for value in found if low <= value <= high]


def _grid(chart: Chart, x_axis: _Axis, y_axis: _Axis) -> list[str]:
    """Return grid, ticks and titles."""
    parts = []
    for value in ticks(y_axis.low, y_axis.high):
        at = y_axis.at(value)
        told = f"{100.0 * value:g} %" if chart.percent else f"{value:,.10g}"
        parts.append(
            f'<path class="grid" d="M{LEFT:g} {at:.1f}H{WIDTH - RIGHT:g}"/>'
            f'<text x="{LEFT - 8:g}" y="{at + 4:.1f}" text-anchor="end">{told}</text>'
        )
    along = log_ticks if chart.x_log else ticks
    for value in along(x_axis.low, x_axis.high):
        at = x_axis.at(value)
        told = _seconds(value) if chart.x_log else f"{value:,.10g}"
        parts.append(
            f'<path class="grid" d="M{at:.1f} {TOP:g}V{HEIGHT - BOTTOM:g}"/>'
            f'<text x="{at:.1f}" y="{HEIGHT - BOTTOM + 17:g}" text-anchor="middle">{told}</text>'
        )
    middle_x, middle_y = (LEFT + WIDTH - RIGHT) / 2, (TOP + HEIGHT - BOTTOM) / 2
    parts.append(
        f'<path class="frame" d="M{LEFT:g} {TOP:g}V{HEIGHT - BOTTOM:g}H{WIDTH - RIGHT:g}"/>'
        f'<text x="{middle_x:g}" y="{HEIGHT - 8:g}" text-anchor="middle">'
        f"{html.escape(chart.x_title)}</text>"
        f'<text transform="translate(14 {middle_y:g}) rotate(-90)" text-anchor="middle">'
        f"{html.escape(chart.y_title)}</text>"
    )
    return parts


def _seconds(value: float) -> str:
    for scale, unit in ((1.0, "s"), (1e-3, "ms")):
        if value >= scale * (1.0 - 1e-9):
            return f"{value / scale:,.10g} {unit}"
    return f"{value * 1e6:.6g} us"


def _path(line: Line, x_axis: _Axis, y_axis: _Axis) -> str:
    points = [
        (x_axis.at(x), y_axis.at(min(y, y_axis.high))) for x, y in zip(line.x, line.y, strict=True)
    ]
    if line.kind == "dots":
        drawn = "".join(f"M{x:.1f} {y:.1f}h0" for x, y in points)
    elif line.kind == "step":
        first, *rest = points
        drawn = f"M{first[0]:.1f} {first[1]:.1f}" + "".join(f"H{x:.1f}V{y:.1f}" for x, y in rest)
    else:
        drawn = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
    kind = "dots" if line.kind == "dots" else "line"
    return (
        f'<path class="{kind}" stroke="{line.colour}" d="{drawn}">'
        f"<title>{html.escape(line.name)}</title></path>"
    )


def _span(span: Span, axis: _Axis) -> str:
    start, end = (axis.at(min(max(v, axis.low), axis.high)) for v in (span.start, span.end))
    said = f"<title>{html.escape(span.said)}</title>"
    if span.start == span.end:
        return (
            f'<path class="mark" stroke="{span.colour}" d="M{start:.1f} {TOP:g}'
            f'V{HEIGHT - BOTTOM:g}">{said}</path>'
        )
    return (
        f'<rect class="span" fill="{span.colour}" x="{start:.1f}" y="{TOP:g}"'
        f' width="{max(end - start, 1.0):.1f}" height="{HEIGHT - BOTTOM - TOP:g}">{said}</rect>'
    )


def _legend(lines: Sequence[Line], spans: Sequence[Span]) -> str:
    """Return what the colours mean; of one line alone the axis says it."""
    shown = [(line.name, line.colour, "") for line in lines] if len(lines) > 1 or spans else []
    for span in spans:
        kind = "" if span.start == span.end else ' class="area"'
        if (span.name, span.colour, kind) not in shown:
            shown.append((span.name, span.colour, kind))
    told = "".join(
        f'<span><i{kind} style="background:{colour}"></i>{html.escape(name)}</span>'
        for name, colour, kind in shown
    )
    return f'<div class="legend">{told}</div>' if told else ""
