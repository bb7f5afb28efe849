"""Fitting of calibrations to measured tables and to a few user rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.fitting.device import (
        FIT_ROWS as FIT_ROWS,
        SEED as SEED,
        calibrate as calibrate,
        calibrate_cell as calibrate_cell,
        fit_cell as fit_cell,
        residual_quantiles as residual_quantiles,
        transfer_quantiles as transfer_quantiles,
        write_calibrations as write_calibrations,
    )
    from perfatlas.fitting.few_shot import CellChange as CellChange, refit_rows as refit_rows
    from perfatlas.fitting.held_out_residuals import (
        GROUPED_BY as GROUPED_BY,
        SMALL_CELL as SMALL_CELL,
        held_out as held_out,
        row_groups as row_groups,
        taken as taken,
    )
    from perfatlas.fitting.least_squares import (
        error_statistics as error_statistics,
        fit_parameters as fit_parameters,
        share_inside as share_inside,
    )
    from perfatlas.fitting.user_calibration import (
        MeasurementReport as MeasurementReport,
        calibrate_measurements as calibrate_measurements,
    )
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
