"""Traffic through engines: arrivals, schedulers, caches, one compiled event loop."""

from __future__ import annotations

from perfatlas.serving.arrivals import (
    all_at_once,
    constant_arrivals,
    gamma_arrivals,
    poisson_arrivals,
    ramp_arrivals,
    think_times,
)
from perfatlas.serving.binned import binned_series
from perfatlas.serving.fleet import MOST_KINDS, Fleet, Kind, Link
from perfatlas.serving.lengths import (
    empirical_lengths,
    fixed_lengths,
    lognormal,
    lognormal_lengths,
    range_around,
    uniform_lengths,
)
from perfatlas.serving.limits import MOST_SCHEDULERS, Affinity, Control, Limits, Replicas
from perfatlas.serving.loop import run_fleet
from perfatlas.serving.metrics import (
    Seen,
    request_columns,
    request_latencies,
    saturated,
    series_columns,
    statistics,
    summarize,
)
from perfatlas.serving.outcome import Outcome
from perfatlas.serving.price_table import PriceTable, TableLimits, price_table
from perfatlas.serving.prices import StepPrices
from perfatlas.serving.requests import (
    LONGEST_S,
    TICKS_PER_SECOND,
    Requests,
    plain_requests,
    whole_ticks,
)
from perfatlas.serving.scaling import scale_lengths, scale_rate, spread_batches
from perfatlas.serving.sessions import Turns, sessions
from perfatlas.serving.tail import tail_parts
from perfatlas.serving.trace_formats import read_requests
from perfatlas.serving.trace_servegen import Span, generate_servegen
from perfatlas.serving.traces import Window
from perfatlas.serving.upkeep import Outage, Scaler, Upkeep

__all__ = [
    "LONGEST_S",
    "MOST_KINDS",
    "MOST_SCHEDULERS",
    "TICKS_PER_SECOND",
    "Affinity",
    "Control",
    "Fleet",
    "Kind",
    "Limits",
    "Link",
    "Outage",
    "Outcome",
    "PriceTable",
    "Replicas",
    "Requests",
    "Scaler",
    "Seen",
    "Span",
    "StepPrices",
    "TableLimits",
    "Turns",
    "Upkeep",
    "Window",
    "all_at_once",
    "binned_series",
    "constant_arrivals",
    "empirical_lengths",
    "fixed_lengths",
    "gamma_arrivals",
    "generate_servegen",
    "lognormal",
    "lognormal_lengths",
    "plain_requests",
    "poisson_arrivals",
    "price_table",
    "ramp_arrivals",
    "range_around",
    "read_requests",
    "request_columns",
    "request_latencies",
    "run_fleet",
    "saturated",
    "scale_lengths",
    "scale_rate",
    "series_columns",
    "sessions",
    "spread_batches",
    "statistics",
    "summarize",
    "tail_parts",
    "think_times",
    "uniform_lengths",
    "whole_ticks",
]
