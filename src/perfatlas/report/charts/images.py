"""Charts as image files, drawn by matplotlib: PNG, SVG or PDF.

The same charts give the same bytes with one version of matplotlib, whatever its settings are.
"""

from __future__ import annotations

import io
import math
from importlib import import_module
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any, Final, assert_never

import numpy as np

from perfatlas.quantities import MissingDependencyError, UsageError
from perfatlas.report.charts import drawings
from perfatlas.report.charts.drawings import BLUE, CLEAR, COLOURS, ORANGE
from perfatlas.report.text import typeset

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

FORMATS: Final = ("png", "svg", "pdf")
WIDTH_INCHES: Final = 7.2
PIXELS_PER_INCH: Final = 96.0  # of the heights of charts, as in a browser
PRINTED_PER_INCH: Final = 200  # of a PNG
STYLE: Final[dict[str, Any]] = {
    "svg.hashsalt": "perfatlas",
    "font.size": 9.0,
    "axes.titlesize": 10.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#d8dee4",
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "legend.fontsize": 8.0,
}
LOOKS: Final[dict[str, dict[str, Any]]] = {
    "line": {"linewidth": 1.6},
    "step": {"linewidth": 1.6, "drawstyle": "steps-post"},
    "dots": {"linestyle": "", "marker": "o", "markersize": 3.5, "alpha": 0.7},
    "mark": {"linestyle": "", "marker": "o", "markersize": 8.0, "markeredgecolor": "black"},
}
# of names beside their points [points], the best first
PLACES: Final = ((5.0, -10.0), (5.0, 3.0), (-5.0, -10.0), (-5.0, 3.0))
NAME_POINTS: Final = 7.0  # size of a name beside a point
TEXT_HEIGHT: Final = 8.4  # of a name beside a point [points]
CURVE_POINTS: Final = 48  # between two points of a line that names may not cover
INTERVAL: Final = "90% interval"
STYLES: Final = ("-", "--", "-.", ":")
NARROW: Final = 10.0**drawings.NARROW_DECADES  # ratio up to which more digits are
FEW_DECADES: Final = 5e3  # ratio of the ends of an axis up to which 2 and 5 are labelled
LETTER: Final = 4.2  # width of a letter of a legend [points]
MAX_LEGEND_ENTRIES: Final = 3  # entries in a row of a legend
LEGEND_LINE: Final = 10  # letters as wide as the line and the margins of an entry of a legend
PLOTTED: Final = 0.85  # share of the width of an image that a panel has
MAX_LABEL_LETTERS: Final = 75  # of all names below a heat map up to which they are horizontal
TOP_MARGIN: Final = 0.15  # share of an axis beside its upper end, for the label of a bar
ROW_LETTERS: Final = 32  # of a line of the name of a bar
TITLE_LETTERS: Final = 76  # of a line of the title of a chart
MAX_TICKS: Final = 16  # named columns of a heat map
MAX_NUMBERED_COLUMNS: Final = 12  # columns of a heat map whose cells have numbers
HEADING_LETTERS: Final = 96  # of a line of the heading
HEADING_INCHES: Final = 0.17  # height of such a line
LEGEND_POINTS: Final = 13.0  # height of a row of a legend


def figure_format(path: str | Path) -> str:
    """Return the format of an image file, from its extension.

    Raises:
        UsageError: The extension is not one of png, svg and pdf.

    Example:
        >>> from perfatlas.report.charts import figure_format
        >>> figure_format("frontier.SVG")
        'svg'
    """
    extension = Path(path).suffix.lower().removeprefix(".")
    if extension not in FORMATS:
        endings = ", ".join(f".{text}" for text in FORMATS)
        raise UsageError(f"--figure {path}: expected a file that ends in {endings}")
    return extension


def require_matplotlib() -> None:
    """Raise a MissingDependencyError unless matplotlib is installed."""
    try:
        import_module("matplotlib")
    except ImportError as problem:
        raise MissingDependencyError(
            "image files of charts need matplotlib: pip install '.[plot]' in the clone"
        ) from problem


