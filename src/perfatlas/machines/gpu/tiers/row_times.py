"""Write the times of distinct shapes to the operators that have them, in one pass.

Shape legend: C candidates, O operators, R rows (one operator of one candidate), U distinct shapes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from perfatlas.compiled import compiled
from perfatlas.machines.gpu.tiers.gathering import RowPrices
from perfatlas.operators import BOUND_COMPUTE, BOUND_LATENCY, BOUND_MEMORY, BOUND_PADDING

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfatlas.operators import FloatArray, IntArray
    from perfatlas.pricing import PricedOperators


def write_times(
    prices: PricedOperators,
    at: tuple[IntArray, IntArray],
    place_R: IntArray,
    found: RowPrices,
) -> None:
    """Overwrite the rooflines of some operators with their prices, none below its roofline.

    A product whose roofline is memory-bound, but which is limited by issuing its tiles, does not
    fill the device: it is latency-bound. Experts whose tiles fill it compute padded rows.

    Args:
        prices: Prices in which each time is the roofline; not shared yet.
        at: Candidate and operator of each row (R,).
        place_R: Shape of each row (R,).
        found: Prices of the shapes (U,).
    """
    columns = _Columns(*(getattr(prices, name) for name in _Columns._fields))
    shapes = RowPrices(*map(np.ascontiguousarray, found))
    place_R, candidate_R, operator_R = map(np.ascontiguousarray, (place_R, *at))
    _write(place_R, candidate_R, operator_R, shapes, columns)


class _Columns(NamedTuple):
    """Columns of `PricedOperators` that are read and written, each (C, O)."""

    bound_s_CO: FloatArray
    time_s_CO: FloatArray
    low_s_CO: FloatArray
    high_s_CO: FloatArray
    code_CO: NDArray[np.int8]


@compiled
def _write(
    place_R: IntArray,
    candidate_R: IntArray,
    operator_R: IntArray,
    found: RowPrices,
    columns: _Columns,
) -> None:
    """Write time, interval and limiting resource of each row.

    An interval below the bound contradicts it: the gap shows the error of the measurements, not a
    narrow interval.

    Args:
        place_R: Shape of each row (R,).
        candidate_R: Its candidate (R,).
        operator_R: Its operator (R,).
        columns: Rooflines, overwritten where a row is.
    """
    for row in range(place_R.shape[0]):
        candidate, operator, shape = candidate_R[row], operator_R[row], place_R[row]
        bound_s, time_s = columns.bound_s_CO[candidate, operator], found.time_s_U[shape]
        time_s = max(time_s, bound_s)
        low_s, high_s = time_s * found.low_U[shape], time_s * found.high_U[shape]
        if high_s < bound_s:
            high_s = time_s / found.low_U[shape]
        low_s = max(low_s, bound_s)
        columns.time_s_CO[candidate, operator] = time_s
        columns.low_s_CO[candidate, operator] = min(low_s, time_s)
        columns.high_s_CO[candidate, operator] = max(high_s, time_s)
        code = found.code_U[shape]
        memory = columns.code_CO[candidate, operator] == BOUND_MEMORY
        if code == BOUND_COMPUTE and memory:
            code = BOUND_LATENCY
        elif code == BOUND_PADDING and not memory:
            code = BOUND_COMPUTE
        columns.code_CO[candidate, operator] = code
