"""Fitting of calibrations to measured tables and to a few user rows."""

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.fitting.device import (
        FIT_ROWS, SEED, calibrate, calibrate_cell, fit_cell, residual_quantiles, transfer_quantiles,
        write_calibrations,
    )
    from perfatlas.fitting.few_shot import CellChange, refit_rows
    from perfatlas.fitting.held_out_residuals import (
        GROUPED_BY, SMALL_CELL, held_out, row_groups, taken,
    )
    from perfatlas.fitting.least_squares import fit_parameters
    from perfatlas.fitting.user_calibration import MeasurementReport, calibrate_measurements
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
