"""Requests as columns: arrivals, lengths, sessions, scaling."""

from __future__ import annotations

from perfatlas.serving.requests.arrivals import (
    Purpose,
    all_at_once,
    constant_arrivals,
    gamma_arrivals,
    poisson_arrivals,
    ramp_arrivals,
    stream,
    think_times,
)
from perfatlas.serving.requests.columns import (
    LONGEST_S,
    TICKS_PER_SECOND,
    Requests,
    plain_requests,
    whole_ticks,
)
from perfatlas.serving.requests.lengths import (
    LONGEST_TOKENS,
    empirical_lengths,
    fixed_lengths,
    lognormal,
    lognormal_lengths,
    range_around,
    uniform_lengths,
)
from perfatlas.serving.requests.scaling import scale_lengths, scale_rate, spread_batches
from perfatlas.serving.requests.sessions import Turns, sessions

__all__ = [
    "LONGEST_S",
    "LONGEST_TOKENS",
    "TICKS_PER_SECOND",
    "Purpose",
    "Requests",
    "Turns",
    "all_at_once",
    "constant_arrivals",
    "empirical_lengths",
    "fixed_lengths",
    "gamma_arrivals",
    "lognormal",
    "lognormal_lengths",
    "plain_requests",
    "poisson_arrivals",
    "ramp_arrivals",
    "range_around",
    "scale_lengths",
    "scale_rate",
    "sessions",
    "spread_batches",
    "stream",
    "think_times",
    "uniform_lengths",
    "whole_ticks",
]
