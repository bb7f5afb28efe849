"""A collective to be priced on each level of the network, and its times.

Shape legend: U unique shapes, S distinct systems, L levels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from perfatlas.collectives.parameters import cell_format

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from perfatlas.collectives.placement import Group, Links
    from perfatlas.hardware import System
    from perfatlas.measurements.calibrations import CalibrationMatch
    from perfatlas.operators import FloatArray, IntArray


@dataclass(frozen=True, kw_only=True)
class CollectiveQuery:
    """A collective to be priced on each level."""

    op: str  # Collective operation
    bytes_U: FloatArray  # Size of the whole operation (U,) [bytes]
    size_LU: FloatArray  # Size on each level (L, U) [bytes]
    group: Group  # Placement of the ranks
    links: Links
    systems: Sequence[System]  # Distinct systems
    index_U: IntArray  # Position in `systems` (U,)
    family: str  # Engine whose all-reduce is used
    # Group sizes supported by the engine's custom all-reduce; empty for none
    custom_groups: tuple[int, ...]
    pcie_groups: tuple[int, ...]  # The same between GPUs without NVLink
    format_name: str  # Number format of the elements
    # Version of the engine's tables that correct the physics inside a domain, "" for the version of
    # the calibrations; None for uncorrected physics
    version: str | None = None
    slowdown_U: FloatArray | None = None  # By flows on links; None for closed forms (U,)

    def adds_inside(self) -> FloatArray:
        """Return 1 where the switch of the domain reduces this format, else 0 (U,)."""
        adds = cell_format(self.op, self.format_name) == "bf16"
        return self.links.in_network_U * float(adds)


@dataclass(frozen=True, kw_only=True)
class LevelTimes:
    """Time and latency per level, with the evidence of the innermost level."""

    time_s_LU: FloatArray  # Time on each level alone (L, U) [s]
    latency_s_LU: FloatArray  # Time of an empty message (L, U) [s]
    tails_U2: FloatArray  # Expected q05 and q95 of ln(measured/predicted) (U, 2)
    least_s_U: FloatArray  # Lower limit of the 5% quantile (U,) [s]
    # Returns the name of the fastest algorithm of each shape (U,); steps do not read it
    algorithms: Callable[[], NDArray[np.str_]]
    measured_U: NDArray[np.bool_]  # Whether measured rows corrected the physics (U,)
    match_U: IntArray  # Position in `matches`, -1 for devices without measurements (U,)
    matches: tuple[CalibrationMatch, ...]
    notes: tuple[str, ...]  # Substitutions and extrapolations
