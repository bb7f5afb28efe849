"""Fitting of calibrations to measured tables and to few rows of a user."""

from __future__ import annotations

from perfatlas.lab.fitting.device import (
    FIT_ROWS,
    SEED,
    calibrate,
    fit_cell,
    residual_quantiles,
    transfer_quantiles,
    write_calibrations,
)
from perfatlas.lab.fitting.few_shot import CellChange, refit_rows
from perfatlas.lab.fitting.held_out import SMALL_CELL
from perfatlas.lab.fitting.least_squares import error_statistics, fit_parameters, simplex_search
from perfatlas.lab.fitting.split import GROUPED_BY, held_out, row_groups, taken
from perfatlas.lab.fitting.user_calibration import MeasurementReport, calibrate_measurements

__all__ = [
    "FIT_ROWS",
    "GROUPED_BY",
    "SEED",
    "SMALL_CELL",
    "CellChange",
    "MeasurementReport",
    "calibrate",
    "calibrate_measurements",
    "error_statistics",
    "fit_cell",
    "fit_parameters",
    "held_out",
    "refit_rows",
    "residual_quantiles",
    "row_groups",
    "simplex_search",
    "taken",
    "transfer_quantiles",
    "write_calibrations",
]
