"""The priced record: what operators cost, one execution each.

Shape legend: C candidates, O operators.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.pricing.columns import Column, Composition, Part

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfatlas.measurements.calibrations import CalibrationMatch
    from perfatlas.operators import FloatArray, IntArray

# What runs an operator, `stream_O`: the device, its links, or the host.
COMPUTE: Final = 0
COMMUNICATION: Final = 1
HOST: Final = 2
STREAM_NAMES: Final = ("compute", "communication", "host")
PICOSECONDS: Final = 10**12  # per second: a simulator's clock
_TIME: Final = Column(composition=Composition.EXPOSED, ticks_per_unit=PICOSECONDS)
_WORK: Final = Column(composition=Composition.WHOLE, ticks_per_unit=1)


@dataclass(frozen=True, kw_only=True)
class PricedOperators:
    """What operators cost, one execution each.

    A column is added here, with its declaration, and where its formula fills it; every operation
    of `perfatlas.pricing`, steps and price tables take it from the declaration.

    Args:
        time_s_CO: Predicted time (C, O) [s].
        low_s_CO: 5 % quantile (C, O) [s].
        high_s_CO: 95 % quantile (C, O) [s].
        bound_s_CO: Least possible time (C, O) [s].
        code_CO: Which resource sets the time, a code of `BOUND_NAMES` (C, O).
        match_CO: Position in `matches` of the calibration used, -1 in tier bound (C, O).
        measured_CO: Where measured rows corrected the physics (C, O).
        outside_CO: Octaves outside the shapes the calibration has seen (C, O).
        flop_CO: Least arithmetic (C, O) [FLOP].
        memory_bytes_CO: Least traffic of device memory (C, O) [bytes].
        link_bytes_CO: Least bytes one rank sends, over the links of every level (C, O) [bytes].
        stream_O: What runs it, a code of `STREAM_NAMES` (O,).
        rows_O: Rows priced by physics (O,).
        distinct_O: Distinct shapes among them, each counted where it is met first (O,).
        matches: Calibrations used.
        notes: What was substituted or extrapolated.
    """

    time_s_CO: FloatArray = field(metadata=replace(_TIME, tabulated=True).metadata)
    low_s_CO: FloatArray = field(metadata=_TIME.metadata)
    high_s_CO: FloatArray = field(metadata=_TIME.metadata)
    bound_s_CO: FloatArray = field(metadata=_TIME.metadata)
    code_CO: NDArray[np.int8] = field(metadata=Column(dtype=np.int8).metadata)
    match_CO: IntArray = field(
        metadata=Column(dtype=np.int64, unpriced=-1, positions_in="matches").metadata
    )
    measured_CO: NDArray[np.bool_] = field(metadata=Column(dtype=np.bool_).metadata)
    outside_CO: FloatArray = field(metadata=Column().metadata)
    flop_CO: FloatArray = field(metadata=_WORK.metadata)
    memory_bytes_CO: FloatArray = field(metadata=_WORK.metadata)
    link_bytes_CO: FloatArray = field(metadata=_WORK.metadata)
    stream_O: NDArray[np.int8] = field(
        metadata=Column(dtype=np.int8, unpriced=COMPUTE, per_operator=True).metadata
    )
    rows_O: IntArray = field(metadata=Column(dtype=np.int64, per_operator=True).metadata)
    distinct_O: IntArray = field(metadata=Column(dtype=np.int64, per_operator=True).metadata)
    matches: tuple[CalibrationMatch, ...] = field(default=(), metadata=Part().metadata)
    notes: tuple[str, ...] = field(default=(), metadata=Part(distinct=True).metadata)

    @property
    def rows(self) -> int:
        """Rows priced by physics."""
        return int(self.rows_O.sum())

    @property
    def distinct(self) -> int:
        """Distinct shapes among them."""
        return int(self.distinct_O.sum())
