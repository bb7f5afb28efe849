"""Residuals of a model on measured shapes, and what they say about shapes nearby."""

from __future__ import annotations

from perfatlas.measurements.residuals.residuals import (
    Correction,
    Residuals,
    carry,
    code_hash,
    correct,
    kept_residuals,
    no_residuals,
    number_groups,
    with_rows_of,
)

__all__ = [
    "Correction",
    "Residuals",
    "carry",
    "code_hash",
    "correct",
    "kept_residuals",
    "no_residuals",
    "number_groups",
    "with_rows_of",
]
