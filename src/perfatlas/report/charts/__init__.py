"""Charts as SVG text, without a library or a network."""

from __future__ import annotations

from perfatlas.report.charts.svg import (
    CHART_STYLE,
    HOVER_SCRIPT,
    Chart,
    Line,
    Span,
    chart_html,
    log_ticks,
    ticks,
)

__all__ = [
    "CHART_STYLE",
    "HOVER_SCRIPT",
    "Chart",
    "Line",
    "Span",
    "chart_html",
    "log_ticks",
    "ticks",
]
