"""Calibration cells of bandwidth-limited passes, from the measured quantization tables.

Shape legend: U measured rows, D shape dimensions.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.fitting.cells import cell
from perfatlas.machines.gpu.kernels.streaming import StreamingShape, streaming_time_s
from perfatlas.measurements.tables import has_table, read_table

if TYPE_CHECKING:
    from perfatlas.operators import FloatArray

# The pass with a known scale; computing a scale is priced with the product that follows.
TABLE: Final = "scale_matrix_perf"
READ_BYTES: Final = 2.0  # bf16 activation read
WRITTEN_BYTES: Final = 1.0  # fp8 activation written

RANGES: Final = {
    "overhead_launch_s": cell.Range(start=2e-6, low=0.2e-6, high=40e-6),
    "efficiency_bandwidth": cell.Range(start=0.8, low=0.05, high=1.0),
    "cache_speedup": cell.Range(start=1.5, low=1.0, high=20.0),
    "l2_fraction": cell.Range(start=0.1, low=0.02, high=4.0),
    "row_bytes_per_cycle": cell.Range(start=200.0, low=0.5, high=2000.0),
}
PROTOCOL: Final = (
    "CUDA graph; fp8 quantization of a bf16 activation, which the loop finds in cache where it"
    " fits; clocks not locked"
)


def streaming_cells(device: str) -> tuple[cell.Cell, ...]:
    """Return the streaming cells of a device."""
    return tuple(
        cell.Cell(
            device=device,
            operator="streaming",
            family=family,
            format="bf16",
            load=partial(_load, device, family),
            physics=streaming_time_s,
            silicon=cell.silicon_columns(device, "bf16"),
            ranges=RANGES,
            protocol=PROTOCOL,
        )
        for family in cell.FAMILIES
        if has_table(device, "quantize", family, TABLE)
        and not cell.is_excluded(device, "streaming", family, "bf16")
    )


def _load(device: str, family: str) -> cell.Rows:
    table = read_table(device, "quantize", family, TABLE)
    all_s = table.measured_s()
    is_timed = all_s > 0.0
    measured_s = all_s[is_timed]
    m, k = (table.columns[name][is_timed].astype(np.float64) for name in ("m", "k"))
    bytes_U = m * k * (READ_BYTES + WRITTEN_BYTES)
    columns = {"bytes": bytes_U, "cold_bytes": np.zeros_like(m), "tokens": m}
    shape_UD = np.stack([columns[name] for name in StreamingShape._fields], axis=1)
    return cell.Rows(
        shape_UD=shape_UD,
        measured_s=measured_s,
        roofline_s=_roofline_s(device, shape_UD),
        version=table.version,
        data_hash=table.data_hash,
        excluded={"recorded as 0": int(all_s.size - measured_s.size)},
    )


def _roofline_s(device: str, shape_UD: FloatArray) -> FloatArray:
    """Return bytes over bandwidth, everything cold (U,) [s]."""
    moved_bytes: FloatArray = shape_UD[:, StreamingShape._fields.index("bytes")]
    cold_s: FloatArray = moved_bytes / cell.silicon_columns(device, "bf16").bandwidth
    return cold_s


MAKER: Final = cell.CellMaker(streaming_cells, ("streaming",), place=3)
