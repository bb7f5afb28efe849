"""Fitting of calibrations to measured tables and to a few user rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.lab.fitting.device import (
        FIT_ROWS as FIT_ROWS,
        SEED as SEED,
        calibrate as calibrate,
        fit_cell as fit_cell,
        residual_quantiles as residual_quantiles,
        transfer_quantiles as transfer_quantiles,
        write_calibrations as write_calibrations,
    )
    from perfatlas.lab.fitting.few_shot import CellChange as CellChange, refit_rows as refit_rows
    from perfatlas.lab.fitting.held_out_residuals import SMALL_CELL as SMALL_CELL
    from perfatlas.lab.fitting.least_squares import (
        error_statistics as error_statistics,
        fit_parameters as fit_parameters,
        simplex_search as simplex_search,
    )
    from perfatlas.lab.fitting.split import (
        GROUPED_BY as GROUPED_BY,
        held_out as held_out,
        row_groups as row_groups,
        taken as taken,
    )
    from perfatlas.lab.fitting.user_calibration import (
        MeasurementReport as MeasurementReport,
        calibrate_measurements as calibrate_measurements,
    )
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
