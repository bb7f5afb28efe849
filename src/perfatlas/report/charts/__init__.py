"""Plotly charts for pages, notebooks and image files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.report.charts.colours import (
        BLUE as BLUE,
        BOUND_COLOURS as BOUND_COLOURS,
        BROWN as BROWN,
        CLEAR as CLEAR,
        COLOURS as COLOURS,
        GREEN as GREEN,
        GREY as GREY,
        OLIVE as OLIVE,
        ORANGE as ORANGE,
        PINK as PINK,
        PURPLE as PURPLE,
        RED as RED,
        SKY as SKY,
        SLATE as SLATE,
        TEAL as TEAL,
        YELLOW as YELLOW,
    )
    from perfatlas.report.charts.drawings import (
        Axis as Axis,
        Bar as Bar,
        BarChart as BarChart,
        BarPart as BarPart,
        DaysChart as DaysChart,
        Drawing as Drawing,
        HeatMap as HeatMap,
        Histogram as Histogram,
        Line as Line,
        LineChart as LineChart,
        PipelineChart as PipelineChart,
        Span as Span,
        StackedBars as StackedBars,
        Waterfall as Waterfall,
        alt_text as alt_text,
        spans_decades as spans_decades,
    )
    from perfatlas.report.charts.figures import (
        figure_json as figure_json,
        plotly_figure as plotly_figure,
    )
    from perfatlas.report.charts.images import (
        drawn_figure as drawn_figure,
        figure_bytes as figure_bytes,
        figure_format as figure_format,
        require_matplotlib as require_matplotlib,
    )
    from perfatlas.report.charts.library import (
        SCRIPTS as SCRIPTS,
        Script as Script,
        plotly_script as plotly_script,
    )
    from perfatlas.report.charts.reduced import (
        first_and_last as first_and_last,
        highest_points as highest_points,
        shares_of_bins as shares_of_bins,
    )
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
