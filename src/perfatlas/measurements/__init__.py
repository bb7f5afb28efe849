"""Measured rows, their readers and the calibrations fitted to them."""

from __future__ import annotations

from perfatlas.measurements.calibration import (
    Calibration,
    CalibrationMatch,
    calibration_folder,
    find_calibration,
    load_calibrations,
    read_calibrations,
)
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

__all__ = [
    "Calibration",
    "CalibrationMatch",
    "SiliconTable",
    "calibration_folder",
    "choose_version",
    "find_calibration",
    "has_silicon",
    "has_table",
    "load_calibrations",
    "read_calibrations",
    "read_table",
    "silicon_root",
    "silicon_systems",
    "table_paths",
    "version_key",
]
