"""Results of a simulation: columns, metrics, tail attribution, series."""

from __future__ import annotations

from perfatlas.serving.outcome.binned import binned_series
from perfatlas.serving.outcome.columns import (
    GAP_EDGES,
    Fronted,
    Offloaded,
    Operated,
    Outcome,
    Series,
    Travels,
)
from perfatlas.serving.outcome.metrics import (
    Seen,
    request_columns,
    request_latencies,
    saturated,
    series_columns,
    statistics,
    summarize,
)
from perfatlas.serving.outcome.tail_attribution import tail_parts

__all__ = [
    "GAP_EDGES",
    "Fronted",
    "Offloaded",
    "Operated",
    "Outcome",
    "Seen",
    "Series",
    "Travels",
    "binned_series",
    "request_columns",
    "request_latencies",
    "saturated",
    "series_columns",
    "statistics",
    "summarize",
    "tail_parts",
]
