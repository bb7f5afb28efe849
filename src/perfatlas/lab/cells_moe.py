"""Calibration cells of fused expert networks, from the measured MoE tables.

Shape legend: U measured rows, D shape dimensions.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.kernels.moe import MOE_SHAPE, moe_time_s
from perfatlas.kernels.silicon import BANDWIDTH, PEAK
from perfatlas.lab.cells import FAMILIES, Cell, Range, Rows, is_excluded, silicon_columns
from perfatlas.measurements import has_table, read_table
from perfatlas.numerics import get_format

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfatlas.measurements import SiliconTable
    from perfatlas.operators import FloatArray

# Word of the tables -> format of the product.
TABLE_FORMATS: Final = {
    "bfloat16": "bf16",
    "fp8": "fp8_dynamic",
    "fp8_block": "fp8_block",
    "nvfp4": "nvfp4",
    "int4_wo": "int4_wo",
    "w4a16_mxfp4": "mxfp4",
}
# Kernels that are another algorithm or another network than the gated fused experts of the rest.
OTHER_KERNELS: Final = ("nongated", "min_latency", "situ_as_silu", "modular")
MIN_ROWS: Final = 400

RANGES: Final = {
    "efficiency_compute": Range(start=0.6, low=0.05, high=1.0),
    "efficiency_bandwidth": Range(start=0.8, low=0.2, high=1.0),
    "overhead_launch_s": Range(start=25e-6, low=1e-6, high=200e-6),
    "overhead_tile_cycles": Range(start=2000.0, low=50.0, high=40000.0),
    "feed_bytes_per_flop": Range(start=0.02, low=0.001, high=0.3),
    "overlap_power": Range(start=2.0, low=1.0, high=8.0),
    "dispatch_passes": Range(start=1.0, low=0.01, high=20.0),
    "overhead_expert_s": Range(start=0.1e-6, low=0.001e-6, high=2e-6),
    "foreign_rows": Range(start=0.1, low=0.001, high=1.0),
    "max_tile_rows": Range(start=128.0, low=64.0, high=256.0),
}
PROTOCOL: Final = (
    "CUDA graph; one rank's share of the experts; routing, both products and the combination"
    " inside, the exchange between ranks outside; the busiest rank of a drawn load; clocks not"
    " locked"
)


def moe_cells(device: str) -> tuple[Cell, ...]:
    """Return the MoE cells of a device, one per engine and format with measured rows.

    Args:
        device: Catalog name; devices without tables have no cells.
    """
    cells: list[Cell] = []
    for family in FAMILIES:
        if not has_table(device, "moe", family, "moe_perf"):
            continue
        table = read_table(device, "moe", family, "moe_perf")
        for word, format_name in TABLE_FORMATS.items():
            enough = int(np.sum(_chosen(table, word))) >= MIN_ROWS
            if enough and not is_excluded(device, "moe", family, format_name):
                cells.append(_cell(device, family, word))
    return tuple(cells)


def _cell(device: str, family: str, word: str) -> Cell:
    return Cell(
        device=device,
        operator="moe",
        family=family,
        format=TABLE_FORMATS[word],
        load=partial(_load, device, family, word),
        physics=moe_time_s,
        silicon=silicon_columns(device, TABLE_FORMATS[word]),
        ranges=RANGES,
        grid=({"max_tile_rows": 64.0}, {"max_tile_rows": 128.0}),
        protocol=PROTOCOL,
    )


def _chosen(table: SiliconTable, word: str) -> NDArray[np.bool_]:
    """Return the rows of the main kernel of a format (rows,)."""
    sources = table.columns["kernel_source"].astype(str)
    rows: NDArray[np.bool_] = table.columns["moe_dtype"] == word
    for other in OTHER_KERNELS:
        rows &= np.char.find(sources, other) < 0
    if not rows.any():
        return rows
    names, counts = np.unique(sources[rows], return_counts=True)
    chosen: NDArray[np.bool_] = rows & (sources == names[np.argmax(counts)])
    return chosen


def _load(device: str, family: str, word: str) -> Rows:
    table = read_table(device, "moe", family, "moe_perf")
    of_format = table.columns["moe_dtype"] == word
    keep = _chosen(table, word)
    columns = {name: values[keep] for name, values in table.columns.items()}
    layout = get_format(TABLE_FORMATS[word])
    shape_UD = np.empty((int(keep.sum()), len(MOE_SHAPE)))
    words = ("num_tokens", "hidden_size", "inter_size", "num_experts", "topk")
    for column, name in enumerate((*words, "moe_ep_size", "moe_tp_size")):
        shape_UD[:, column] = columns[name]
    shape_UD[:, 7] = layout.weight_bytes
    shape_UD[:, 8] = layout.activation_bytes
    shape_UD[:, 9] = 3.0
    text = columns["distribution"].astype(str)
    balanced = text == "balanced"
    shape_UD[:, 10] = np.char.replace(
        np.where(balanced, "power_law_0", text), "power_law_", ""
    ).astype(np.float64)
    return Rows(
        shape_UD=shape_UD,
        measured_s=table.measured_s()[keep],
        roofline_s=_roofline_s(device, TABLE_FORMATS[word], shape_UD),
        version=table.version,
        data_hash=table.data_hash,
        excluded={"another kernel than the cell's": int(of_format.sum() - keep.sum())},
    )


def _roofline_s(device: str, format_name: str, shape_UD: FloatArray) -> FloatArray:
    """Return max(FLOP/peak, bytes/bandwidth) of a balanced load (U,) [s]."""
    silicon = silicon_columns(device, format_name)
    tokens, hidden, intermediate, experts, top_k, ep, moe_tp = shape_UD[:, :7].T
    rows = tokens * top_k / ep
    width = intermediate / moe_tp
    active = np.minimum(experts / ep, np.maximum(rows, 1.0))
    flop = 6.0 * rows * hidden * width
    traffic = 3.0 * active * hidden * width * shape_UD[:, 7]
    traffic += rows * hidden * (shape_UD[:, 8] + 2.0)
    least: FloatArray = np.maximum(flop / silicon[PEAK], traffic / silicon[BANDWIDTH])
    return least
