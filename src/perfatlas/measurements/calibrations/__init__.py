"""Fitted parameters, their transfer to other devices, and user calibrations."""

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.measurements.calibrations.calibration import (
        KERNELS, SUBSTITUTE_FAMILIES, USER_PROTOCOL, Calibration, calibration_folder, has_shipped,
        kernel_families, load_calibrations, read_calibrations, shipped_cell, user_calibrations,
    )
    from perfatlas.measurements.calibrations.libraries import (
        EXTRAPOLATED, LIBRARY, RANGED, lent_width, library_match, outside_rows,
    )
    from perfatlas.measurements.calibrations.matching import (
        ANY_KERNEL, ENGINE_TRANSFERS, CalibrationMatch, as_substitute, engine_transfers,
        find_calibration, find_calibration_at, find_shipped_calibration, hidden_devices,
        kernel_errors_apart, relatives_of, with_overheads, without_devices,
    )
    from perfatlas.measurements.calibrations.releases import base_family, release_calibrations
    from perfatlas.measurements.calibrations.schedules import (
        EFFICIENCY_KERNELS, EFFICIENCY_LINKS, EFFICIENCY_PREFILL, OVERHEAD_EXPERTS,
        SYNCHRONISATION, Schedules, find_schedule, find_schedules,
    )
    from perfatlas.measurements.calibrations.transfer import (
        DIGITS, Pair, Pairs, Silicon, Transfers, catalog_silicon, donor_of, errors_apart,
        expected_quantiles, load_transfers, silicon_of, transfer_path,
    )
    from perfatlas.measurements.calibrations.user_folder import (
        DEVICE_NAME, FIVE, read_user_file, user_calibration_folder, user_file_stamp,
    )
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
