"""Fitted parameters, their transfer to other devices, and user calibrations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.measurements.calibrations.calibration import (
        KERNELS as KERNELS,
        SUBSTITUTE_FAMILIES as SUBSTITUTE_FAMILIES,
        USER_PROTOCOL as USER_PROTOCOL,
        Calibration as Calibration,
        calibration_folder as calibration_folder,
        has_shipped as has_shipped,
        kernel_families as kernel_families,
        load_calibrations as load_calibrations,
        read_calibrations as read_calibrations,
        shipped_cell as shipped_cell,
        user_calibrations as user_calibrations,
    )
    from perfatlas.measurements.calibrations.matching import (
        ANY_KERNEL as ANY_KERNEL,
        ENGINE_TRANSFERS as ENGINE_TRANSFERS,
        CalibrationMatch as CalibrationMatch,
        as_substitute as as_substitute,
        engine_transfers as engine_transfers,
        find_calibration as find_calibration,
        find_calibration_at as find_calibration_at,
        find_shipped_calibration as find_shipped_calibration,
        hidden_devices as hidden_devices,
        kernel_errors_apart as kernel_errors_apart,
        with_overheads as with_overheads,
        without_devices as without_devices,
    )
    from perfatlas.measurements.calibrations.releases import (
        base_family as base_family,
        release_calibrations as release_calibrations,
    )
    from perfatlas.measurements.calibrations.schedules import (
        EFFICIENCY_KERNELS as EFFICIENCY_KERNELS,
        EFFICIENCY_LINKS as EFFICIENCY_LINKS,
        EFFICIENCY_PREFILL as EFFICIENCY_PREFILL,
        SYNCHRONISATION as SYNCHRONISATION,
        Schedules as Schedules,
        find_schedule as find_schedule,
        find_schedules as find_schedules,
    )
    from perfatlas.measurements.calibrations.transfer import (
        DIGITS as DIGITS,
        Pair as Pair,
        Pairs as Pairs,
        Silicon as Silicon,
        Transfers as Transfers,
        catalog_silicon as catalog_silicon,
        donor_of as donor_of,
        errors_apart as errors_apart,
        expected_quantiles as expected_quantiles,
        load_transfers as load_transfers,
        silicon_of as silicon_of,
        transfer_path as transfer_path,
    )
    from perfatlas.measurements.calibrations.user_folder import (
        DEVICE_NAME as DEVICE_NAME,
        FIVE as FIVE,
        read_user_file as read_user_file,
        user_calibration_folder as user_calibration_folder,
        user_file_stamp as user_file_stamp,
    )
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
