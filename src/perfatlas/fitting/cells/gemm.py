"""Calibration cells of matrix products, from the measured GEMM tables.

Shape legend: U measured rows, D shape dimensions.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.fitting.cells import cell
from perfatlas.machines.gpu.kernels.gemm import TILE_POLICIES, GemmShape, gemm_time_s
from perfatlas.measurements import tables
from perfatlas.operators import ACTIVATION_BYTES

if TYPE_CHECKING:
    from perfatlas.operators import FloatArray

RANGES: Final = {
    "efficiency_compute": cell.Range(start=0.85, low=0.2, high=1.0),
    "efficiency_bandwidth": cell.Range(start=0.82, low=0.3, high=1.0),
    "overhead_launch_s": cell.Range(start=2.0e-6, low=0.2e-6, high=60e-6),
    "overhead_wave_cycles": cell.Range(start=1800.0, low=100.0, high=20000.0),
    "feed_bytes_per_flop": cell.Range(start=0.014, low=0.001, high=0.2),
    "overhead_split_cycles": cell.Range(start=4000.0, low=50.0, high=40000.0),
    "overlap_power": cell.Range(start=3.0, low=1.0, high=8.0),
    "l2_fraction": cell.Range(start=0.6, low=0.05, high=2.0),
    "overhead_quantize_s": cell.Range(start=3e-6, low=0.1e-6, high=30e-6),
    "wave_smoothing": cell.Range(start=0.3, low=0.01, high=1.0),
    "quantize_passes": cell.Range(start=3.0, low=0.5, high=20.0),
    "tile_policy": cell.Range(start=1.0, low=1.0, high=float(len(TILE_POLICIES))),
    "overhead_depth_cycles": cell.Range(start=1.0, low=0.05, high=10.0),
}

# Launch and quantization cannot be separated where both are measured together: the launch of a
# quantized product is fixed to that of unquantized products of the same engines.
QUANTIZED_RANGES: Final = {
    **RANGES,
    "overhead_launch_s": cell.Range(start=2.2e-6, low=1.5e-6, high=3.0e-6),
    "overhead_quantize_s": cell.Range(start=4e-6, low=0.1e-6, high=30e-6),
}
# Discrete parameters. The cache of the benchmark loop matters little for the small weights of
# quantized formats: its share is fixed, so that at most ten parameters are fitted.
UNQUANTIZED: Final = {"overhead_quantize_s": 0.0, "quantize_passes": 0.0, "tile_policy": 0.0}
QUANTIZED_GRID: Final = tuple(
    {"tile_policy": float(policy), "l2_fraction": 0.5} for policy in range(len(TILE_POLICIES) + 1)
)
# Loops of block-scaled products show their latency: each step adds its sums to those in fp32, and
# DeepGEMM does not divide the inner dimension. Other formats divide it, and their steps overlap.
BLOCK_SCALED: Final = {"overhead_split_cycles": RANGES["overhead_split_cycles"].high}
WITHOUT_DEPTH: Final = {"overhead_depth_cycles": 0.0}

PROTOCOLS: Final = {
    "trtllm": "CUDA graph; weight copies = clamp(ceil(L2 / weight bytes), 1, 5); activation shared;"
    " dynamic quantization inside; clocks not locked (collector/trtllm/collect_gemm.py)",
    "vllm": "CUDA graph; 6 weight copies, nvfp4 1; activation shared; dynamic quantization inside;"
    " clocks not locked (collector/vllm/collect_gemm.py)",
    "sglang": "CUDA graph; 6 weight copies with private activations; dynamic quantization inside;"
    " clocks not locked",
}


def gemm_cells(device: str) -> tuple[cell.Cell, ...]:
    """Return the GEMM cells of a device, one per engine and format with measured rows."""
    cells: list[cell.Cell] = []
    for family in cell.FAMILIES:
        if not tables.has_table(device, "gemm", family, "gemm_perf"):
            continue
        words = (
            tables.read_table(device, "gemm", family, "gemm_perf").columns.text("gemm_dtype").words
        )
        for word, format_name in tables.GEMM_FORMATS.items():
            if word in words and not cell.is_excluded(device, "gemm", family, format_name):
                cells.append(_cell(device, family, format_name))
    return tuple(cells)


def _cell(device: str, family: str, format_name: str) -> cell.Cell:
    inside = format_name in tables.QUANTIZED_INSIDE
    grid = QUANTIZED_GRID if inside else (UNQUANTIZED,)
    of_format = BLOCK_SCALED if format_name == "fp8_block" else WITHOUT_DEPTH
    grid = tuple({**fixed, **of_format} for fixed in grid)
    return cell.Cell(
        device=device,
        operator="gemm",
        family=family,
        format=format_name,
        load=partial(_load, device, family, format_name),
        physics=gemm_time_s,
        silicon=cell.silicon_columns(device, format_name),
        ranges=QUANTIZED_RANGES if inside else RANGES,
        grid=grid,
        protocol=PROTOCOLS[family],
    )


def _load(device: str, family: str, format_name: str) -> cell.Rows:
    rows = tables.table_rows(device, "gemm", family, format_name)
    shape_UD = rows.shape_table(GemmShape._fields)
    return cell.Rows.of(rows, shape_UD, _roofline_s(device, format_name, shape_UD))


def _roofline_s(device: str, format_name: str, shape_UD: FloatArray) -> FloatArray:
    """Return max(FLOP/peak, cold bytes/bandwidth) of all measured work."""
    silicon = cell.silicon_columns(device, format_name)
    s = GemmShape(*shape_UD.T)
    flop = 2.0 * s.m * s.n * s.k
    traffic = s.n * s.k * s.weight_bytes_per_element + s.m * s.k * s.input_bytes_per_element
    traffic += s.m * s.n * s.output_bytes_per_element
    traffic += s.quantize * s.m * s.k * (ACTIVATION_BYTES + s.input_bytes_per_element)
    least: FloatArray = np.maximum(flop / silicon.peak, traffic / silicon.bandwidth)
    return least


MAKER: Final = cell.CellMaker(gemm_cells, ("gemm",), place=1)
