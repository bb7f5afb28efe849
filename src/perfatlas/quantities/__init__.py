"""Units, provenance and the errors a user can meet; knows nothing of what is modelled."""

from __future__ import annotations

from perfatlas.quantities.durations import parse_duration, parse_rate
from perfatlas.quantities.errors import (
    InfeasibleError,
    InvalidSpecError,
    MissingDependencyError,
    PerfatlasError,
    UnsupportedError,
    UsageError,
    ValidationGateError,
    counted,
    did_you_mean,
    shown,
)
from perfatlas.quantities.provenance import Kind, Source
from perfatlas.quantities.units import format_quantity, parse_quantity

__all__ = [
    "InfeasibleError",
    "InvalidSpecError",
    "Kind",
    "MissingDependencyError",
    "PerfatlasError",
    "Source",
    "UnsupportedError",
    "UsageError",
    "ValidationGateError",
    "counted",
    "did_you_mean",
    "format_quantity",
    "parse_duration",
    "parse_quantity",
    "parse_rate",
    "shown",
]
