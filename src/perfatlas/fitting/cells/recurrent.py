"""Calibration cells of recurrent mixers, from the measured gated delta net tables.

Shape legend: U measured rows, D shape dimensions.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.fitting.cells import cell
from perfatlas.machines.gpu.shapes import physics_model
from perfatlas.measurements import tables
from perfatlas.operators import Convolution, Operator, Phase, Scan

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perfatlas.operators import FloatArray

OPERATORS: Final = tuple(tables.KERNEL_NAMES)

SCAN_PREFILL_RANGES: Final = {
    "overhead_launch_s": cell.Range(start=10e-6, low=1e-6, high=60e-6),
    "overhead_unit_cycles": cell.Range(start=4000.0, low=10.0, high=60000.0),
    "chunk_cycles": cell.Range(start=4000.0, low=50.0, high=60000.0),
    "row_cycles": cell.Range(start=50.0, low=0.1, high=2000.0),
    "parallel_cycles": cell.Range(start=1000.0, low=1.0, high=60000.0),
    "efficiency_bandwidth": cell.Range(start=0.8, low=0.1, high=1.0),
    "inner_passes": cell.Range(start=2.0, low=0.02, high=20.0),
    "overlap_power": cell.Range(start=2.0, low=1.0, high=8.0),
    "l2_fraction": cell.Range(start=0.3, low=0.01, high=3.0),
    "heads_per_sm": cell.Range(start=1.0, low=0.25, high=1.0),
}
# A head per SM, or its value columns on four SMs where shared memory is too small for its state.
SCAN_GRID: Final = tuple({"heads_per_sm": heads} for heads in (0.25, 1.0))

# Few rows of these tables exceed the cache: the bounds keep the unmeasured range plausible. Bytes
# read and written count twice in the share of the cache.
UPDATE_RANGES: Final = {
    "overhead_launch_s": cell.Range(start=3e-6, low=0.2e-6, high=60e-6),
    "efficiency_bandwidth": cell.Range(start=0.8, low=0.3, high=1.0),
    "cache_bytes_per_cycle": cell.Range(start=25.0, low=5.0, high=100.0),
    "l2_fraction": cell.Range(start=0.5, low=0.05, high=2.5),
    "overhead_unit_cycles": cell.Range(start=300.0, low=1.0, high=30000.0),
    "overlap_power": cell.Range(start=3.0, low=1.0, high=8.0),
}
CONV_PREFILL_RANGES: Final = {
    **UPDATE_RANGES,
    "row_cycles": cell.Range(start=400.0, low=0.1, high=4000.0),
    "tile_tokens": cell.Range(start=8.0, low=8.0, high=2048.0),
    "tile_channels": cell.Range(start=256.0, low=1.0, high=256.0),
}
# Two tilings of a convolution: small tiles of tokens and channels, or one channel of a sequence at
# a time.
CONV_GRID: Final = (
    {"tile_tokens": 8.0, "tile_channels": 256.0},
    {"tile_tokens": 1024.0, "tile_channels": 1.0},
    {"tile_tokens": 2048.0, "tile_channels": 1.0},
)
# Short kernels are mostly launch, so the search starts from traffic and launch only.
CONV_DECODE_RANGES: Final = {
    **UPDATE_RANGES,
    "overhead_unit_cycles": cell.Range(start=5.0, low=1.0, high=30000.0),
    "overlap_power": cell.Range(start=1.5, low=1.0, high=8.0),
}
RANGES: Final[Mapping[str, Mapping[str, cell.Range]]] = {
    "scan_prefill": SCAN_PREFILL_RANGES,
    "scan_decode": UPDATE_RANGES,
    "conv_prefill": CONV_PREFILL_RANGES,
    "conv_decode": CONV_DECODE_RANGES,
}
GRIDS: Final[Mapping[str, tuple[Mapping[str, float], ...]]] = {
    "scan_prefill": SCAN_GRID,
    "scan_decode": ({},),
    "conv_prefill": CONV_GRID,
    "conv_decode": ({},),
}
PROTOCOL: Final = (
    "{kernel} of the gated delta net, timed alone on the same tensors again and again, which the"
    " loop finds in cache where they fit; graph; clocks not locked"
)


def recurrent_cells(device: str) -> tuple[cell.Cell, ...]:
    """Return the cells of a device: scan and convolution of both phases, one per engine."""
    cells: list[cell.Cell] = []
    for operator in OPERATORS:
        folder, name = tables.TABLES[operator]
        for family in cell.FAMILIES:
            if not tables.has_table(device, folder, family, name):
                continue
            kernel = tables.recurrent_kernel(
                tables.read_table(device, folder, family, name), operator
            )
            if kernel and not cell.is_excluded(device, operator, family, "bf16"):
                cells.append(_cell(device, operator, family, kernel))
    return tuple(cells)


def _cell(device: str, operator: str, family: str, kernel: str) -> cell.Cell:
    return cell.Cell(
        device=device,
        operator=operator,
        family=family,
        format="bf16",
        load=partial(_load, device, operator, family),
        physics=physics_model(operator),
        silicon=cell.silicon_columns(device, "bf16"),
        ranges=RANGES[operator],
        grid=GRIDS[operator],
        protocol=PROTOCOL.format(kernel=kernel),
    )


def _load(device: str, operator: str, family: str) -> cell.Rows:
    rows = tables.table_rows(device, operator, family, "bf16")
    return cell.Rows.of(
        rows,
        rows.shape_table(physics_model(operator).shape_names),
        cell.roofline_s(_operator(rows.columns, operator), cell.silicon_columns(device, "bf16")),
    )


def _operator(columns: Mapping[str, FloatArray], operator: str) -> Operator:
    """Return measured calls as operators."""
    batch = columns["batch"]
    tokens = batch * columns["q_len"]
    if operator.startswith("conv"):
        return Convolution(
            name=operator,
            phase=Phase.PREFILL if operator == "conv_prefill" else Phase.DECODE,
            count=np.ones_like(batch),
            batch=batch,
            tokens=tokens,
            channels=columns["channels"],
            kernel=int(columns["kernel"][0]),
        )
    return Scan(
        name=operator,
        phase=Phase.PREFILL if operator == "scan_prefill" else Phase.DECODE,
        count=np.ones_like(batch),
        batch=batch,
        tokens=tokens,
        flop_per_token=columns["flop_per_token"],
        io_bytes_per_token=columns["io_bytes_per_token"],
        state_bytes=0.5 * columns["state_bytes"],
        num_heads=columns["num_heads"],
        head_width=0.0,
        chunk=float(columns["chunk"][0]),
        mixer="gated_delta_net",
    )


MAKER: Final = cell.CellMaker(recurrent_cells, OPERATORS, place=7)
