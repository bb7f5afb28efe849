"""Charts as figures of plotly.js, for pages and notebooks.

Plotly interprets a subset of HTML in every text, so all texts are escaped here.
"""

from __future__ import annotations

import html
import itertools
import json
import math
from typing import TYPE_CHECKING, Any, Final, assert_never

from perfatlas.quantities import format_quantity
from perfatlas.report.charts import drawings
from perfatlas.report.charts.drawings import BLUE, CLEAR, COLOURS, ORANGE
from perfatlas.report.text import typeset

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


DIGITS: Final = 6  # significant digits of a point, to keep pages small
LEGEND: Final = {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom", "traceorder": "normal"}
DAYS_NAMED: Final = 14  # number of days up to which each has a label
INTEGER_TICK_COUNTS: Final = 8  # counts up to which tick labels are forced to integers
HOVER: Final = "%{y} (%{customdata[0]:.4~s} - %{customdata[1]:.4~s})"
DASHES: Final = ("solid", "dash", "dashdot", "dot")
MARKERS: Final[dict[str, dict[str, Any]]] = {
    "dots": {"size": 6, "opacity": 0.7},
    "mark": {"size": 12, "line": {"width": 1, "color": "black"}},
}
LETTER: Final = 7  # width of a letter of the label of a bar [pixels]
LABELED_RANKS: Final = 16  # ranks up to which each has a label


class _Figure:
    """A figure of plotly.js while it is drawn: traces and layout; values of None are left out."""

    def __init__(self, height: int) -> None:
        self.data: list[dict[str, Any]] = []
        self.layout: dict[str, Any] = {
            "height": height,
            "margin": {"l": 60, "r": 20, "t": 30, "b": 50},
            "showlegend": False,
            "legend": LEGEND,
            "xaxis": {},
            "yaxis": {},
        }

    def add(self, kind: str, **values: object) -> None:
        """Add a trace of a type of plotly.js."""
        self.data.append({"type": kind} | _given(values))

    def update(self, **values: object) -> None:
        """Set values of the layout."""
        self.layout |= _given(values)

    def update_axis(self, name: str, **values: object) -> None:
        """Set values of xaxis or yaxis."""
        self.layout[name] |= _given(values)


def plotly_figure(drawing: drawings.Drawing) -> dict[str, Any]:
    """Return a chart as a figure of plotly.js, `data` and `layout`.

    `plotly.graph_objects.Figure(figure)` shows it in a notebook.

    Example:
        >>> from perfatlas.report.charts import Axis, Line, LineChart, plotly_figure
        >>> load = Line("load", [0.0, 1.0], [2.0, 3.0], "red")
        >>> chart = LineChart([load], Axis("time [s]"), Axis("requests"))
        >>> plotly_figure(chart)["layout"]["yaxis"]["title"]["text"]
        'requests'
    """
    figure = _Figure(drawing.height)
    match drawing:
        case drawings.LineChart():
            _draw_lines(figure, drawing)
        case drawings.BarChart():
            _draw_bars(figure, drawing)
        case drawings.Waterfall():
            _draw_waterfall(figure, drawing)
        case drawings.StackedBars():
            _draw_stacks(figure, drawing)
        case drawings.Histogram():
            figure.add(
                "bar",
                x=_rounded(drawing.centres),
                y=_rounded(drawing.shares),
                width=float(drawing.centres[1] - drawing.centres[0]),
                marker={"color": COLOURS[0], "line": {"width": 0}},
            )
            figure.update_axis("xaxis", **_axis_layout(drawing.x))
            figure.update_axis("yaxis", **_axis_layout(drawing.y))
        case drawings.DaysChart():
            _draw_days(figure, drawing)
        case drawings.PipelineChart():
            _draw_pipeline(figure, drawing)
        case drawings.HeatMap():
            _draw_cells(figure, drawing)
        case _:
            assert_never(drawing)
    return {"data": figure.data, "layout": figure.layout}


def figure_json(drawing: drawings.Drawing) -> str:
    """Return a chart as JSON for a page, which sets colors and fonts itself.

    <, > and / are escaped, so that the text cannot end the enclosing script.
    """
    text = json.dumps(plotly_figure(drawing), separators=(",", ":"), allow_nan=False)
    return text.translate({ord(letter): f"\\u{ord(letter):04x}" for letter in "<>/"})


def _draw_lines(figure: _Figure, chart: drawings.LineChart) -> None:
    x, y, lines = chart.x, chart.y, chart.drawn
    dashes: dict[str, str] = {}
    banded = False
    for line in lines:
        is_first = line.name not in dashes
        dash = dashes.setdefault(line.name, DASHES[len(dashes) % len(DASHES)])
        figure.add(
            "scatter",
            x=_rounded(line.x),
            y=_rounded(line.y),
            name=_text(line.name),
            mode="markers" if line.is_dotted else "lines",
            line={
                "color": line.colour,
                "width": 2,
                "shape": "hv" if line.kind == "step" else None,
                "dash": dash if line.kind == "line" else None,
            },
            legendgroup=_text(line.name),
            showlegend=None if is_first else False,
            marker={"color": line.colour, **MARKERS.get(line.kind, {})},
            text=[_number(text).replace("\n", "<br>") for text in line.details or line.texts]
            or None,
            customdata=_ends(line),
            hovertemplate=_hover(line),
            error_y=_error(line.y, line.low, line.high) if line.is_dotted and line.low else None,
        )
        if line.low and not line.is_dotted:
            in_legend = not banded
            figure.add(
                "scatter",
                x=_rounded([*line.x, *reversed(line.x)]),
                y=_rounded([*line.high, *reversed(line.low)]),
                name="90% interval",
                legendgroup=_text(line.name),
                showlegend=in_legend,
                fill="toself",
                fillcolor=f"{line.colour}2e",
                mode="lines",
                line={"width": 0},
                hoverinfo="skip",
            )
            banded = True
    for name, axis, columns in (
        ("xaxis", x, [line.x for line in lines]),
        ("yaxis", y, [line.y for line in lines]),
    ):
        largest = max((max(map(abs, column)) for column in columns), default=0.0)
        figure.update_axis(name, **_axis_layout(axis, largest))
    _tick_decades(figure, "xaxis", x, [line.x for line in lines])
    _tick_decades(figure, "yaxis", y, [line.y for line in lines])
    if not y.log:
        figure.update_axis("yaxis", range=[chart.y.bottom, chart.highest])
        _tick_counts(figure, y, max((max(line.y) for line in lines), default=1.0) or 1.0)
    if chart.spans and lines:
        _shade(figure, chart.spans, max(max(line.x) for line in lines))
    several = len(lines) > 1 or bool(chart.spans) or banded
    named = any(line.texts or line.details for line in lines)
    hover = "closest" if chart.spans or named else "x unified"
    figure.update(showlegend=several, hovermode=hover)


def _draw_bars(figure: _Figure, chart: drawings.BarChart) -> None:
    bars = chart.bars
    ends = [bar.interval or (bar.value, bar.value) for bar in bars]
    error = _error([bar.value for bar in bars], *zip(*ends, strict=True)) if bars else None
    names, texts = [_text(bar.name) for bar in bars], [_number(bar.text) for bar in bars]
    figure.add(
        "bar",
        y=names,
        x=_rounded([bar.value for bar in bars]),
        text=texts,
        textposition="none",
        marker={"color": [bar.colour for bar in bars]},
        error_x=error if any(bar.interval for bar in bars) else None,
        orientation="h",
    )
    if any(texts):  # beyond the intervals, which would strike them through
        figure.add(
            "scatter",
            y=names,
            x=_rounded(
                [max(0.0, bar.value, end) for bar, (_, end) in zip(bars, ends, strict=True)]
            ),
            text=[f" {text}" for text in texts],
            textposition="middle right",
            mode="text",
            hoverinfo="skip",
        )
        wide = figure.layout["margin"]["r"] + LETTER * max(len(bar.text) for bar in bars)
        figure.layout["margin"]["r"] = wide
    _name_rows(figure)
    figure.update_axis("xaxis", **_axis_layout(chart.values))


def _draw_waterfall(figure: _Figure, chart: drawings.Waterfall) -> None:
    """Draw bars that each start where what is left ends."""
    steps = chart.steps
    shares = [share for _, share, _ in steps]
    remaining = list(itertools.accumulate(shares[:-1]))
    figure.add(
        "bar",
        y=[_text(label) for label, _, _ in steps],
        x=_rounded([abs(share) for share in shares]),
        base=_rounded([0.0, *remaining[1:], 0.0]),
        text=[_number(text) for _, _, text in steps],
        marker={"color": [BLUE, *(ORANGE for _ in steps[1:-1]), BLUE]},
        orientation="h",
    )
    _name_rows(figure)
    figure.update_axis("xaxis", **_axis_layout(chart.values))


def _draw_stacks(figure: _Figure, chart: drawings.StackedBars) -> None:
    named = {part.name: part for part in reversed(chart.parts)}
    for part in chart.parts:
        figure.add(
            "bar",
            y=[_text(name) for name in chart.names],
            x=_rounded(part.values),
            name=_text(part.name),
            hovertext=[_number(text) for text in part.texts],
            hovertemplate="%{fullData.name}: %{hovertext}<extra></extra>",
            marker={"color": part.colour},
            showlegend=part.colour != CLEAR and named.get(part.name) is part,
            legendgroup=_text(part.name),
            orientation="h",
        )
    _name_rows(figure)
    figure.update_axis("xaxis", **_axis_layout(chart.values))
    figure.update(barmode="stack", showlegend=True)


def _draw_days(figure: _Figure, chart: drawings.DaysChart) -> None:
    figure.add("bar", x=list(chart.days), y=list(chart.counts), marker={"color": ORANGE})
    figure.update_axis("xaxis", type="date", title={"text": "day"})
    if len(chart.days) <= DAYS_NAMED:
        figure.update_axis("xaxis", dtick="D1", tickformat="%-d %b\n%Y")
    figure.update_axis("yaxis", **_axis_layout(chart.y), rangemode="tozero")
    _tick_counts(figure, chart.y, max(chart.counts, default=0))


def _draw_pipeline(figure: _Figure, chart: drawings.PipelineChart) -> None:
    for bars in chart.bars:
        labelled = chart.size <= drawings.MAX_LABELS
        passes, title = bars.rows, bars.title
        figure.add(
            "bar",
            orientation="h",
            name=title,
            legendgroup=title,
            showlegend=not any(row["legendgroup"] == title for row in figure.data),
            base=_rounded([float(row["start_s"]) for row in passes]),
            x=_rounded([float(row["end_s"]) - float(row["start_s"]) for row in passes]),
            y=[int(row["rank"]) for row in passes],
            offset=bars.offset,
            width=bars.height,
            text=[str(int(row["micro_batch"])) for row in passes] if labelled else None,
            textposition="inside",
            insidetextanchor="middle",
            marker={"color": bars.colour, "line": {"width": 0.5, "color": "white"}},
            customdata=[[int(row["micro_batch"]), int(row["stage"])] for row in passes],
            hovertemplate=f"{title}<br>micro-batch %{{customdata[0]}}, stage %{{customdata[1]}}"
            "<br>starts at %{base:.4~s}s, lasts %{x:.4~s}s<extra></extra>",
        )
    ranks = chart.ranks
    figure.update(barmode="overlay", showlegend=True, bargap=0)
    figure.update_axis("xaxis", **_axis_layout(drawings.Axis("time", "s")))
    figure.update_axis(
        "yaxis",
        title={"text": "pipeline rank"},
        range=[ranks - 0.5, -0.5],
        dtick=1 if ranks <= LABELED_RANKS else None,
    )


def _draw_cells(figure: _Figure, chart: drawings.HeatMap) -> None:
    (x, columns), (y, rows) = chart.x, chart.y
    figure.add(
        "heatmap",
        x=[_text(name) for name in columns],
        y=[_text(name) for name in rows],
        z=[[_color_value(chart.values, value) for value in row] for row in chart.cells],
        text=[[_number(text) for text in row] for row in chart.texts],
        texttemplate="%{text}",
        colorscale="Cividis",
        colorbar={
            "title": {"text": _text(chart.values.title), "side": "right"},
            **_color_ticks(chart),
        },
        xgap=1,
        ygap=1,
    )
    for name, title in (("xaxis", x), ("yaxis", y)):
        figure.update_axis(name, title={"text": _text(title)}, type="category", automargin=True)


def _color_value(axis: drawings.Axis, value: float | None) -> float | None:
    """Return what colors a cell: plotly has no logarithmic colors, so that its logarithm is."""
    if value is None:
        return None
    return _rounded([math.log10(value) if axis.log else value])[0]


def _color_ticks(chart: drawings.HeatMap) -> dict[str, Any]:
    """Return the ticks of the color bar: powers of ten where it is logarithmic."""
    values = [value for row in chart.cells for value in row if value is not None]
    if not chart.values.log:
        return _tick_format(chart.values, max(values, default=0.0))
    powers = range(math.ceil(math.log10(min(values))), math.floor(math.log10(max(values))) + 1)
    texts = [format_quantity(10.0**power, chart.values.unit) for power in powers]
    return {"tickvals": list(powers), "ticktext": texts}


def _hover(line: drawings.Line) -> str | None:
    """Return what is shown beside a point, None for what plotly shows."""
    value = HOVER if line.low and not line.is_dotted else "%{x}, %{y}"
    if line.details:
        return f"%{{text}}<br>{value}"
    return None if value != HOVER else HOVER


def _ends(line: drawings.Line) -> list[list[float | None]] | None:
    """Return the ends of the intervals of a joined line by point, for its hover text and CSV."""
    if not line.low or line.is_dotted:
        return None
    return [_rounded(ends) for ends in zip(line.low, line.high, strict=True)]


def _error(values: Sequence[float], low: Sequence[float], high: Sequence[float]) -> dict[str, Any]:
    """Return the ends of intervals as plotly takes them, as distances."""
    return {
        "symmetric": False,
        "array": _rounded([end - value for end, value in zip(high, values, strict=True)]),
        "arrayminus": _rounded([value - end for end, value in zip(low, values, strict=True)]),
    }


def _tick_format(axis: drawings.Axis, largest: float) -> dict[str, str]:
    """Return the format of ticks; large numbers have SI prefixes."""
    if axis.unit == "%":
        return {"tickformat": ".3~p"}
    if axis.is_scaled:
        return {"tickformat": "~s", "ticksuffix": axis.unit}
    return {"tickformat": "~s" if largest >= drawings.MANY_DIGITS else ",~r"}


def _axis_layout(axis: drawings.Axis, largest: float = 0.0) -> dict[str, Any]:
    """Return an axis as plotly takes it."""
    return {
        "title": {"text": _text(axis.title)},
        "type": "log" if axis.log else "linear",
        "automargin": True,
        "exponentformat": "none",
        **_tick_format(axis, largest),
    }


def _tick_decades(
    figure: _Figure, name: str, axis: drawings.Axis, columns: Sequence[Sequence[float]]
) -> None:
    """Label digits of few decades, whose unit plotly drops, else powers of ten."""
    positive = [value for column in columns for value in column if value > 0.0]
    if axis.log and positive:
        ticks = drawings.log_ticks(min(positive), max(positive))
        texts = [_tick_text(axis, tick) for tick in ticks]
        figure.update_axis(name, minor={"dtick": "D1", "showgrid": True})
        figure.update_axis(
            name, **({"tickvals": ticks, "ticktext": texts} if ticks else {"dtick": 1})
        )


def _tick_text(axis: drawings.Axis, value: float) -> str:
    if axis.unit == "%":
        return f"{100.0 * value:.3g}%"
    if axis.is_scaled or value >= drawings.MANY_DIGITS:
        return format_quantity(value, axis.unit if axis.is_scaled else "").replace(" ", "")
    return f"{value:,.10g}"


def _tick_counts(figure: _Figure, axis: drawings.Axis, highest: float) -> None:
    """Use integer tick labels for counts."""
    if axis.unit == "count" and highest < INTEGER_TICK_COUNTS:
        figure.update_axis("yaxis", dtick=1)


def _name_rows(figure: _Figure) -> None:
    """Arrange bars in rows, the first on top, with full names at the left."""
    names = {"type": "category", "autorange": "reversed", "automargin": True, "ticksuffix": " "}
    figure.update_axis("yaxis", **names)
    for trace in figure.data:
        trace["cliponaxis"] = False


def _shade(figure: _Figure, spans: Sequence[drawings.Span], last: float) -> None:
    """Shade spans up to the last point, with one legend entry per name."""
    named: set[str] = set()
    top = figure.layout["yaxis"]["range"][1]
    for span in spans:
        if span.start > last:
            continue
        end = min(span.end, last)
        is_mark = span.start == span.end
        figure.add(
            "scatter",
            x=[span.start, span.start] if is_mark else [span.start, span.start, end, end],
            y=[0.0, top] if is_mark else [0.0, top, top, 0.0],
            name=_text(span.name),
            legendgroup=_text(span.name),
            showlegend=span.name not in named,
            mode="lines",
            line={"color": span.colour, "width": int(is_mark), "dash": "dash" if is_mark else None},
            fill=None if is_mark else "toself",
            opacity=None if is_mark else 0.35,
            hoveron="points" if is_mark else "fills",
            text=_text(span.detail),
            hoverinfo="text",
        )
        named.add(span.name)


def _text(text: str) -> str:
    return html.escape(str(text), quote=False)


def _number(text: str) -> str:
    return _text(typeset(text))


def _rounded(values: Sequence[float]) -> list[float | None]:
    """Return values with fewer digits; no number is a gap."""
    return [float(f"{value:.{DIGITS}g}") if math.isfinite(value) else None for value in values]


def _given(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values without those of None, also in the groups of values below them."""
    return {
        name: _given(value) if isinstance(value, dict) else value
        for name, value in values.items()
        if value is not None
    }
