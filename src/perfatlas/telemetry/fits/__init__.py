"""Lifetime distributions fitted to histories, causes and lemon nodes."""

from __future__ import annotations

from perfatlas.telemetry.fits.cascades import CASCADE_S, without_cascades
from perfatlas.telemetry.fits.causes import CauseRow, rank_causes
from perfatlas.telemetry.fits.goodness_of_fit import fitness
from perfatlas.telemetry.fits.kaplan_meier import SurvivalCurve, kaplan_meier
from perfatlas.telemetry.fits.lemons import FALSE_DISCOVERY, RATIO, Lemons, find_lemons
from perfatlas.telemetry.fits.lifetime_table import LifetimeColumns, read_lifetimes
from perfatlas.telemetry.fits.maximum_likelihood import Comparison, Fit, compare_families, with_mean
from perfatlas.telemetry.fits.service_starts import with_service_starts

__all__ = [
    "CASCADE_S",
    "FALSE_DISCOVERY",
    "RATIO",
    "CauseRow",
    "Comparison",
    "Fit",
    "Lemons",
    "LifetimeColumns",
    "SurvivalCurve",
    "compare_families",
    "find_lemons",
    "fitness",
    "kaplan_meier",
    "rank_causes",
    "read_lifetimes",
    "with_mean",
    "with_service_starts",
    "without_cascades",
]
