"""Extrapolation errors of collective fits to twice the ranks, as shipped data."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas import hardware
from perfatlas.files import format_toml, write_atomic
from perfatlas.fitting import fit_cell
from perfatlas.fitting.cells import MEASURED_DEVICES, OP_FORMATS, library_cell

if TYPE_CHECKING:
    from pathlib import Path

EXTRAPOLATED_RANKS: Final = 8.0
EXTRAPOLATION_HEADER: Final = (
    "# ln(measured/predicted) of NCCL times at 8 ranks for fits on 2 and 4 ranks, devices pooled.\n"
    "# Written by validation.transfers.write_rank_extrapolation from the tables of\n"
    "# aiconfigurator-core 0.12.0 (ai-dynamo/aiconfigurator, Apache-2.0).\n\n"
)


def rank_extrapolation(op: str) -> dict[str, float | int | str]:
    """Return the errors at the largest rank count of fits on up to half the ranks.

    Pools ln(measured/predicted) of the devices with an NVLink switch and 8 measured ranks: fitted
    on 2 and 4 ranks, predicted at 8.

    Args:
        op: Measured operation.

    Returns:
        op, q05, q50, q95, rows and devices of the pool.
    """
    residuals = []
    for device in MEASURED_DEVICES:
        cell = library_cell(device, op, OP_FORMATS[op][0])
        rows = cell.load()
        ranks = rows.shape_UD[:, 1]
        kind = hardware.resolve_system(device).device.scale_up.kind
        if np.max(ranks) < EXTRAPOLATED_RANKS or kind != "nvlink":
            continue
        few = ranks < EXTRAPOLATED_RANKS
        seen = rows._replace(shape_UD=rows.shape_UD[few], measured_s=rows.measured_s[few])
        known = {"ranks_measured": float(np.max(ranks[few]))}
        held = replace(cell, grid=tuple({**row, **known} for row in cell.grid))
        parameters = fit_cell(held, seen)
        predicted_s = held.predict(rows.shape_UD[~few], parameters)
        residuals.append(np.log(rows.measured_s[~few] / predicted_s))
    pool = np.concatenate(residuals)
    low, middle, high = (round(float(x), 4) for x in np.quantile(pool, (0.05, 0.5, 0.95)))
    return {
        "op": op,
        "q05": low,
        "q50": middle,
        "q95": high,
        "rows": pool.size,
        "devices": len(residuals),
    }


def write_rank_extrapolation(path: Path) -> None:
    """Write the extrapolation errors of every measured operation to a TOML file.

    Args:
        path: The file; `data/collectives/rank_extrapolation.toml` of the package is shipped.
    """
    rows = [rank_extrapolation(op) for op in OP_FORMATS]
    write_atomic(path, EXTRAPOLATION_HEADER + format_toml({"extrapolation": rows}))
