from .device import (
    FIT_ROWS as FIT_ROWS,
    SEED as SEED,
    calibrate as calibrate,
    fit_cell as fit_cell,
    residual_quantiles as residual_quantiles,
    transfer_quantiles as transfer_quantiles,
    write_calibrations as write_calibrations,
)
from .few_shot import (
    CellChange as CellChange,
    refit_rows as refit_rows,
)
from .held_out_residuals import (
    SMALL_CELL as SMALL_CELL,
)
from .least_squares import (
    error_statistics as error_statistics,
    fit_parameters as fit_parameters,
    simplex_search as simplex_search,
)
from .split import (
    GROUPED_BY as GROUPED_BY,
    held_out as held_out,
    row_groups as row_groups,
    taken as taken,
)
from .user_calibration import (
    MeasurementReport as MeasurementReport,
    calibrate_measurements as calibrate_measurements,
)
