"""Experts of AMD GPUs: kernel parameters fitted to tables of AITER, and their errors.

AITER publishes the best kernels of a tuning sweep per shape: both products of a layer, without the
sorting of tokens and the quantization before them. Rows are left out by the width of their network.

Shape legend: U measured rows, D shape dimensions.
"""

from __future__ import annotations

import csv
import gzip
from functools import cache, partial
from typing import Any, Final

import numpy as np

from perfatlas.files import content_hash
from perfatlas.fitting import fit_cell, taken
from perfatlas.fitting.cells import EXPERT_POLICIES, EXPERT_RANGES, Cell, Range, Rows
from perfatlas.formats import get_format
from perfatlas.hardware import resolve_system
from perfatlas.machines.gpu import devices
from perfatlas.machines.gpu.kernels import moe
from perfatlas.operators import UNIFORM
from validation.runs.shared_data import shared_folder

FILE: Final = "kernel_tuning.csv.gz"
FAMILY: Final = "aiter"
DEVICE: Final = "mi355x"
NAME: Final = "mi355x_or_mi350x"  # of the device in the file
# catalog format -> kernel and number formats of the file
FORMATS: Final = {
    "mxfp4_mxfp4": ("moe_per_1x32", "float4_e2m1fn_x2xfloat4_e2m1fn_x2"),
    "mxfp4_mxfp8": ("moe_per_1x32", "float8_e4m3fnxfloat4_e2m1fn_x2"),
    "fp8_block": ("moe_per_1x128", "float8_e4m3fnxfloat8_e4m3fn"),
}
MATRICES: Final = 3.0  # gate, up and down projection
ONE_RANK: Final = ("ep", "moe_tp", "exchange_ranks", "ranks_per_token", "hot")
UNREAD: Final = {"foreign_rows": 0.1, "overhead_expert_s": 0.1e-6}  # of one rank; no launches
RANGES: Final = {
    **EXPERT_RANGES,
    "efficiency_compute": Range(start=0.3, low=0.02, high=1.0),
    "overhead_launch_s": Range(start=10e-6, low=1e-6, high=100e-6),
}
PROTOCOL: Final = (
    "best kernels of a tuning sweep (AITER), both products of a layer repeated on the same"
    " operands; sorting and quantization of the tokens outside; clocks not locked"
)


@cache
def _published() -> tuple[dict[str, str], ...]:
    with gzip.open(shared_folder() / FILE, "rt", encoding="utf-8", newline="") as stream:
        rows = csv.DictReader(stream)
        return tuple(row for row in rows if row["device"] == NAME and row["time_us"])


def rows_of(format_name: str) -> Rows:
    """Return the measured layers in a format.

    Args:
        format_name: Key of FORMATS.
    """
    of = [row for row in _published() if (row["kernel"], row["dtype"]) == FORMATS[format_name]]
    layout, ones = get_format(format_name), np.ones(len(of))
    words = {"tokens": "M", "hidden": "K", "intermediate": "N", "experts": "E", "top_k": "topk"}
    columns = {name: np.array([float(row[word]) for row in of]) for name, word in words.items()}
    columns |= dict.fromkeys((*ONE_RANK, "concentration", "active_share"), ones)
    columns |= {
        "weight_bytes_per_element": layout.weight_bytes * ones,
        "input_bytes_per_element": layout.activation_bytes * ones,
        "matrices": MATRICES * ones,
        "skew": UNIFORM * ones,
        "loop_cycles": 0.0 * ones,
    }
    tokens, experts, top_k = (columns[name] for name in ("tokens", "experts", "top_k"))
    silicon = devices.silicon_row(resolve_system(DEVICE).device, format_name)
    active = experts * (1.0 - (1.0 - np.minimum(top_k / experts, 1.0)) ** tokens)
    weights = MATRICES * columns["hidden"] * columns["intermediate"]
    flop = 2.0 * weights * tokens * top_k
    moved = weights * active * layout.weight_bytes
    return Rows(
        shape_UD=np.stack([columns[name] for name in moe.MoeShape._fields], axis=1),
        measured_s=np.array([float(row["time_us"]) * 1e-6 for row in of]),
        roofline_s=np.maximum(flop / silicon.peak, moved / silicon.bandwidth),
        version=of[0]["source"],
        data_hash=content_hash(repr([sorted(row.items()) for row in of])),
        excluded={},
    )


def expert_cells() -> tuple[Cell, ...]:
    """Return the calibration cells of experts, one per format."""
    return tuple(
        Cell(
            device=DEVICE,
            operator="moe",
            family=FAMILY,
            format=format_name,
            load=partial(rows_of, format_name),
            physics=moe.moe_time_s,
            silicon=devices.silicon_row(resolve_system(DEVICE).device, format_name),
            ranges=RANGES,
            grid=tuple({**UNREAD, "tile_policy": policy} for policy in EXPERT_POLICIES),
            protocol=PROTOCOL,
        )
        for format_name in FORMATS
    )


def expert_errors() -> list[dict[str, Any]]:
    """Return the errors of every cell, each width of a network left out of the fit."""
    found = []
    for cell in expert_cells():
        rows = cell.load()
        hidden_U = rows.shape_UD[:, moe.MoeShape._fields.index("hidden")]
        predicted_U = np.empty_like(rows.measured_s)
        for hidden in np.unique(hidden_U):
            out_U = hidden_U == hidden
            fitted = fit_cell(cell, taken(rows, ~out_U))
            predicted_U[out_U] = cell.predict(rows.shape_UD[out_U], fitted)
        for name, times_U in (("left out", predicted_U), ("roofline", rows.roofline_s)):
            error_U = np.abs(times_U / rows.measured_s - 1.0)
            found.append(
                {
                    "cell": cell.id,
                    "band": name,
                    "rows": int(error_U.size),
                    "median_error": round(float(np.median(error_U)), 3),
                    "p90_error": round(float(np.quantile(error_U, 0.9)), 3),
                }
            )
    return found
