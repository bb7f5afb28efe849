"""Machines whose calibration is one cell, fitted to whole steps: errors and fixed waits.

Shape legend: C candidates, O operators.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from perfatlas.operators import with_fields

if TYPE_CHECKING:
    from perfatlas.measurements.calibrations import Schedules
    from perfatlas.operators import IntArray, Operator
    from perfatlas.pricing import PricedOperators


def with_step_errors(
    prices: PricedOperators, fitted: Schedules, index_C: IntArray
) -> PricedOperators:
    """Return prices with the errors of the calibration of each device (C, O).

    Without a calibration, a time with assumed losses is no limit: its interval begins at the
    roofline, and its upper end is unknown.

    Args:
        index_C: Device of each candidate (C,).
    """
    low_C1, high_C1 = np.exp(fitted.tails_D2)[index_C].T[..., None]
    low_C1 = np.where(fitted.match_D[index_C][:, None] < 0, 0.0, low_C1)
    least_CO = np.maximum(prices.time_s_CO * low_C1, prices.bound_s_CO)
    return with_fields(
        prices,
        low_s_CO=np.minimum(least_CO, prices.time_s_CO),
        high_s_CO=prices.time_s_CO * high_C1,
        match_CO=np.repeat(fitted.match_D[index_C][:, None], prices.time_s_CO.shape[1], axis=1),
        matches=fitted.matches,
        notes=(
            *prices.notes,
            *(note for calibration_match in fitted.matches for note in calibration_match.notes),
        ),
    )


def synchronisations(operator: Operator) -> float:
    """Return the synchronisation points of an operator: two of a dense layer.

    Args:
        operator: Columns over candidates.

    Products whose sums are needed whole before the next operator have one: the output of attention
    and that of the feed-forward. Routed experts have two, since their inputs are gathered by a
    choice that no compiler knows.

    Source: assumption; published decode steps of mixtures of experts take 1.5 times as long per
        layer as those of dense models.
    """
    if operator.routed:
        return 2.0
    return 1.0 if operator.multiplies and operator.shard == "row" else 0.0
