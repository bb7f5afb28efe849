"""Calibration cells: measured rows, physics model and parameters.

Shape legend: U measured rows, D shape dimensions, S silicon fields, P parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from perfatlas.files import shipped_table
from perfatlas.machines.gpu.devices import SiliconRow, silicon_row
from perfatlas.measurements.tables import measured_device
from perfatlas.operators import FloatArray, Operator

if TYPE_CHECKING:
    from perfatlas.measurements.tables.comm_tables import CommRows
    from perfatlas.measurements.tables.tables import TableRows

# The nine devices with measured tables; the package's system names are the catalog's names.
MEASURED_DEVICES = (
    "a100_sxm",
    "h100_sxm",
    "h200_sxm",
    "b200_sxm",
    "b300_sxm",
    "gb200",
    "gb300",
    "l40s",
    "rtx_pro_6000_server",
)
# Kernel families with measured tables, named after the measured engine. An engine profile selects
# its family with `kernel_family`; an engine without measured tables adds none here.
FAMILIES = ("vllm", "sglang", "trtllm")

BoundArray = NDArray[np.int8]
Physics = Callable[[FloatArray, FloatArray, FloatArray], tuple[FloatArray, BoundArray]]


class Rows(NamedTuple):
    """The measured rows of one cell."""

    shape_UD: FloatArray  # Shapes as the physics function reads them (U, D)
    measured_s: FloatArray  # Measured times (U,) [s]
    # Roofline times of the protocol, max(FLOP/peak, bytes/bandwidth) (U,) [s]
    roofline_s: FloatArray
    version: str  # Version of the measured engine
    data_hash: str  # Hash of the source file
    excluded: Mapping[str, int]  # Reason -> rows excluded from fit and score

    @classmethod
    def of(cls, rows: TableRows | CommRows, shape_UD: FloatArray, roofline_s: FloatArray) -> Rows:
        """Return rows of a table with their shapes and rooflines."""
        return cls(
            shape_UD, rows.measured_s, roofline_s, rows.version, rows.data_hash, rows.excluded
        )


@dataclass(frozen=True, kw_only=True)
class Range:
    """Bounds and start value of a parameter."""

    start: float
    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One calibration: device x operator x kernel family x format."""

    device: str  # Catalog name of the device
    # gemm, moe, prefill_attention, decode_attention, mla_prefill, mla_decode, scan_prefill,
    # scan_decode, conv_prefill, conv_decode, streaming, or a collective op
    operator: str
    family: str  # Engine of the measured kernels
    format: str  # Format, with "+<kv_format>_kv" where the cache differs
    load: Callable[[], Rows]  # Reads the rows; called once, for a fit or validation
    physics: Physics  # (shape_UD, silicon_US, parameters_UP) -> (time_s (U,), bound codes (U,))
    silicon: SiliconRow  # Silicon of the device for this format
    ranges: Mapping[str, Range]  # Parameter name -> range, in the column order of `physics`
    protocol: str  # Measurement protocol
    # Alternatives of discrete parameters, each of which is tried
    grid: tuple[Mapping[str, float], ...] = field(default=({},))

    @property
    def id(self) -> str:
        """Id of the calibration of this cell."""
        return f"{self.device}/{self.operator}/{self.family}/{self.format}"

    def predict(self, shape_UD: FloatArray, parameters: Mapping[str, float]) -> FloatArray:
        """Return predicted times (U,) [s] with the same parameters for all rows."""
        rows = shape_UD.shape[0]
        values = np.array([parameters[name] for name in self.ranges], dtype=np.float64)
        silicon_US, parameters_UP = (np.tile(row, (rows, 1)) for row in (self.silicon, values))
        time_s, _ = self.physics(shape_UD, silicon_US, parameters_UP)
        return time_s


def of_columns(
    formula: Callable[..., tuple[FloatArray, NDArray[np.int8]]],
    shape: type[tuple[FloatArray, ...]],
    parameters: type[tuple[FloatArray, ...]],
) -> Physics:
    """Return a formula of named columns as cells call it, with tables.

    Args:
        formula: (shape, parameters): times (U,) [s] and bound codes (U,).
    """

    def physics(
        shape_UD: FloatArray, _silicon_US: FloatArray, parameters_UP: FloatArray
    ) -> tuple[FloatArray, NDArray[np.int8]]:
        return formula(shape(*shape_UD.T), parameters(*parameters_UP.T))

    return physics


def silicon_columns(device_name: str, format_name: str) -> SiliconRow:
    """Return the silicon of the measured card, at its sustained clock."""
    return silicon_row(measured_device(device_name), format_name)


def roofline_s(call: Operator, silicon: SiliconRow) -> FloatArray:
    """Return max(FLOP/peak, cold bytes/bandwidth) of measured calls (U,) [s]."""
    work = call.work()
    traffic = work.cold_bytes + work.activation_bytes
    least_s: FloatArray = np.maximum(work.flop / silicon.peak, traffic / silicon.bandwidth)
    return least_s


@cache
def exclusions() -> tuple[Mapping[str, str], ...]:
    """Return the excluded cells, each with device, operator, family, format and reason."""
    listed = shipped_table("data/calibrations/exclusions.toml")["exclusion"]
    return tuple(listed)


def is_excluded(device: str, operator: str, family: str, format_name: str) -> bool:
    """Return whether a cell is excluded from calibration."""
    cell = {"device": device, "operator": operator, "family": family, "format": format_name}
    return any(all(rule[key] in ("any", cell[key]) for key in cell) for rule in exclusions())


class CellMaker(NamedTuple):
    """Who makes the cells of which operators: the row `MAKER` of a module of cells."""

    make: Callable[[str], tuple[Cell, ...]]  # From a device to its cells
    operators: tuple[str, ...]  # Those it makes; none for every name that is left
    place: int  # Order among all makers, which is that of cells in files and samples
