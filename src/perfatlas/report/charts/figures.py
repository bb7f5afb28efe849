"""Charts as figures of plotly: what is drawn in a page, a notebook or an image file.

Names that are shown may be anything a user wrote: plotly reads a subset of HTML in every text, so
that all of them are escaped here.
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
BAR_HEIGHT: Final = 34  # of a horizontal bar with its gap
FRAME_HEIGHT: Final = 90  # of axis, title and margins
DIGITS: Final = 6  # significant ones of a point, so that a page stays small
ROOM: Final = 1.05  # of the largest value, so that no line runs along the frame
LEGEND: Final = {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom", "traceorder": "normal"}
DAYS_NAMED: Final = 14  # each of which has room for its name
FEW: Final = 8  # counted things, of which an axis would show halves
FEW_DECADES: Final = 2.0  # of a logarithmic axis, which have room for 1, 2 and 5 of each


class Axis(NamedTuple):
    """What an axis shows.

    Args:
        title: With the unit in brackets, where ticks have none.
        unit: "%" of values that are shares of one, "s" for seconds with an SI prefix: ticks have
            the unit. "count" of whole numbers.
        log: Logarithmic.
        top: Where it ends; chosen by default.
    """

    title: str
    unit: str = ""
    log: bool = False
    top: float | None = None


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
        detail: What a reader sees who points at it.
    """

    name: str
    start: float
    end: float
    colour: str
    detail: str


class Bar(NamedTuple):
    """A horizontal bar.

    Args:
        name: At its left.
        value: Its length.
        text: At its end.
        colour: As CSS writes it.
        error: Half-width of its interval, None for none.
    """

    name: str
    value: float
    text: str = ""
    colour: str = BLUE
    error: float | None = None


class Part(NamedTuple):
    """A part of stacked bars.

    Args:
        name: What a reader sees who points at it.
        values: Its length in each bar (bars,).
        texts: What stands behind the name then (bars,).
        colour: As CSS writes it.
    """

    name: str
    values: Sequence[float]
    texts: Sequence[str]
    colour: str


def line_chart(lines: Sequence[Line], x: Axis, y: Axis, *, spans: Sequence[Span] = ()) -> go.Figure:
    """Return lines, steps or dots over a number, with spans of it shaded.

    Args:
        lines: In the order of the legend; those without a point are left out.
        x: The axis along.
        y: The axis up, from zero where it is not logarithmic.
        spans: Shaded behind the lines, from the first to the last point.

    Example:
        >>> from perfatlas.report.charts import Axis, Line, line_chart
        >>> load = Line("load", [0.0, 1.0], [2.0, 3.0], "red")
        >>> line_chart([load], Axis("time [s]"), Axis("requests")).layout.yaxis.title.text
        'requests'
    """
    figure = _figure(HEIGHT)
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
    figure.update_xaxes(_axis(x))
    figure.update_yaxes(_axis(y))
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
        values: The axis along.
    """
    figure = _figure(FRAME_HEIGHT + BAR_HEIGHT * len(bars))
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
    figure.update_xaxes(_axis(values))
    return figure


def waterfall(
    rows: Sequence[Mapping[str, Any]], labels: Mapping[str, str], texts: Sequence[str]
) -> go.Figure:
    """Return a figure of a whole, what is lost of it, and what is left.

    Args:
        rows: What is left, then losses: name and share of one.
        labels: Of the names.
        texts: Shares as people read them (rows,).
    """
    kept = list(zip(rows, texts, strict=True))
    lost = [(row, text) for row, text in kept[1:] if row["share"]]
    figure = _figure(FRAME_HEIGHT + BAR_HEIGHT * (len(lost) + 2))
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
    figure.update_xaxes(_axis(Axis("share of the time", unit="%")))
    return figure


def stacked_bars(names: Sequence[str], parts: Sequence[Part], values: Axis) -> go.Figure:
    """Return horizontal bars of parts, the first on top, without a legend.

    Args:
        names: Of the bars (bars,).
        parts: From left to right; a table beside the chart has their colours.
        values: The axis along.
    """
    figure = _figure(FRAME_HEIGHT + BAR_HEIGHT * len(names))
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
    figure.update_xaxes(_axis(values))
    figure.update_layout(barmode="stack")
    return figure


def histogram(centres: Sequence[float], shares: Sequence[float], x: Axis, y: Axis) -> go.Figure:
    """Return bins as bars side by side.

    Args:
        centres: Of equal bins, two or more (bins,).
        shares: In them (bins,).
        x: The axis along.
        y: The axis up.
    """
    figure = _figure(HEIGHT)
    figure.add_bar(
        x=_rounded(centres),
        y=_rounded(shares),
        width=float(centres[1] - centres[0]),
        marker={"color": COLOURS[0], "line": {"width": 0}},
    )
    figure.update_xaxes(_axis(x))
    figure.update_yaxes(_axis(y))
    return figure


def days_chart(days: Sequence[str], counts: Sequence[int], y: Axis) -> go.Figure:
    """Return a bar for each day.

    Args:
        days: Dates, ISO 8601 (days,).
        counts: Of each (days,).
        y: The axis up.
    """
    figure = _figure(HEIGHT)
    figure.add_bar(x=list(days), y=list(counts), marker={"color": ORANGE})
    figure.update_xaxes(type="date", title={"text": "day"})
    if len(days) <= DAYS_NAMED:
        figure.update_xaxes(dtick="D1", tickformat="%-d %b\n%Y")
    figure.update_yaxes(_axis(y) | {"rangemode": "tozero"})
    _tick_counts(figure, y, max(counts, default=0))
    return figure


def figure_json(figure: go.Figure) -> str:
    """Return a figure as JSON for a page, which sets colours and fonts itself.

    <, > and / are escaped: nothing in it can end the script that holds it.

    Args:
        figure: From one of the functions here.
    """
    from plotly.io.json import to_json_plotly

    plain = figure.to_plotly_json()
    plain["layout"].pop("template", None)
    text: str = to_json_plotly(plain, engine="json")
    return text


def _figure(height: int) -> go.Figure:
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


def _axis(axis: Axis) -> dict[str, Any]:
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
    """Label 1, 2 and 5 of each decade where they are few, else its beginning."""
    positive = [value for column in columns for value in column if value > 0.0]
    if axis.log and positive:
        few = math.log10(max(positive) / min(positive)) < FEW_DECADES
        update(dtick="D2" if few else 1, minor={"dtick": "D1", "showgrid": True})


def _tick_counts(figure: go.Figure, axis: Axis, highest: float) -> None:
    """Label no halves of what is counted."""
    if axis.unit == "count" and highest < FEW:
        figure.update_yaxes(dtick=1)


def _name_rows(figure: go.Figure) -> None:
    """Make rows of bars, the first on top, with their names whole at the left."""
    figure.update_yaxes(type="category", autorange="reversed", automargin=True, ticksuffix=" ")
    figure.update_traces(cliponaxis=False, selector={"type": "bar"})


def _shade(figure: go.Figure, spans: Sequence[Span], last: float) -> None:
    """Shade spans up to the last point; a name has one entry in the legend."""
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
