"""Fitted parameters, who may lend them, and a user's own."""

from __future__ import annotations

from perfatlas.measurements.calibrations.calibration import (
    KERNELS,
    LENDERS,
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
from perfatlas.measurements.calibrations.engine_transfer import (
    ANY_KERNEL,
    ENGINE_TRANSFERS,
    engine_transfers,
)
from perfatlas.measurements.calibrations.transfer import (
    DIGITS,
    Pair,
    Pairs,
    Silicon,
    catalog_silicon,
    donor_of,
    expected_quantiles,
    load_transfers,
    silicon_of,
    transfer_path,
)
from perfatlas.measurements.calibrations.user_folder import (
    DEVICE_NAME,
    FIVE,
    read_user_file,
    user_calibration_folder,
)

__all__ = [
    "ANY_KERNEL",
    "DEVICE_NAME",
    "DIGITS",
    "ENGINE_TRANSFERS",
    "FIVE",
    "KERNELS",
    "LENDERS",
    "Calibration",
    "CalibrationMatch",
    "Pair",
    "Pairs",
    "Silicon",
    "calibration_folder",
    "catalog_silicon",
    "donor_of",
    "engine_transfers",
    "expected_quantiles",
    "find_calibration",
    "find_shipped_calibration",
    "kernel_families",
    "lend",
    "load_calibrations",
    "load_transfers",
    "read_calibrations",
    "read_user_file",
    "silicon_of",
    "transfer_path",
    "user_calibration_folder",
    "user_calibrations",
]
