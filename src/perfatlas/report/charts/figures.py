"""Charts as plotly figures, for pages, notebooks and image files.

Displayed names may contain arbitrary user text. Plotly interprets a subset of HTML in every text,
so all texts are escaped here.
"""

from __future__ import annotations

import html
import math
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from perfatlas.report.charts.colours import BLUE, COLOURS, ORANGE
from perfatlas.report.text import typeset

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import plotly.graph_objects as go

HEIGHT: Final = 340  # pixels
BAR_HEIGHT: Final = 34  # per horizontal bar, including its gap
FRAME_HEIGHT: Final = 90  # axis, title and margins
DIGITS: Final = 6  # significant digits of a point, to keep pages small
ROOM: Final = 1.05  # axis length over largest value
LEGEND: Final = {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom", "traceorder": "normal"}
DAYS_NAMED: Final = 14  # number of days up to which each has a label
FEW: Final = 8  # counts up to which tick labels are forced to integers
FEW_DECADES: Final = 2.0  # decades of a logarithmic axis up to which 1, 2 and 5 are labeled


class Axis(NamedTuple):
    """Axis of a chart.

    Args:
        title: Title; includes the unit in brackets if ticks have none.
        unit: "%" for fractions, "s" for seconds with an SI prefix (shown on ticks), "count" for
            integers.
        log: Whether it is logarithmic.
        top: Upper end; automatic by default.
    """

    title: str
    unit: str = ""
    log: bool = False
    top: float | None = None


class Line(NamedTuple):
    """A line of a chart.

    Args:
        name: Name in the legend.
        x: x values (points,).
        y: y values (points,).
        colour: CSS color.
        kind: line, step (a value holds until the next) or dots.
    """

    name: str
    x: Sequence[float]
    y: Sequence[float]
    colour: str
    kind: str = "line"


class Span(NamedTuple):
    """A shaded interval of the x axis, or a mark at one position.

    Args:
        name: Name in the legend; spans with equal names share an entry.
        start: Start.
        end: End; equal to the start for a mark.
        colour: CSS color.
        detail: Hover text.
    """

    name: str
    start: float
    end: float
    colour: str
    detail: str


class Bar(NamedTuple):
    """A horizontal bar.

    Args:
        name: Label at its left.
        value: Its length.
        text: Label at its end.
        colour: CSS color.
        error: Half-width of its interval, or None.
    """

    name: str
    value: float
    text: str = ""
    colour: str = BLUE
    error: float | None = None


class BarPart(NamedTuple):
    """One segment of stacked bars.

    Args:
        name: Name in the hover text.
        values: Its length in each bar (bars,).
        texts: Hover text after the name (bars,).
        colour: CSS color.
    """

    name: str
    values: Sequence[float]
    texts: Sequence[str]
    colour: str


def line_chart(lines: Sequence[Line], x: Axis, y: Axis, *, spans: Sequence[Span] = ()) -> go.Figure:
    """Return lines, steps or dots over a number, with shaded spans.

    Args:
        lines: Lines in legend order; empty ones are omitted.
        x: The x axis.
        y: The y axis, starting at zero unless logarithmic.
        spans: Shaded behind the lines, from the first to the last point.

    Example:
        >>> from perfatlas.report.charts import Axis, Line, line_chart
        >>> load = Line("load", [0.0, 1.0], [2.0, 3.0], "red")
        >>> line_chart([load], Axis("time [s]"), Axis("requests")).layout.yaxis.title.text
        'requests'
    """
    figure = new_figure(HEIGHT)
    lines = [line for line in lines if len(line.x)]
    for line in lines:
        figure.add_scatter(
            x=_rounded(line.x),
            y=_rounded(line.y),
            name=_text(line.name),
            mode="markers" if line.kind == "dots" else "lines",
            line={"color": line.colour, "width": 2, "shape": "hv" if line.kind == "step" else None},
            marker={"color": line.colour, "size": 4, "opacity": 0.55},
        )
    figure.update_xaxes(axis_layout(x))
    figure.update_yaxes(axis_layout(y))
    _tick_decades(figure.update_xaxes, x, [line.x for line in lines])
    _tick_decades(figure.update_yaxes, y, [line.y for line in lines])
    if not y.log:
        highest = max((max(line.y) for line in lines), default=1.0) or 1.0
        figure.update_yaxes(range=[0.0, y.top or ROOM * highest])
        _tick_counts(figure, y, highest)
    if spans and lines:
        _shade(figure, spans, max(max(line.x) for line in lines))
    several = len(lines) > 1 or bool(spans)
    figure.update_layout(showlegend=several, hovermode="closest" if spans else "x unified")
    return figure


def bar_chart(bars: Sequence[Bar], values: Axis) -> go.Figure:
    """Return horizontal bars, the first on top.

    Args:
        bars: One or more.
        values: The x axis.
    """
    figure = new_figure(FRAME_HEIGHT + BAR_HEIGHT * len(bars))
    widths = [bar.error for bar in bars]
    figure.add_bar(
        y=[_text(bar.name) for bar in bars],
        x=_rounded([bar.value for bar in bars]),
        text=[_number(bar.text) for bar in bars],
        marker={"color": [bar.colour for bar in bars]},
        error_x={"array": widths} if any(width is not None for width in widths) else None,
        orientation="h",
    )
    _name_rows(figure)
    figure.update_xaxes(axis_layout(values))
    return figure


def waterfall(
    rows: Sequence[Mapping[str, Any]], labels: Mapping[str, str], texts: Sequence[str]
) -> go.Figure:
    """Return a waterfall from a whole through its losses to the remainder.

    Args:
        rows: The remainder, then losses: name and fraction.
        labels: Labels by name.
        texts: Fractions as text (rows,).
    """
    kept = list(zip(rows, texts, strict=True))
    lost = [(row, text) for row, text in kept[1:] if row["share"]]
    figure = new_figure(FRAME_HEIGHT + BAR_HEIGHT * (len(lost) + 2))
    figure.add_waterfall(
        y=["total", *(_text(labels[row["name"]]) for row, _ in lost), labels[rows[0]["name"]]],
        x=_rounded([1.0, *(-row["share"] for row, _ in lost), rows[0]["share"]]),
        measure=["absolute", *("relative" for _ in lost), "total"],
        text=["100%", *(_number(text) for _, text in lost), _number(texts[0])],
        decreasing={"marker": {"color": ORANGE}},
        totals={"marker": {"color": BLUE}},
        orientation="h",
    )
    _name_rows(figure)
    figure.update_xaxes(axis_layout(Axis("share of the time", unit="%")))
    return figure


def stacked_bars(names: Sequence[str], parts: Sequence[BarPart], values: Axis) -> go.Figure:
    """Return stacked horizontal bars, the first on top, without a legend.

    Args:
        names: Names of the bars (bars,).
        parts: Segments from left to right; a table beside the chart has their colors.
        values: The x axis.
    """
    figure = new_figure(FRAME_HEIGHT + BAR_HEIGHT * len(names))
    for part in parts:
        figure.add_bar(
            y=[_text(name) for name in names],
            x=_rounded(part.values),
            name=_text(part.name),
            hovertext=[_number(text) for text in part.texts],
            hovertemplate="%{fullData.name}: %{hovertext}<extra></extra>",
            marker={"color": part.colour},
            orientation="h",
        )
    _name_rows(figure)
    figure.update_xaxes(axis_layout(values))
    figure.update_layout(barmode="stack")
    return figure


def histogram(centres: Sequence[float], shares: Sequence[float], x: Axis, y: Axis) -> go.Figure:
    """Return a histogram.

    Args:
        centres: Centers of two or more equal bins (bins,).
        shares: Heights (bins,).
        x: The x axis.
        y: The y axis.
    """
    figure = new_figure(HEIGHT)
    figure.add_bar(
        x=_rounded(centres),
        y=_rounded(shares),
        width=float(centres[1] - centres[0]),
        marker={"color": COLOURS[0], "line": {"width": 0}},
    )
    figure.update_xaxes(axis_layout(x))
    figure.update_yaxes(axis_layout(y))
    return figure


def days_chart(days: Sequence[str], counts: Sequence[int], y: Axis) -> go.Figure:
    """Return one bar per day.

    Args:
        days: Dates, ISO 8601 (days,).
        counts: Count per day (days,).
        y: The y axis.
    """
    figure = new_figure(HEIGHT)
    figure.add_bar(x=list(days), y=list(counts), marker={"color": ORANGE})
    figure.update_xaxes(type="date", title={"text": "day"})
    if len(days) <= DAYS_NAMED:
        figure.update_xaxes(dtick="D1", tickformat="%-d %b\n%Y")
    figure.update_yaxes(axis_layout(y) | {"rangemode": "tozero"})
    _tick_counts(figure, y, max(counts, default=0))
    return figure


def figure_json(figure: go.Figure) -> str:
    """Return a figure as JSON for a page, which sets colors and fonts itself.

    <, > and / are escaped, so that the text cannot end the enclosing script.

    Args:
        figure: A figure from this module.
    """
    from plotly.io.json import to_json_plotly

    plain = figure.to_plotly_json()
    plain["layout"].pop("template", None)
    text: str = to_json_plotly(plain, engine="json")
    return text


def new_figure(height: int) -> go.Figure:
    """Return an empty figure in the style of all charts.

    Args:
        height: Its height [pixels].
    """
    import plotly.graph_objects as go

    return go.Figure(
        layout={
            "template": "none",
            "height": height,
            "margin": {"l": 60, "r": 20, "t": 30, "b": 50},
            "showlegend": False,
            "legend": LEGEND,
        }
    )


def axis_layout(axis: Axis) -> dict[str, Any]:
    """Return an axis as plotly takes it.

    Args:
        axis: The axis.
    """
    ticks = {"%": {"tickformat": ".3~p"}, "s": {"tickformat": "~s", "ticksuffix": "s"}}
    return {
        "title": {"text": _text(axis.title)},
        "type": "log" if axis.log else "linear",
        "automargin": True,
        "exponentformat": "none",
        **ticks.get(axis.unit, {"tickformat": ",~r"}),
    }


def _tick_decades(
    update: Callable[..., object], axis: Axis, columns: Sequence[Sequence[float]]
) -> None:
    """Label 1, 2 and 5 in each decade if there are few decades, else only powers of ten."""
    positive = [value for column in columns for value in column if value > 0.0]
    if axis.log and positive:
        few = math.log10(max(positive) / min(positive)) < FEW_DECADES
        update(dtick="D2" if few else 1, minor={"dtick": "D1", "showgrid": True})


def _tick_counts(figure: go.Figure, axis: Axis, highest: float) -> None:
    """Use integer tick labels for counts."""
    if axis.unit == "count" and highest < FEW:
        figure.update_yaxes(dtick=1)


def _name_rows(figure: go.Figure) -> None:
    """Arrange bars in rows, the first on top, with full names at the left."""
    figure.update_yaxes(type="category", autorange="reversed", automargin=True, ticksuffix=" ")
    figure.update_traces(cliponaxis=False, selector={"type": "bar"})


def _shade(figure: go.Figure, spans: Sequence[Span], last: float) -> None:
    """Shade spans up to the last point, with one legend entry per name."""
    named: set[str] = set()
    top = figure.layout.yaxis.range[1]
    for span in spans:
        if span.start > last:
            continue
        end = min(span.end, last)
        is_mark = span.start == span.end
        figure.add_scatter(
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


def _rounded(values: Sequence[float]) -> list[float]:
    return [float(f"{value:.{DIGITS}g}") for value in values]
