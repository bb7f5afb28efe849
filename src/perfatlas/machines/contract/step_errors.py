"""Errors of machines whose calibration is one cell, fitted to whole steps.

Shape legend: C candidates, O operators.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from perfatlas.operators import with_fields

if TYPE_CHECKING:
    from perfatlas.measurements.calibrations import Schedules
    from perfatlas.operators import IntArray
    from perfatlas.pricing import PricedOperators


def with_step_errors(
    prices: PricedOperators, fitted: Schedules, index_C: IntArray
) -> PricedOperators:
    """Return prices with the errors of the calibration of each device (C, O).

    Args:
        index_C: Device of each candidate (C,).
    """
    low_C1, high_C1 = np.exp(fitted.tails_D2)[index_C].T[..., None]
    least_CO = np.maximum(prices.time_s_CO * low_C1, prices.bound_s_CO)
    return with_fields(
        prices,
        low_s_CO=np.minimum(least_CO, prices.time_s_CO),
        high_s_CO=prices.time_s_CO * high_C1,
        match_CO=np.repeat(fitted.match_D[index_C][:, None], prices.time_s_CO.shape[1], axis=1),
        matches=fitted.matches,
        notes=(*prices.notes, *(note for one in fitted.matches for note in one.notes)),
    )
