"""Measured rows, their readers and the calibrations fitted to them."""

from __future__ import annotations

from perfatlas.measurements.calibration import (
    Calibration,
    CalibrationMatch,
    calibration_folder,
    find_calibration,
    find_shipped_calibration,
    kernel_families,
    lend,
    load_calibrations,
    read_calibrations,
    user_calibrations,
)
from perfatlas.measurements.cards import measured_device, other_card
from perfatlas.measurements.rows import MeasuredRows, read_measured_rows
from perfatlas.measurements.silicon import (
    SiliconTable,
    choose_version,
    has_silicon,
    has_table,
    read_table,
    silicon_root,
    silicon_systems,
    table_paths,
    version_key,
)
from perfatlas.measurements.tables import (
    default_kernels,
    table_rows,
    table_versions,
)
from perfatlas.measurements.user_folder import user_calibration_folder

__all__ = [
    "Calibration",
    "CalibrationMatch",
    "MeasuredRows",
    "SiliconTable",
    "calibration_folder",
    "choose_version",
    "default_kernels",
    "find_calibration",
    "find_shipped_calibration",
    "has_silicon",
    "has_table",
    "kernel_families",
    "lend",
    "load_calibrations",
    "measured_device",
    "other_card",
    "read_calibrations",
    "read_measured_rows",
    "read_table",
    "silicon_root",
    "silicon_systems",
    "table_paths",
    "table_rows",
    "table_versions",
    "user_calibration_folder",
    "user_calibrations",
    "version_key",
]
