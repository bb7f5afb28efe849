"""Fitting of calibrations to measured tables, and validation against them."""

from __future__ import annotations

from perfatlas.lab.calibrate import calibrate, calibrate_cell, fit_cell, refresh_transfer
from perfatlas.lab.cells import Cell, Range, Rows
from perfatlas.lab.fitting import (
    ErrorStatistics,
    error_statistics,
    fit_parameters,
)
from perfatlas.lab.registry import device_cells
from perfatlas.lab.validate import CellScore, score_cell, validate_kernels
from perfatlas.lab.validate_steps import validate_steps

__all__ = [
    "Cell",
    "CellScore",
    "ErrorStatistics",
    "Range",
    "Rows",
    "calibrate",
    "calibrate_cell",
    "device_cells",
    "error_statistics",
    "fit_cell",
    "fit_parameters",
    "refresh_transfer",
    "score_cell",
    "validate_kernels",
    "validate_steps",
]
