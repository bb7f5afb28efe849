"""Calibration cells of bandwidth-limited passes, from the measured quantization tables.

Shape legend: U measured rows, D shape dimensions.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.kernels.silicon import BANDWIDTH
from perfatlas.kernels.streaming import STREAMING_SHAPE, streaming_time_s
from perfatlas.lab.cells import FAMILIES, Cell, Range, Rows, is_excluded, silicon_columns
from perfatlas.measurements import has_table, read_table

if TYPE_CHECKING:
    from perfatlas.operators import FloatArray

# "bf16" is the elementwise pass with a known scale; "quantize" finds the scale first. The tables
# hold the two parts apart, with one row per shape in the same order.
PARTS: Final = {
    "bf16": ("scale_matrix_perf",),
    "quantize": ("scale_matrix_perf", "computescale_perf"),
}
READ_BYTES: Final = 2.0  # a bf16 activation in
WRITTEN_BYTES: Final = 1.0  # an fp8 activation out

RANGES: Final = {
    "overhead_launch_s": Range(start=2e-6, low=0.2e-6, high=40e-6),
    "efficiency_bandwidth": Range(start=0.8, low=0.05, high=1.0),
    "cache_speedup": Range(start=1.5, low=1.0, high=20.0),
    "l2_fraction": Range(start=0.1, low=0.02, high=4.0),
    "row_bytes_per_cycle": Range(start=200.0, low=0.5, high=2000.0),
}
PROTOCOL: Final = (
    "CUDA graph; fp8 quantization of a bf16 activation, which the loop finds in cache where it"
    " fits; clocks not locked"
)


def streaming_cells(device: str) -> tuple[Cell, ...]:
    """Return the streaming cells of a device.

    Args:
        device: Catalog name; devices without tables have no cells.
    """
    return tuple(
        Cell(
            device=device,
            operator="streaming",
            family=family,
            format=format_name,
            load=partial(_load, device, family, parts),
            physics=streaming_time_s,
            silicon=silicon_columns(device, "bf16"),
            ranges=RANGES,
            protocol=PROTOCOL,
        )
        for family in FAMILIES
        for format_name, parts in PARTS.items()
        if has_table(device, "quantize", family, PARTS["bf16"][0])
        and not is_excluded(device, "streaming", family, format_name)
    )


def _load(device: str, family: str, parts: tuple[str, ...]) -> Rows:
    tables = [read_table(device, "quantize", family, name) for name in parts]
    times = [_by_shape(table.columns, table.measured_s()) for table in tables]
    shapes = [shape for shape in times[0] if all(one.get(shape, 0.0) > 0.0 for one in times)]
    measured_s = np.array([sum(one[shape] for one in times) for shape in shapes])
    m, k = np.array(shapes, dtype=np.float64).T
    shape_UD = np.zeros((m.size, len(STREAMING_SHAPE)))
    # A first reading that finds the scale is the kernel's choice, not work of the operator.
    shape_UD[:, 0] = m * k * (READ_BYTES + WRITTEN_BYTES)
    shape_UD[:, 2] = m
    return Rows(
        shape_UD=shape_UD,
        measured_s=measured_s,
        roofline_s=_roofline_s(device, shape_UD),
        version=tables[0].version,
        data_hash=tables[0].data_hash,
        excluded={"a part was recorded as 0": len(times[0]) - len(shapes)},
    )


def _by_shape(
    columns: dict[str, FloatArray], measured_s: FloatArray
) -> dict[tuple[int, int], float]:
    keys = zip(columns["m"].tolist(), columns["k"].tolist(), strict=True)
    return dict(zip(keys, measured_s.tolist(), strict=True))


def _roofline_s(device: str, shape_UD: FloatArray) -> FloatArray:
    """Return bytes over bandwidth, everything cold (U,) [s]."""
    cold_s: FloatArray = shape_UD[:, 0] / silicon_columns(device, "bf16")[BANDWIDTH]
    return cold_s
