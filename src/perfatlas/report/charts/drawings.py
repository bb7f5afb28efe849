"""Charts as data: what is drawn, without a drawing library.

`plotly_figure` draws them for pages and notebooks, `figure_bytes` as files. Displayed names may
contain arbitrary user text; the renderers escape what their library would interpret.

Shape legend: N values, P passes.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from perfatlas.report.text import label_of, unit_of
from perfatlas.vocabulary.metrics import find_metric

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray


# Colors that differ by at least 12 (CIEDE2000) from others of their chart, and by 7 from any, also
# for protanopia and deuteranopia; those of lines have a contrast of 3 to white.
BLUE: Final = "#176ffe"
ORANGE: Final = "#b9690f"
GREEN: Final = "#54a375"
PURPLE: Final = "#644690"
PINK: Final = "#d168a1"
RED: Final = "#ab4149"
TEAL: Final = "#1899ad"
YELLOW: Final = "#d1a00f"
BROWN: Final = "#9f6536"
OLIVE: Final = "#8b9943"
GREY: Final = "#787473"
SKY: Final = "#30a2da"
SLATE: Final = "#4c5965"
COLOURS: Final = (BLUE, ORANGE, GREEN, PURPLE, PINK)  # of lines without a fixed color
CLEAR: Final = "#ffffff00"  # of a segment that only moves the next ones
BOUND_COLOURS: Final = {
    "compute": BLUE,
    "memory": GREEN,
    "network": PURPLE,
    "latency": YELLOW,
    "host": PINK,
}
HEIGHT: Final = 340  # pixels of a chart over a number
BAR_HEIGHT: Final = 34  # pixels per horizontal bar, including its gap
FRAME_HEIGHT: Final = 90  # pixels of axis, title and margins
LABELED_DECADES: Final = 2.0  # of a logarithmic axis up to which 1, 2 and 5 are labeled
NARROW_DECADES: Final = 0.7  # of one up to which more digits are
MANY_DIGITS: Final = 1e5  # from which ticks of plain numbers have SI prefixes
WIDE: Final = 30.0  # largest over smallest value from which an axis is logarithmic
ROOM: Final = 1.05  # axis length over largest value
# Pass of a pipeline -> its name in the legend and its color.
PASSES: Final = {
    "forward": ("forward", BLUE),
    "backward": ("backward", ORANGE),
    "input_gradient": ("input gradient", TEAL),
    "weight_gradient": ("weight gradient", GREEN),
}
ROW: Final = 0.9  # height of a bar of a pipeline, in rows
ROW_PIXELS: Final = 26
MARGIN_PIXELS: Final = 110
MAX_LABELS: Final = 400  # more passes are not labelled with their micro-batch


def shares_of_bins(values: Sequence[float], most: int) -> tuple[list[float], list[float]]:
    """Return the centres of bins and the share of the values in each.

    Args:
        values: The values (N,).
        most: Maximum number of bins; a few more than the square root of N otherwise.
    """
    counts, edges = np.histogram(values, bins=min(most, 5 + math.isqrt(len(values))))
    return ((edges[:-1] + edges[1:]) / 2.0).tolist(), (counts / len(values)).tolist()


def highest_points(
    x: NDArray[Any], y: NDArray[Any], most: int
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return at most some points of a curve, each the highest of its interval.

    Args:
        x: Positions, ascending (N,).
        y: Heights (N,).
        most: Maximum number of points.
    """
    if x.size <= most:
        return x, y
    starts = np.unique(np.linspace(0, x.size - 1, most).astype(np.int64))
    highest = np.maximum.reduceat(y, starts)
    highest[-1] = y[-1]
    return x[starts], highest


def first_and_last(
    passes: Mapping[str, NDArray[Any]], count: int
) -> tuple[dict[str, NDArray[Any]], dict[str, NDArray[Any]]]:
    """Return the first and the last passes of a step by their start.

    Args:
        passes: Columns of passes, of which `start_s` orders them (P,).
    """
    order = np.argsort(passes["start_s"], kind="stable")
    first, last = (
        {name: column[at] for name, column in passes.items()}
        for at in (order[:count], order[-count:])
    )
    return first, last


