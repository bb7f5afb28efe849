"""Calibration cells of fused expert networks, from the measured MoE tables.

Shape legend: U measured rows, D shape dimensions.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.fitting.cells import cell
from perfatlas.machines.gpu.kernels.moe import FIXED_TILES, TRITON_DEFAULTS, MoeShape, moe_time_s
from perfatlas.measurements import tables
from perfatlas.operators import ACTIVATION_BYTES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perfatlas.operators import FloatArray

MIN_ROWS: Final = 400
# Tables of Triton kernels (kernel_source vllm_fused_moe) that a later release replaced: kernel
# family with the last such release -> device -> version of the table and formats. And Triton
# kernels that run only without expert parallelism, with which the release runs FlashInfer's.
EARLIER: Final[Mapping[str, Mapping[str, tuple[str, tuple[str, ...]]]]] = {
    "vllm@0.22": {
        "h200_sxm": ("0.19.0", ("fp8_block", "fp8_dynamic")),
        "b200_sxm": ("0.22.0", ("bf16", "fp8_block", "fp8_dynamic")),
    },
    "vllm@tp": dict.fromkeys(("h100_sxm", "h200_sxm"), ("0.24.0", ("fp8_block",))),
}

EXPERT_RANGES: Final = {
    "efficiency_compute": cell.Range(start=0.6, low=0.05, high=1.0),
    "efficiency_bandwidth": cell.Range(start=0.8, low=0.2, high=1.0),
    "overhead_launch_s": cell.Range(start=25e-6, low=1e-6, high=200e-6),
    "overhead_tile_cycles": cell.Range(start=2000.0, low=50.0, high=40000.0),
    "overlap_power": cell.Range(start=2.0, low=1.0, high=8.0),
    "dispatch_passes": cell.Range(start=1.0, low=0.01, high=20.0),
    "overhead_expert_s": cell.Range(start=0.1e-6, low=0.001e-6, high=2e-6),
    "foreign_rows": cell.Range(start=0.1, low=0.001, high=4.0),
    "l2_fraction": cell.Range(start=0.6, low=0.1, high=2.0),
    "tile_policy": cell.Range(start=128.0, low=TRITON_DEFAULTS, high=256.0),
}
EXPERT_POLICIES: Final = (64.0, 128.0, TRITON_DEFAULTS, FIXED_TILES)
GRID: Final = tuple({"tile_policy": policy} for policy in EXPERT_POLICIES)
PROTOCOL: Final = (
    "CUDA graph; the same weights every run; one rank's share of the experts; routing, both"
    " products and the combination inside, the exchange between ranks outside; the busiest rank"
    " of a drawn load; clocks not locked"
)


def moe_cells(device: str) -> tuple[cell.Cell, ...]:
    """Return the MoE cells of a device, one per engine and format with measured rows."""
    cells: list[cell.Cell] = []
    for family in cell.FAMILIES:
        if not tables.has_table(device, "moe", family, "moe_perf"):
            continue
        table = tables.read_table(device, "moe", family, "moe_perf")
        for format_name in tables.MOE_FORMATS.values():
            enough = int(np.sum(tables.main_moe_rows(table, format_name))) >= MIN_ROWS
            if enough and not cell.is_excluded(device, "moe", family, format_name):
                cells.append(_cell(device, family, format_name))
    return tuple(cells)


def earlier_moe_cells(device: str, family: str) -> tuple[cell.Cell, ...]:
    """Return the cells of expert kernels that a later release of an engine replaced.

    Args:
        family: Kernel family with a release, a key of `EARLIER`.
    """
    version, formats = EARLIER.get(family, {}).get(device, ("", ()))
    return tuple(_cell(device, family, format_name, version) for format_name in formats)


def _cell(device: str, family: str, format_name: str, version: str | None = None) -> cell.Cell:
    return cell.Cell(
        device=device,
        operator="moe",
        family=family,
        format=format_name,
        load=partial(_load, device, family, format_name, version),
        physics=moe_time_s,
        silicon=cell.silicon_columns(device, format_name),
        ranges=EXPERT_RANGES,
        grid=GRID,
        protocol=PROTOCOL,
    )


def _load(device: str, family: str, format_name: str, version: str | None) -> cell.Rows:
    rows = tables.table_rows(device, "moe", family, format_name, version)
    shape_UD = rows.shape_table(MoeShape._fields)
    return cell.Rows.of(rows, shape_UD, _roofline_s(device, format_name, shape_UD))


def _roofline_s(device: str, format_name: str, shape_UD: FloatArray) -> FloatArray:
    """Return max(FLOP/peak, bytes/bandwidth) of a balanced load (U,) [s]."""
    silicon = cell.silicon_columns(device, format_name)
    s = MoeShape(*shape_UD.T)
    rows = s.tokens * s.top_k / s.ep
    width = s.intermediate / s.moe_tp
    active = np.minimum(s.experts / s.ep, np.maximum(rows, 1.0))
    flop = 2.0 * s.matrices * rows * s.hidden * width
    traffic = s.matrices * active * s.hidden * width * s.weight_bytes_per_element
    traffic += rows * s.hidden * (s.input_bytes_per_element + ACTIVATION_BYTES)
    least: FloatArray = np.maximum(flop / silicon.peak, traffic / silicon.bandwidth)
    return least


MAKER: Final = cell.CellMaker(moe_cells, ("moe",), place=2)
