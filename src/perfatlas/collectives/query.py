"""A collective to be priced on each level of the network, and its times.

Shape legend: U unique shapes, S distinct systems, L levels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

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
    """A collective to be priced on each level.

    Args:
        op: Collective operation.
        bytes_U: Size of the whole operation (U,) [bytes].
        size_LU: Size on each level (L, U) [bytes].
        group: Placement of the ranks.
        systems: Distinct systems.
        index_U: Position in `systems` (U,).
        family: Engine whose all-reduce is used.
        custom_groups: Group sizes supported by the engine's custom all-reduce; empty for none.
        pcie_groups: The same between GPUs without NVLink.
        format_name: Number format of the elements.
        version: Version of the engine's tables that correct the physics inside a domain, "" for
            the version of the calibrations; None for uncorrected physics.
    """

    op: str
    bytes_U: FloatArray
    size_LU: FloatArray
    group: Group
    links: Links
    systems: Sequence[System]
    index_U: IntArray
    family: str
    custom_groups: tuple[int, ...]
    pcie_groups: tuple[int, ...]
    format_name: str
    version: str | None = None


@dataclass(frozen=True, kw_only=True)
class LevelTimes:
    """Time and latency per level, with the evidence of the innermost level.

    Args:
        time_s_LU: Time on each level alone (L, U) [s].
        latency_s_LU: Time of an empty message (L, U) [s].
        tails_U2: Expected q05 and q95 of ln(measured/predicted) (U, 2).
        least_s_U: Lower limit of the 5% quantile (U,) [s].
        algorithms: Returns the name of the fastest algorithm of each shape (U,); steps do not
            read it.
        measured_U: Whether measured rows corrected the physics (U,).
        match_U: Position in `matches`, -1 for devices without measurements (U,).
        notes: Substitutions and extrapolations.
    """

    time_s_LU: FloatArray
    latency_s_LU: FloatArray
    tails_U2: FloatArray
    least_s_U: FloatArray
    algorithms: Callable[[], NDArray[np.str_]]
    measured_U: NDArray[np.bool_]
    match_U: IntArray
    matches: tuple[CalibrationMatch, ...]
    notes: tuple[str, ...]