class Axis(NamedTuple):
    """Axis of a chart."""

    title: str  # Title; includes the unit in brackets if ticks have none
    # "%" for fractions, "count" for integers, or a unit that ticks show with SI prefixes, such as
    # "s"; "" for plain numbers
    unit: str = ""
    log: bool = False
    top: float | None = None  # Upper end; automatic by default
    bottom: float = 0.0  # Lower end of a y axis that is not logarithmic

    @classmethod
    def of(cls, name: str) -> Axis:
        """Return the axis of a metric, or of another name whose ending is its unit.

        Example:
            >>> from perfatlas.report.charts import Axis
            >>> Axis.of("ttft_s").unit, Axis.of("usd_per_million_output_tokens").title
            ('s', 'cost per million output tokens [USD]')
        """
        metric, title = find_metric(name), label_of(name)
        if metric is None:
            return cls(title, unit_of(name).removeprefix("/s"))
        if metric.shown == "share":
            return cls(title, "%")
        if metric.shown == "scaled" or metric.unit == "s":
            return cls(title, metric.unit)
        unit = metric.unit.split("/")[0]
        return cls(title if unit in ("", "1") or unit in title else f"{title} [{unit}]")

    @property
    def is_scaled(self) -> bool:
        """Whether ticks have a unit with an SI prefix."""
        return self.unit not in ("", "%", "count")


class Line(NamedTuple):
    """A line of a chart."""

    name: str  # Name in the legend
    x: Sequence[float]  # x values (points,)
    y: Sequence[float]  # y values (points,)
    colour: str
    kind: str = "line"  # line, step (a value holds until the next), dots, or mark (a large dot)
    low: Sequence[float] = ()  # Lower ends of their intervals (points,), empty without intervals
    high: Sequence[float] = ()  # Upper ends (points,)
    # Names of the points (points,), the most important first; empty for none
    texts: Sequence[str] = ()
    details: Sequence[str] = ()  # Hover texts of the points (points,); empty for their names

    @classmethod
    def of(cls, rows: Sequence[Mapping[str, Any]], x: str, y: str, name: str, colour: str) -> Line:
        """Return a metric of rows over another, with its interval where all rows have one.

        Args:
            x: Key of the x values.
            y: Key of the y values, whose interval is `y_low` and `y_high`.
        """
        ends = [[row.get(f"{y}_{end}") for row in rows] for end in ("low", "high")]
        low, high = ([float(value) for value in end if value is not None] for end in ends)
        if min(len(low), len(high)) < len(rows):
            low, high = [], []
        along, up = ([row[name] for row in rows] for name in (x, y))
        return cls(name, along, up, colour, low=low, high=high)

    @property
    def is_dotted(self) -> bool:
        """Whether its points are not joined."""
        return self.kind in ("dots", "mark")


class Span(NamedTuple):
    """A shaded interval of the x axis, or a mark at one position."""

    name: str  # Name in the legend; spans with equal names share an entry
    start: float
    end: float  # End; equal to the start for a mark
    colour: str
    detail: str  # Hover text


class Bar(NamedTuple):
    """A horizontal bar."""

    name: str  # Label at its left
    value: float  # Its length
    text: str = ""  # Label at its end
    colour: str = BLUE
    interval: tuple[float, float] | None = None  # Ends of its interval, or None


class BarPart(NamedTuple):
    """One segment of stacked bars."""

    name: str  # Name in the hover text
    values: Sequence[float]  # Its length in each bar (bars,)
    texts: Sequence[str]  # Hover text after the name (bars,)
    colour: str


