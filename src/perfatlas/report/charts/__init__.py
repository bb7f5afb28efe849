"""Plotly charts for pages, notebooks and image files."""

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.report.charts.drawings import (
        BLUE, BOUND_COLOURS, BROWN, CLEAR, COLOURS, GREEN, GREY, OLIVE, ORANGE, PINK, PURPLE, RED,
        SKY, SLATE, TEAL, YELLOW, Axis, Bar, BarChart, BarPart, DaysChart, Drawing, HeatMap,
        Histogram, Line, LineChart, PipelineChart, Span, StackedBars, Waterfall, alt_text,
        first_and_last, highest_points, shares_of_bins, spans_decades,
    )
    from perfatlas.report.charts.figures import figure_json, plotly_figure
    from perfatlas.report.charts.images import (
        drawn_figure, figure_bytes, figure_format, require_matplotlib,
    )
    from perfatlas.report.charts.library import Script, plotly_script
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
