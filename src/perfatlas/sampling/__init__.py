"""Seeded draws and sample quantiles; knows nothing of what is sampled."""

from __future__ import annotations

from perfatlas.sampling.draws import five_quantiles, seeded_subset
from perfatlas.sampling.rates import (
    JEFFREYS,
    RatePosterior,
    check_level,
    exact_rate_interval,
    rate_posterior,
    standard_errors,
)

__all__ = [
    "JEFFREYS",
    "RatePosterior",
    "check_level",
    "exact_rate_interval",
    "five_quantiles",
    "rate_posterior",
    "seeded_subset",
    "standard_errors",
]
