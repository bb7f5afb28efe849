"""The interval of an operator on any machine of its kind.

The errors of a calibration say how well a time is known on the machine that was measured
(repeatability). Another machine has other releases, clocks, power and input values
(reproducibility, ISO 5725-1). Both are independent: their half-widths in the logarithm add in
quadrature.

Shape legend: C candidates, O operators, M matches.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from perfatlas.engines import operator_class, operator_spreads
from perfatlas.measurements.calibrations import USER_PROTOCOL
from perfatlas.operators import with_fields

if TYPE_CHECKING:
    from perfatlas.engines import OperatorSpread
    from perfatlas.measurements.calibrations import Calibration
    from perfatlas.pricing import PricedOperators


def laboratory_spread(calibration: Calibration) -> OperatorSpread | None:
    """Return the spread between laboratories of an operator, None on the user's own machine."""
    if calibration.protocol.startswith(USER_PROTOCOL):
        return None
    return operator_spreads()[operator_class(calibration.operator)]


def on_any_machine(prices: PricedOperators) -> PricedOperators:
    """Return prices whose interval holds for other machines of the kind.

    Args:
        prices: Prices with the intervals of their calibrations; those in tier bound stay.

    Limits: The effect is symmetrical and the same for all shapes of a class. The lower limit stays
        at or above the roofline, unless that of the calibration is below it already.
    """
    spreads = [laboratory_spread(match.calibration) for match in prices.matches]
    width_M = np.array(
        [0.0 if spread is None else spread.half_width for spread in spreads] or [0.0]
    )
    known_CO = (prices.match_CO >= 0) & (prices.time_s_CO > 0.0)
    width_CO = np.where(known_CO, width_M[np.maximum(prices.match_CO, 0)], 0.0)
    time_s_CO = np.where(known_CO, prices.time_s_CO, 1.0)
    low_CO, high_CO = (
        np.log(np.where(known_CO, limit_s_CO, 1.0) / time_s_CO)
        for limit_s_CO in (prices.low_s_CO, prices.high_s_CO)
    )
    least_s_CO = np.minimum(prices.bound_s_CO, prices.low_s_CO)
    low_s_CO = np.maximum(time_s_CO * np.exp(-np.hypot(low_CO, width_CO)), least_s_CO)
    return with_fields(
        prices,
        low_s_CO=np.where(known_CO, low_s_CO, prices.low_s_CO),
        high_s_CO=np.where(
            known_CO, time_s_CO * np.exp(np.hypot(high_CO, width_CO)), prices.high_s_CO
        ),
    )
