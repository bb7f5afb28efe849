"""Matrix products of AMD GPUs: kernel parameters fitted to tables of AITER, and their errors.

AITER publishes the best kernel of a tuning sweep per shape. Rows are left out by network, as all
shapes of a network were tuned together.

Shape legend: U measured rows, D shape dimensions.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from perfatlas.files import content_hash, format_toml, write_atomic
from perfatlas.fitting import calibrate_cell, fit_cell, taken, write_calibrations
from perfatlas.fitting.cells import QUANTIZED_RANGES, Cell, Range, Rows
from perfatlas.formats import get_format
from perfatlas.hardware import resolve_system
from perfatlas.machines.gpu import devices
from perfatlas.machines.gpu.kernels import gemm
from perfatlas.measurements import calibrations
from perfatlas.sampling import five_quantiles
from validation.machines.amd_experts import DEVICE as EXPERTS_OF, expert_cells
from validation.runs.shared_data import read_table, shared_folder
from validation.runs.twins import twin_groups

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from perfatlas.operators import FloatArray

FILE: Final = "machines/kernels_measured.csv"
FAMILY: Final = "aiter"
# number formats of the tables, with those of the catalog
FORMATS: Final = {
    "bf16": "bf16",
    "fp8": "fp8_dynamic",
    "fp8 blockscale": "fp8_block",
    "fp4 blockscale": "mxfp4_mxfp4",
}
DEVICES: Final = {"mi300x": ("fp8 blockscale",), "mi355x": tuple(FORMATS)}
BANDS: Final = {"m <= 16": 17.0, "17 to 1,023": 1024.0, "m >= 1,024": np.inf}
OUTPUT_BYTES: Final = 2.0
RANGES: Final = {
    **QUANTIZED_RANGES,
    "efficiency_compute": Range(start=0.5, low=0.05, high=1.0),
    "overhead_launch_s": Range(start=2e-6, low=0.2e-6, high=60e-6),
}
# Tables of quantized formats begin with the quantized activation: its quantization is one
# streaming kernel, with the launch of AITER's shortest products.
FIXED: Final = {"l2_fraction": 0.5, "tile_policy": 0.0, "overhead_depth_cycles": 0.0}
QUANTIZED: Final = {"overhead_quantize_s": 2.5e-6, "quantize_passes": 1.0}
UNQUANTIZED: Final = {"overhead_quantize_s": 0.0, "quantize_passes": 0.0}
PROTOCOL: Final = (
    "best kernel of a tuning sweep (AITER), repeated on the same operands; quantization of the"
    " activation outside, assumed as one streaming kernel; clocks not locked"
)
COMMAND: Final = "python -c 'from validation.machines import write_amd; write_amd()'"
VENDOR_HEADER: Final = (
    "# ln(measured/predicted) of matrix products of AMD GPUs priced with the parameters of NVIDIA\n"
    "# GPUs: every cell counted alike. Written by validation.machines.write_amd from the tuned\n"
    "# tables of AITER (ROCm/aiter, MIT).\n\n"
)


class Table(NamedTuple):
    """The rows of a device and format."""

    rows: Rows  # Shapes and times
    # Network whose shapes were tuned together, with others of a same matrix (U,)
    network_U: NDArray[np.str_]


@cache
def _published() -> tuple[dict[str, str], ...]:
    rows = read_table(shared_folder() / FILE)
    return tuple(
        row for row in rows if row["kernel"].startswith("gemm_") and row["m"] and row["time_us"]
    )


def table_of(device: str, dtype: str) -> Table:
    """Return the measured products of a device.

    Args:
        device: Catalog name.
        dtype: Key of FORMATS.
    """
    of = [r for r in _published() if (r["machine"].lower(), r["dtype"]) == (device, dtype)]
    layout = get_format(FORMATS[dtype])
    columns = {name: np.array([float(row[name]) for row in of]) for name in ("m", "n", "k")}
    columns |= {
        "weight_bytes_per_element": np.full(len(of), layout.weight_bytes),
        "input_bytes_per_element": np.full(len(of), layout.activation_bytes),
        "output_bytes_per_element": np.full(len(of), OUTPUT_BYTES),
        "groups": np.ones(len(of)),
    }
    none = np.zeros(len(of))
    shape_UD = np.stack([columns.get(name, none) for name in gemm.GemmShape._fields], axis=1)
    silicon = devices.silicon_row(resolve_system(device).device, FORMATS[dtype])
    m, n, k = (columns[name] for name in ("m", "n", "k"))
    moved = n * k * layout.weight_bytes + m * k * layout.activation_bytes + m * n * OUTPUT_BYTES
    rows = Rows(
        shape_UD=shape_UD,
        measured_s=np.array([float(row["time_us"]) * 1e-6 for row in of]),
        roofline_s=np.maximum(2.0 * m * n * k / silicon.peak, moved / silicon.bandwidth),
        version=f"AITER {max(row['date'] for row in of)}",
        data_hash=content_hash(repr([sorted(row.items()) for row in of])),
        excluded={},
    )
    names = [row["kernel"].partition(":")[2] for row in of]
    return Table(rows, np.array(twin_groups(names, [(row["n"], row["k"]) for row in of])))


def cell_of(device: str, dtype: str) -> Cell:
    """Return the calibration cell of a device and format.

    Args:
        device: Catalog name.
        dtype: Key of FORMATS.
    """
    format_name = FORMATS[dtype]
    dynamic = get_format(format_name).quantize == "dynamic"
    return Cell(
        device=device,
        operator="gemm",
        family=FAMILY,
        format=format_name,
        load=lambda: table_of(device, dtype).rows,
        physics=gemm.gemm_time_s,
        silicon=devices.silicon_row(resolve_system(device).device, format_name),
        ranges=RANGES,
        grid=({**FIXED, **(QUANTIZED if dynamic else UNQUANTIZED)},),
        protocol=PROTOCOL,
    )


def write_amd(folder: Path | None = None) -> None:
    """Write the calibrations of AMD GPUs, and the errors of parameters of another vendor.

    Args:
        folder: Of calibrations, by default the shipped one.
    """
    folder = folder or calibrations.calibration_folder()
    for device, dtypes in DEVICES.items():
        cells = [
            replace(calibrate_cell(cell), command=COMMAND)
            for cell in (
                *(cell_of(device, dtype) for dtype in dtypes),
                *(expert_cells() if device == EXPERTS_OF else ()),
            )
        ]
        write_calibrations(folder / f"{device}.toml", {cell.id: cell for cell in cells})
    found = [of_another_vendor(device, word) for device in DEVICES for word in DEVICES[device]]
    missed = [column for column in found if column is not None]
    pooled = np.concatenate([np.quantile(column, np.linspace(0.0, 1.0, 101)) for column in missed])
    row = {"operator": "gemm", "cells": len(missed)}
    row |= {name: round(value, 4) for name, value in five_quantiles(pooled).items()}
    text = VENDOR_HEADER + format_toml({"vendor_transfer": [row]})
    write_atomic(folder.parent / "vendor_transfers.toml", text)


def of_another_vendor(device: str, dtype: str) -> FloatArray | None:
    """Return ln(measured/predicted) with the parameters that another vendor's GPUs lend (U,).

    None for a format that none of them has.

    Args:
        device: Catalog name.
        dtype: Key of FORMATS.
    """
    cell, rows = cell_of(device, dtype), table_of(device, dtype).rows
    with calibrations.without_devices(DEVICES):
        lent = calibrations.find_shipped_calibration(
            resolve_system(device).device, "gemm", "vllm", FORMATS[dtype]
        )
    if lent is None:
        return None
    missed: FloatArray = np.log(
        rows.measured_s / cell.predict(rows.shape_UD, lent.calibration.parameters)
    )
    return missed


def validate_amd() -> list[dict[str, Any]]:
    """Return the errors of every cell and band of rows, each network left out of the fit."""
    return [
        row
        for device, dtypes in DEVICES.items()
        for dtype in dtypes
        for row in _left_out(device, dtype)
    ]


def _left_out(device: str, dtype: str) -> list[dict[str, Any]]:
    """Return the errors of a cell by band of rows."""
    cell, (rows, network_U) = cell_of(device, dtype), table_of(device, dtype)
    predicted_U = np.empty_like(rows.measured_s)
    for network in np.unique(network_U):
        out_U = network_U == network
        fitted = fit_cell(cell, taken(rows, ~out_U))
        predicted_U[out_U] = cell.predict(rows.shape_UD[out_U], fitted)
    error_U, m_U = np.abs(predicted_U / rows.measured_s - 1.0), rows.shape_UD[:, 0]
    bands = dict(zip(BANDS, pairwise([0.0, *BANDS.values()]), strict=True))
    return [
        {
            "cell": cell.id,
            "band": band,
            "rows": int(in_U.sum()),
            "median_error": round(float(np.median(error_U[in_U])), 3),
            "p90_error": round(float(np.quantile(error_U[in_U], 0.9)), 3),
        }
        for band, (low, high) in bands.items()
        if (in_U := (m_U >= low) & (m_U < high)).any()
    ]