class LineChart(NamedTuple):
    """Lines, steps or dots over a number, with shaded spans."""

    lines: Sequence[Line]  # Lines in legend order; empty ones are omitted
    x: Axis
    y: Axis
    spans: Sequence[Span] = ()  # Shaded behind the lines, from the first to the last point

    @property
    def drawn(self) -> list[Line]:
        """The lines that have points."""
        return [line for line in self.lines if len(line.x)]

    @property
    def highest(self) -> float:
        """Upper end of a y axis that is not logarithmic."""
        top = max((max([*line.y, *line.high]) for line in self.drawn), default=1.0) or 1.0
        return self.y.top or self.y.bottom + ROOM * (top - self.y.bottom)

    @property
    def height(self) -> int:
        """Height [pixels]."""
        return HEIGHT


class BarChart(NamedTuple):
    """Horizontal bars, the first on top."""

    bars: Sequence[Bar]  # One or more
    values: Axis  # The x axis

    @property
    def height(self) -> int:
        """Height [pixels]."""
        return FRAME_HEIGHT + BAR_HEIGHT * len(self.bars)


class Waterfall(NamedTuple):
    """A waterfall from a whole through its losses to the remainder."""

    rows: Sequence[Mapping[str, Any]]  # The remainder, then losses: name and share
    labels: Mapping[str, str]
    texts: Sequence[str]  # Shares as text (rows,)
    values: Axis = Axis("share of the time", unit="%")  # The x axis

    @property
    def steps(self) -> list[tuple[str, float, str]]:
        """Label, signed share and text of the whole, of each loss and of the remainder."""
        (first, text), *others = zip(self.rows, self.texts, strict=True)
        lost = [(row, message) for row, message in others if row["share"]]
        return [
            ("total", 1.0, "100%"),
            *((self.labels[row["name"]], -float(row["share"]), message) for row, message in lost),
            (self.labels[first["name"]], float(first["share"]), text),
        ]

    @property
    def height(self) -> int:
        """Height [pixels]."""
        return FRAME_HEIGHT + BAR_HEIGHT * len(self.steps)


class StackedBars(NamedTuple):
    """Stacked horizontal bars, the first on top."""

    names: Sequence[str]  # Names of the bars (bars,)
    # Segments from left to right; a table beside the chart on a page has their colors
    parts: Sequence[BarPart]
    values: Axis  # The x axis

    @property
    def height(self) -> int:
        """Height [pixels]."""
        return FRAME_HEIGHT + BAR_HEIGHT * len(self.names)


class Histogram(NamedTuple):
    """A histogram."""

    centres: Sequence[float]  # Centers of two or more equal bins (bins,)
    shares: Sequence[float]  # Heights (bins,)
    x: Axis
    y: Axis

    @property
    def height(self) -> int:
        """Height [pixels]."""
        return HEIGHT


class DaysChart(NamedTuple):
    """One bar per day."""

    days: Sequence[str]  # Dates, ISO 8601 (days,)
    counts: Sequence[int]  # Count per day (days,)
    y: Axis

    @property
    def height(self) -> int:
        """Height [pixels]."""
        return HEIGHT


class PassBars(NamedTuple):
    """The bars of one kind of pass in a pipeline, all of one height."""

    title: str  # Name in the legend
    colour: str
    rows: Sequence[Mapping[str, Any]]
    offset: float  # Upper edge relative to the middle of the row of the rank
    height: float


class PipelineChart(NamedTuple):
    """The passes of each pipeline rank over time, rank 0 on top.

    The two passes of an overlapped pair share the height of the row.
    """

    # Columns rank, stage, chunk, micro_batch, pass, overlapped, start_s and end_s
    timeline: Mapping[str, Any]

    @property
    def size(self) -> int:
        """Number of passes."""
        return len(self.timeline["rank"])

    @property
    def ranks(self) -> int:
        """Number of ranks."""
        return 1 + max((int(rank) for rank in self.timeline["rank"]), default=0)

    @property
    def bars(self) -> list[PassBars]:
        """The bars of each kind of pass, alone and overlapped."""
        rows = [
            dict(zip(self.timeline, values, strict=True))
            for values in zip(*self.timeline.values(), strict=True)
        ]
        found = []
        for name, (title, colour) in PASSES.items():
            for overlapped in (False, True):
                drawn = [
                    row
                    for row in rows
                    if row["pass"] == name and bool(row["overlapped"]) is overlapped
                ]
                offset = 0.0 if overlapped and name != "forward" else -ROW / 2
                if drawn:
                    height = ROW / 2 if overlapped else ROW
                    found.append(PassBars(title, colour, drawn, offset, height))
        return found

    @property
    def height(self) -> int:
        """Height [pixels]."""
        return MARGIN_PIXELS + ROW_PIXELS * self.ranks


