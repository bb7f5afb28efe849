"""Fitting of calibrations to measured tables, and validation against them."""

from __future__ import annotations

from perfatlas.lab.calibrate import calibrate, calibrate_cell
from perfatlas.lab.cells import Cell, Range, Rows
from perfatlas.lab.fitting import error_statistics, fit_parameters
from perfatlas.lab.measured_page import write_measured_page
from perfatlas.lab.registry import device_cells
from perfatlas.lab.user_calibration import MeasurementReport, calibrate_measurements
from perfatlas.lab.validate import CellScore, validate_kernels
from perfatlas.lab.validate_blocks import validate_blocks
from perfatlas.lab.validate_capacity import validate_capacity
from perfatlas.lab.validate_measured import validate_measured
from perfatlas.lab.validate_serving import validate_serving
from perfatlas.lab.validate_steps import left_out_runs, validate_steps
from perfatlas.lab.validate_traffic import validate_traffic

__all__ = [
    "Cell",
    "CellScore",
    "MeasurementReport",
    "Range",
    "Rows",
    "calibrate",
    "calibrate_cell",
    "calibrate_measurements",
    "device_cells",
    "error_statistics",
    "fit_parameters",
    "left_out_runs",
    "validate_blocks",
    "validate_capacity",
    "validate_kernels",
    "validate_measured",
    "validate_serving",
    "validate_steps",
    "validate_traffic",
    "write_measured_page",
]
