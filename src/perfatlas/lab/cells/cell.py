"""What one calibration cell is: measured rows, the physics that explains them, its parameters.

Shape legend: U measured rows, D shape dimensions, S silicon fields, P parameters.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from perfatlas.kernels.devices import silicon_row
from perfatlas.measurements.tables import measured_device
from perfatlas.operators import FloatArray

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
# Kernel families with measured tables, named after the engine whose kernels ran. An engine profile
# names the one it runs as `kernel_family`; a new engine without tables of its own adds none here.
FAMILIES = ("vllm", "sglang", "trtllm")

BoundArray = NDArray[np.int8]
Physics = Callable[[FloatArray, FloatArray, FloatArray], tuple[FloatArray, NDArray[np.int8]]]


class Rows(NamedTuple):
    """The measured rows of one cell.

    Args:
        shape_UD: Shapes as the physics function reads them (U, D).
        measured_s: Measured times (U,) [s].
        roofline_s: Least times of the protocol, max(FLOP/peak, bytes/bandwidth) (U,) [s].
        version: Version of the engine whose kernels ran.
        data_hash: Hash of the file the rows come from.
        excluded: Reason -> rows left out of fit and score.
    """

    shape_UD: FloatArray
    measured_s: FloatArray
    roofline_s: FloatArray
    version: str
    data_hash: str
    excluded: Mapping[str, int]


@dataclass(frozen=True, kw_only=True)
class Range:
    """Where one parameter may lie and where its search starts."""

    start: float
    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One calibration: device x operator x kernel family x format.

    Args:
        device: Catalog name of the device.
        operator: gemm, moe, prefill_attention, decode_attention, mla_prefill, mla_decode,
            scan_prefill, scan_decode, conv_prefill, conv_decode, streaming, or a collective op.
        family: Engine whose kernels were measured.
        format: Format, with "+<kv_format>_kv" where the cache differs.
        load: Reads the rows; called once, when the cell is fitted or validated.
        physics: (shape_UD, silicon_US, parameters_UP) -> (time_s (U,), bound codes (U,)).
        silicon: Silicon columns of the device for this format (S,).
        ranges: Parameter name -> range, in the column order of `physics`.
        grid: Alternatives of parameters that are chosen, not fitted; each is tried.
        protocol: How the rows were measured.
    """

    device: str
    operator: str
    family: str
    format: str
    load: Callable[[], Rows]
    physics: Physics
    silicon: FloatArray
    ranges: Mapping[str, Range]
    protocol: str
    grid: tuple[Mapping[str, float], ...] = field(default=({},))

    @property
    def id(self) -> str:
        """Identity of the calibration this cell becomes."""
        return f"{self.device}/{self.operator}/{self.family}/{self.format}"

    def predict(self, shape_UD: FloatArray, parameters: Mapping[str, float]) -> FloatArray:
        """Return predicted times (U,) [s] with one parameter set for all rows."""
        rows = shape_UD.shape[0]
        values = np.array([parameters[name] for name in self.ranges], dtype=np.float64)
        silicon_US = np.ascontiguousarray(np.broadcast_to(self.silicon, (rows, self.silicon.size)))
        parameters_UP = np.ascontiguousarray(np.broadcast_to(values, (rows, values.size)))
        time_s, _ = self.physics(shape_UD, silicon_US, parameters_UP)
        return time_s


def silicon_columns(device_name: str, format_name: str) -> FloatArray:
    """Return the silicon columns (S,) of the card behind measured tables, at its sustained clock.

    Args:
        device_name: Catalog name.
        format_name: Number format of the product.
    """
    return silicon_row(measured_device(device_name), format_name)


@cache
def exclusions() -> tuple[Mapping[str, str], ...]:
    """Return the cells that are not fitted, each with device, operator, family, format, reason."""
    text = resources.files("perfatlas").joinpath("data/calibrations/exclusions.toml")
    listed = tomllib.loads(text.read_text("utf-8"))["exclusion"]
    return tuple(listed)


def is_excluded(device: str, operator: str, family: str, format_name: str) -> bool:
    """Return whether a cell is listed as not fit for calibration."""
    cell = {"device": device, "operator": operator, "family": family, "format": format_name}
    return any(all(rule[key] in ("any", cell[key]) for key in cell) for rule in exclusions())


class CellMaker(NamedTuple):
    """Who makes the cells of which operators: the row `MAKER` of a module of cells.

    Args:
        make: From a device to its cells.
        operators: Those it makes; none for every name that is left.
        place: Order among all makers, which is that of cells in files and samples.
    """

    make: Callable[[str], tuple[Cell, ...]]
    operators: tuple[str, ...]
    place: int
