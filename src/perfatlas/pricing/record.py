"""The priced record: the cost of one execution of each operator.

Shape legend: C candidates, O operators.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.pricing.columns import Column, Composition, Part, Quantity

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfatlas.measurements.calibrations import CalibrationMatch
    from perfatlas.operators import FloatArray, IntArray

# Where an operator runs, `stream_O`: the device, its links, or the host.
COMPUTE: Final = 0
COMMUNICATION: Final = 1
HOST: Final = 2
STREAM_NAMES: Final = ("compute", "communication", "host")
ROUNDING: Final = 1e-9  # of times that are equal
TIERS: Final = {"physics": 1, "measured": 2, "bound": 4}  # codes of several add up
PICOSECONDS: Final = 10**12  # per second: the resolution of the simulators' clock
_WORK: Final = Column(composition=Composition.WHOLE, ticks_per_unit=1)
_TIME: Final = Column(
    composition=Composition.EXPOSED, quantity=Quantity.TIME, ticks_per_unit=PICOSECONDS
)
_ENERGY: Final = Column(
    composition=Composition.WHOLE,
    quantity=Quantity.ENERGY,
    ticks_per_unit=10**9,  # nanojoules
    tabulated=True,
)
_COUNT: Final = Column(composition=Composition.COUNT, dtype=np.int64, per_operator=True)


@dataclass(frozen=True, kw_only=True)
class PricedOperators:
    """Cost of one execution of each operator.

    A new column needs a declaration here and the formula that fills it; all operations of
    `perfatlas.pricing`, steps and price tables follow from the declaration.
    """

    # Predicted time (C, O) [s]
    time_s_CO: FloatArray = field(metadata=replace(_TIME, tabulated=True).metadata)
    # 5% quantile (C, O) [s]
    low_s_CO: FloatArray = field(metadata=replace(_TIME, quantity=Quantity.LOW_TIME).metadata)
    # 95% quantile (C, O) [s]
    high_s_CO: FloatArray = field(metadata=replace(_TIME, quantity=Quantity.HIGH_TIME).metadata)
    # Roofline time (C, O) [s]
    bound_s_CO: FloatArray = field(metadata=replace(_TIME, quantity=Quantity.WORK).metadata)
    # The limiting resource, a code of `BOUND_NAMES` (C, O)
    code_CO: NDArray[np.int8] = field(metadata=Column(dtype=np.int8, follows_clock=True).metadata)
    # Position in `matches` of the calibration used, -1 in tier bound (C, O)
    match_CO: IntArray = field(
        metadata=Column(dtype=np.int64, unpriced=-1, positions_in="matches").metadata
    )
    # Whether measured rows corrected the physics (C, O)
    measured_CO: NDArray[np.bool_] = field(metadata=Column(dtype=np.bool_).metadata)
    # Distance from the calibrated shapes [octaves] (C, O)
    outside_CO: FloatArray = field(metadata=Column().metadata)
    flop_CO: FloatArray = field(metadata=_WORK.metadata)  # Minimum arithmetic (C, O) [FLOP]
    # Minimum device memory traffic (C, O) [bytes]
    memory_bytes_CO: FloatArray = field(metadata=_WORK.metadata)
    # Minimum traffic between last-level cache and SMs (C, O) [bytes]
    chip_bytes_CO: FloatArray = field(metadata=_WORK.metadata)
    # Minimum bytes one rank sends, over the links of all levels (C, O) [bytes]
    link_bytes_CO: FloatArray = field(metadata=_WORK.metadata)
    # Dynamic energy that scales with the squared voltage (C, O) [J]
    chip_energy_j_CO: FloatArray = field(metadata=replace(_ENERGY, follows_clock=True).metadata)
    # Dynamic energy of memory and links (C, O) [J]
    memory_energy_j_CO: FloatArray = field(metadata=_ENERGY.metadata)
    # Where it runs, a code of `STREAM_NAMES` (O,)
    stream_O: NDArray[np.int8] = field(
        metadata=Column(dtype=np.int8, unpriced=COMPUTE, per_operator=True).metadata
    )
    rows_O: IntArray = field(metadata=_COUNT.metadata)  # Rows priced by physics (O,)
    # Distinct shapes among them, each counted at its first operator (O,)
    distinct_O: IntArray = field(metadata=_COUNT.metadata)
    # Calibrations used
    matches: tuple[CalibrationMatch, ...] = field(default=(), metadata=Part().metadata)
    # Substitutions and extrapolations
    notes: tuple[str, ...] = field(default=(), metadata=Part(distinct=True).metadata)

    @property
    def rows(self) -> int:
        """Rows priced by physics."""
        return int(self.rows_O.sum())

    @property
    def distinct(self) -> int:
        """Distinct shapes among them."""
        return int(self.distinct_O.sum())

    def exceeds_bound(self) -> NDArray[np.bool_]:
        """Return which times without a calibration have the assumed losses of a machine (C, O)."""
        above_CO: NDArray[np.bool_] = self.time_s_CO > (1.0 + ROUNDING) * self.bound_s_CO
        return (self.match_CO < 0) & above_CO