class HeatMap(NamedTuple):
    """Cells of a grid of two axes, by color and number."""

    x: tuple[str, Sequence[str]]  # Title of the columns, and their names
    y: tuple[str, Sequence[str]]  # Title of the rows, and their names, the first at the bottom
    cells: Sequence[Sequence[float | None]]  # Values (rows, columns), None where there is none
    texts: Sequence[Sequence[str]]  # Values as texts (rows, columns)
    values: Axis  # What the values are

    @property
    def height(self) -> int:
        """Height [pixels]."""
        return FRAME_HEIGHT + BAR_HEIGHT * max(len(self.y[1]), 4)


def spans_decades(values: Iterable[float]) -> bool:
    """Return whether values are positive and need a logarithmic axis.

    Example:
        >>> from perfatlas.report.charts import spans_decades
        >>> spans_decades([1, 256]), spans_decades([1, 8]), spans_decades([0, 256])
        (True, False, False)
    """
    positions = list(values)
    return bool(positions) and min(positions) > 0.0 and max(positions) / min(positions) >= WIDE


Drawing = (
    LineChart | BarChart | Waterfall | StackedBars | Histogram | DaysChart | PipelineChart | HeatMap
)


def log_ticks(low: float, high: float) -> list[float]:
    """Return the labelled values of a logarithmic axis of at most two decades, else none.

    Example:
        >>> from perfatlas.report.charts.drawings import log_ticks
        >>> log_ticks(0.014, 0.033), log_ticks(1.0, 80.0), log_ticks(1.0, 1e3)
        ([0.015, 0.02, 0.025, 0.03], [1.0, 2.0, 5.0, 10.0, 20.0, 50.0], [])
    """
    decades = math.log10(high / low)
    if decades >= LABELED_DECADES:
        return []
    digits = (1.0, 2.0, 5.0) if decades > NARROW_DECADES else (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8)
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    ticks = [float(f"{digit:g}e{power}") for power in powers for digit in digits]
    return [tick for tick in ticks if low * (1.0 - 1e-9) <= tick <= high * (1.0 + 1e-9)]


def alt_text(title: str, drawing: Drawing) -> str:
    """Return a chart in a sentence, for those who do not see it.

    Example:
        >>> from perfatlas.report.charts import Axis, Bar, BarChart, alt_text
        >>> alt_text("Time", BarChart([Bar("gemm", 2.0, "2 s")], Axis("time", "s")))
        'Time: time; gemm 2 s'
    """
    match drawing:
        case LineChart():
            names = ", ".join(dict.fromkeys(line.name for line in drawing.drawn))
            message = f"{drawing.y.title} over {drawing.x.title}; {names}"
        case BarChart():
            bars = ", ".join(f"{bar.name} {bar.text}".strip() for bar in drawing.bars)
            message = f"{drawing.values.title}; {bars}"
        case Waterfall():
            message = ", ".join(f"{label} {text}" for label, _, text in drawing.steps)
        case StackedBars():
            parts = dict.fromkeys(part.name for part in drawing.parts if part.colour != CLEAR)
            message = f"{drawing.values.title} by {', '.join(parts)}"
        case Histogram():
            message = f"{drawing.y.title} over {drawing.x.title}"
        case DaysChart():
            message = f"{drawing.y.title} by day"
        case PipelineChart():
            message = f"passes of {drawing.ranks} pipeline ranks over time"
        case HeatMap():
            message = f"{drawing.values.title} by {drawing.x[0]} and {drawing.y[0]}"
    return f"{title}: {message}"