def figure_bytes(
    charts: Sequence[tuple[str, drawings.Drawing]], file_format: str, heading: str = ""
) -> bytes:
    """Return charts with titles as an image, one below the other.

    Args:
        charts: Title and chart, one or more.
        file_format: png, svg or pdf.
        heading: The question, above the charts.

    Raises:
        MissingDependencyError: matplotlib is not installed.
    """
    require_matplotlib()
    from matplotlib import style

    with style.context(["default", STYLE]):
        figure = drawn_figure(charts, heading)
        written = io.BytesIO()
        undated = {"png": {}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}[file_format]
        figure.savefig(
            written, format=file_format, dpi=PRINTED_PER_INCH, metadata=undated, facecolor="white"
        )
    return written.getvalue()


def drawn_figure(charts: Sequence[tuple[str, drawings.Drawing]], heading: str = "") -> Any:  # noqa: ANN401 - of matplotlib
    """Return charts with titles as a figure of matplotlib, one below the other.

    Args:
        charts: Title and chart, one or more.
        heading: The question, above the charts.

    Raises:
        MissingDependencyError: matplotlib is not installed.
    """
    require_matplotlib()
    from matplotlib import style
    from matplotlib.figure import Figure

    class DisplayedFigure(Figure):  # type: ignore[misc]
        """A figure that a notebook displays as a picture."""

        def _repr_png_(self) -> bytes:
            written = io.BytesIO()
            self.savefig(written, format="png", dpi=PIXELS_PER_INCH, facecolor="white")
            return written.getvalue()

    heights = [chart.height / PIXELS_PER_INCH + 0.25 for _, chart in charts]
    lines = fill(heading, HEADING_LETTERS).splitlines()
    above_in = len(lines) * HEADING_INCHES
    with style.context(["default", STYLE]):
        size = (WIDTH_INCHES, sum(heights) + above_in)
        figure = DisplayedFigure(figsize=size, layout="constrained")
        if lines:
            where = {"x": 0.01, "ha": "left", "fontsize": 9.0, "color": "#444c54"}
            figure.suptitle(_text("\n".join(lines)), **where)
        panels = figure.subplots(len(charts), 1, squeeze=False, height_ratios=heights)
        for (title, chart), panel in zip(charts, panels[:, 0], strict=True):
            _draw(panel, chart)
            legend = -(-len(panel.get_legend_handles_labels()[1]) // _legend_columns(panel))
            above = LEGEND_POINTS * legend if panel.get_legend() else 0.0
            panel.set_title(
                _text(fill(title, TITLE_LETTERS)), loc="left", fontweight="bold", pad=6.0 + above
            )
        named = [
            (panel, chart)
            for (_, chart), panel in zip(charts, panels[:, 0], strict=True)
            if isinstance(chart, drawings.LineChart) and any(line.texts for line in chart.drawn)
        ]
        if named:
            figure.draw_without_rendering()  # places follow from the final layout
        for panel, chart in named:
            _label_points(panel, chart)
    return figure


def _draw(panel: Any, chart: drawings.Drawing) -> None:  # noqa: ANN401 - axes of matplotlib
    match chart:
        case drawings.LineChart():
            _draw_lines(panel, chart)
        case drawings.BarChart():
            _draw_bars(panel, chart)
        case drawings.Waterfall():
            _draw_waterfall(panel, chart)
        case drawings.StackedBars():
            _draw_stacks(panel, chart)
        case drawings.Histogram():
            width = chart.centres[1] - chart.centres[0]
            panel.bar(chart.centres, chart.shares, width=width, color=COLOURS[0])
            _set_axis(panel, "x", chart.x)
            _set_axis(panel, "y", chart.y)
        case drawings.DaysChart():
            _draw_days(panel, chart)
        case drawings.PipelineChart():
            _draw_pipeline(panel, chart)
        case drawings.HeatMap():
            _draw_cells(panel, chart)
        case _:
            assert_never(chart)


def _draw_lines(panel: Any, chart: drawings.LineChart) -> None:  # noqa: ANN401 - axes of matplotlib
    styles: dict[str, str] = {}
    named: set[str] = set()
    for line in chart.drawn:
        name = None if line.name in styles else _text(line.name)
        look = LOOKS[line.kind]
        if line.kind == "line":
            style = STYLES[len(styles) % len(STYLES)]
            look = {**look, "linestyle": styles.setdefault(line.name, style)}
        panel.plot(line.x, line.y, color=line.colour, label=name, **look)
        if line.low and line.is_dotted:
            ends = [
                [abs(y - end) for y, end in zip(line.y, side, strict=True)]
                for side in (line.low, line.high)
            ]
            panel.errorbar(line.x, line.y, yerr=ends, fmt="none", ecolor=line.colour, capsize=2.5)
        elif line.low:
            band = {"color": line.colour, "alpha": 0.18, "linewidth": 0}
            label = None if INTERVAL in named else INTERVAL
            named.add(INTERVAL)
            panel.fill_between(line.x, line.low, line.high, label=label, **band)
    _set_axis(panel, "x", chart.x)
    _set_axis(panel, "y", chart.y)
    if not chart.y.log:
        panel.set_ylim(chart.y.bottom, chart.highest)
    last = max((max(line.x) for line in chart.drawn), default=0.0)
    for span in chart.spans:
        if span.start > last:
            continue
        label = None if span.name in named else _text(span.name)
        named.add(span.name)
        if span.start == span.end:
            panel.axvline(span.start, color=span.colour, linewidth=1.0, linestyle="--", label=label)
        else:
            end = min(span.end, last)
            panel.axvspan(span.start, end, color=span.colour, alpha=0.3, linewidth=0, label=label)
    if len(chart.drawn) > 1 or named:
        _place_legend(panel)


def _label_points(panel: Any, chart: drawings.LineChart) -> None:  # noqa: ANN401 - axes of matplotlib
    """Write the names of points beside them, without those that would cover a name or a line."""
    from matplotlib.textpath import TextPath

    points = 72.0 / panel.figure.dpi  # points of a pixel
    curves = [
        _filled(
            panel.transData.transform(list(zip(line.x, line.y, strict=True))) * points,
            1 if line.is_dotted else CURVE_POINTS,
        )
        for line in chart.drawn
    ]
    frame = panel.bbox
    taken: list[tuple[float, float, float, float]] = []
    marked_first = sorted(chart.drawn, key=lambda line: line.kind != "mark")
    named: dict[tuple[float, float], str] = {}
    for line in marked_first:
        for x, y, text in zip(line.x, line.y, line.texts, strict=False):
            named.setdefault((x, y), text)
    for (x, y), text in named.items():
        right, above = panel.transData.transform((x, y)) * points
        drawn = TextPath((0.0, 0.0), _text(text), size=NAME_POINTS)
        wide = drawn.get_extents().width + NAME_POINTS  # a letter between two names
        for side, height in PLACES:
            start, low = right + side - wide * (side < 0), above + height
            end, top = start + wide, low + TEXT_HEIGHT
            inside = start > frame.x0 * points and end < frame.x1 * points
            inside &= low > frame.y0 * points and top < frame.y1 * points
            if (
                inside
                and not any(
                    start < x1 and x0 < end and low < y1 and y0 < top for x0, y0, x1, y1 in taken
                )
                and not any(
                    np.any((start < at) & (at < end) & (low < up) & (up < top)) for at, up in curves
                )
            ):
                taken.append((start, low, end, top))
                where = {"xytext": (side, height), "textcoords": "offset points"}
                side_of = "right" if side < 0 else "left"
                panel.annotate(_text(text), (x, y), ha=side_of, fontsize=NAME_POINTS, **where)
                break


def _filled(corners: NDArray[np.float64], parts: int) -> NDArray[np.float64]:
    """Return points of a line, `parts` of them for each of its segments (2, points)."""
    positions = np.linspace(0.0, len(corners) - 1.0, 1 + parts * (len(corners) - 1))
    known = np.arange(len(corners))
    return np.array([np.interp(positions, known, corners[:, axis]) for axis in (0, 1)])


def _draw_bars(panel: Any, chart: drawings.BarChart) -> None:  # noqa: ANN401 - axes of matplotlib
    values = [bar.value for bar in chart.bars]
    rows = list(range(len(values)))
    ends = [bar.interval or (math.nan, math.nan) for bar in chart.bars]
    errors = [
        [value - low for value, (low, _) in zip(values, ends, strict=True)],
        [high - value for value, (_, high) in zip(values, ends, strict=True)],
    ]
    drawn = panel.barh(rows, values, color=[bar.colour for bar in chart.bars], height=0.7)
    if any(bar.interval for bar in chart.bars):
        panel.errorbar(values, rows, xerr=errors, fmt="none", ecolor="black", capsize=2.0)
    shown = ["" if bar.interval else _text(typeset(bar.text)) for bar in chart.bars]
    panel.bar_label(drawn, labels=shown, padding=3)
    for row, bar in zip(rows, chart.bars, strict=True):
        if bar.interval:
            end = (max(bar.interval[1], bar.value), row)
            where = {"xytext": (4.0, 0.0), "textcoords": "offset points", "va": "center"}
            panel.annotate(_text(typeset(bar.text)), end, **where)
    _name_rows(panel, [bar.name for bar in chart.bars])
    panel.margins(x=0.2)  # labels at both ends
    if chart.values.top is not None:
        panel.set_xlim(0.0, (1.0 + TOP_MARGIN) * chart.values.top)
    _set_axis(panel, "x", chart.values)


def _draw_waterfall(panel: Any, chart: drawings.Waterfall) -> None:  # noqa: ANN401 - axes of matplotlib
    remaining = 0.0
    for index, (_, share, text) in enumerate(chart.steps):
        whole = index in (0, len(chart.steps) - 1)
        start = 0.0 if whole else remaining
        drawn = panel.barh(index, share, left=start, color=BLUE if whole else ORANGE, height=0.7)
        panel.bar_label(drawn, labels=[_text(typeset(text))], padding=3)
        remaining = start + share
    _name_rows(panel, [label for label, _, _ in chart.steps])
    _set_axis(panel, "x", chart.values)


def _draw_stacks(panel: Any, chart: drawings.StackedBars) -> None:  # noqa: ANN401 - axes of matplotlib
    rows = list(range(len(chart.names)))
    left = [0.0] * len(rows)
    named: set[str] = set()
    for part in chart.parts:
        label = None if part.colour == CLEAR or part.name in named else _text(part.name)
        named.add(part.name)
        panel.barh(rows, part.values, left=left, color=part.colour, height=0.7, label=label)
        left = [start + value for start, value in zip(left, part.values, strict=True)]
    panel.use_sticky_edges = False  # a part of no length ends no axis
    _name_rows(panel, chart.names)
    panel.set_xlim(0.0, drawings.ROOM * max(left, default=1.0) or 1.0)
    _set_axis(panel, "x", chart.values)
    panel.set_xlim(left=0.0)
    _place_legend(panel)


def _draw_cells(panel: Any, chart: drawings.HeatMap) -> None:  # noqa: ANN401 - axes of matplotlib
    values = [[math.nan if value is None else value for value in row] for row in chart.cells]
    (x, columns), (y, rows) = chart.x, chart.y
    scale = "log" if chart.values.log else "linear"
    drawn = panel.imshow(values, cmap="cividis", aspect="auto", origin="lower", norm=scale)
    panel.grid(visible=False)
    crowded = sum(map(len, columns)) > MAX_LABEL_LETTERS
    every = 1 + len(columns) // MAX_TICKS
    panel.set_xticks(
        range(0, len(columns), every),
        [_text(name) for name in columns[::every]],
        rotation=30.0 if crowded else 0.0,
        ha="right" if crowded else "center",
    )
    panel.set_yticks(range(len(rows)), [_text(name) for name in rows])
    panel.set_xlabel(_text(x))
    panel.set_ylabel(_text(y))
    bar = panel.figure.colorbar(drawn, ax=panel)
    _set_axis(bar.ax, "y", chart.values)
    for row, texts in enumerate(chart.texts if len(columns) <= MAX_NUMBERED_COLUMNS else ()):
        for column, text in enumerate(texts):
            light = math.isfinite(values[row][column]) and drawn.norm(values[row][column]) > 0.5
            colour = "black" if light else "white"
            panel.text(column, row, _text(text), ha="center", va="center", color=colour, fontsize=7)


def _draw_days(panel: Any, chart: drawings.DaysChart) -> None:  # noqa: ANN401 - axes of matplotlib
    from datetime import date

    panel.bar([date.fromisoformat(day) for day in chart.days], chart.counts, color=ORANGE)
    panel.xaxis.axis_date()
    panel.set_xlabel("day")
    _set_axis(panel, "y", chart.y)


def _draw_pipeline(panel: Any, chart: drawings.PipelineChart) -> None:  # noqa: ANN401 - axes of matplotlib
    labelled = chart.size <= drawings.MAX_LABELS
    named: set[str] = set()
    for bars in chart.bars:
        starts = [float(row["start_s"]) for row in bars.rows]
        lengths = [float(row["end_s"]) - float(row["start_s"]) for row in bars.rows]
        tops = [int(row["rank"]) + bars.offset for row in bars.rows]
        panel.barh(
            tops,
            lengths,
            left=starts,
            height=bars.height,
            align="edge",
            color=bars.colour,
            edgecolor="white",
            linewidth=0.4,
            label=None if bars.title in named else bars.title,
        )
        named.add(bars.title)
        if labelled:
            for slot in bars.rows:
                middle = (float(slot["start_s"]) + float(slot["end_s"])) / 2.0
                height = int(slot["rank"]) + bars.offset + bars.height / 2.0
                panel.text(
                    middle,
                    height,
                    str(int(slot["micro_batch"])),
                    ha="center",
                    va="center",
                    color="white",
                    fontsize=6.0,
                    clip_on=True,
                )
    panel.grid(visible=False)
    panel.set_ylim(chart.ranks - 0.5, -0.5)
    panel.set_ylabel("pipeline rank")
    _set_axis(panel, "y", drawings.Axis("pipeline rank", "count"))
    _set_axis(panel, "x", drawings.Axis("time", "s"))
    _place_legend(panel)


def _set_axis(panel: Any, name: str, axis: drawings.Axis) -> None:  # noqa: ANN401 - axes of matplotlib
    """Set title, ticks and scale of the axis x or y."""
    from matplotlib.ticker import (
        EngFormatter,
        FixedLocator,
        LogLocator,
        MaxNLocator,
        NullFormatter,
        PercentFormatter,
        StrMethodFormatter,
    )

    side = getattr(panel, f"{name}axis")
    side.set_label_text(_text(axis.title))
    if axis.log:
        panel.set(**{f"{name}scale": "log"})
        low, high = getattr(panel, f"get_{name}lim")()
        digits = (1.0, 2.0, 5.0) if high / low < FEW_DECADES else (1.0,)
        narrow = drawings.log_ticks(low, high) if high / low < NARROW else []
        side.set_major_locator(FixedLocator(narrow) if narrow else LogLocator(subs=digits))
        side.set_minor_formatter(NullFormatter())
    elif axis.unit == "count":
        side.set_major_locator(MaxNLocator(integer=True))
        side.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    if axis.unit == "%":
        shares = PercentFormatter(1.0)
        side.set_major_formatter((lambda x, _: f"{100.0 * x:.3g}%") if axis.log else shares)
    elif axis.is_scaled:
        side.set_major_formatter(EngFormatter(unit=axis.unit))
    elif axis.log or max(map(abs, side.get_view_interval())) >= drawings.MANY_DIGITS:
        shown = EngFormatter(sep="")
        side.set_major_formatter(lambda x, _: f"{x:g}" if abs(x) < 1.0 else shown(x))


def _name_rows(panel: Any, names: Sequence[str]) -> None:  # noqa: ANN401 - axes of matplotlib
    """Name horizontal bars at the left, the first on top."""
    named = [_text(fill(name, ROW_LETTERS, max_lines=2, placeholder=" …")) for name in names]
    panel.set_yticks(range(len(names)), named)
    panel.tick_params(axis="y", length=0.0)
    panel.set_ylim(len(names) - 0.5, -0.5)
    panel.grid(visible=False, axis="y")
    panel.margins(x=0.12)


def _place_legend(panel: Any) -> None:  # noqa: ANN401 - axes of matplotlib
    panel.legend(
        loc="lower left",
        bbox_to_anchor=(0.0, 1.0),
        ncols=_legend_columns(panel),
        borderaxespad=0.0,
    )


def _legend_columns(panel: Any) -> int:  # noqa: ANN401 - axes of matplotlib
    """Return how many entries of a legend fit beside each other, at most MAX_LEGEND_ENTRIES."""
    longest = max(map(len, panel.get_legend_handles_labels()[1]), default=0)
    wide = (longest + LEGEND_LINE) * LETTER
    return max(1, min(MAX_LEGEND_ENTRIES, int(72.0 * WIDTH_INCHES * PLOTTED / wide)))


def _text(text: str) -> str:
    """Return a text of which matplotlib reads nothing as mathematics."""
    return str(text).replace("$", r"\$")
