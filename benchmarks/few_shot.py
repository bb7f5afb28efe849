"""Accuracy of few-shot calibration of a device, before and after, on all other rows.

`python benchmarks/few_shot.py --device l40s --rows 50 200` treats a measured device as new: its
calibrations are hidden, seeded rows of its tables are written as a user's CSV file, read back, and
fitted with priors from the other devices. The errors are over all other rows of the cell.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from perfatlas import hardware
from perfatlas.files import write_table
from perfatlas.fitting.cells import device_cells
from perfatlas.fitting.few_shot import refit_cell
from perfatlas.fitting.few_shot_rows import row_cells
from perfatlas.machines.gpu.shapes import physics_model
from perfatlas.measurements.calibrations import load_calibrations
from perfatlas.measurements.tables import PROTOCOL_COLUMNS, SHAPE_COLUMNS, read_measured_rows
from perfatlas.quantities import InvalidSpecError
from perfatlas.sampling import error_statistics

if TYPE_CHECKING:
    from perfatlas.fitting.cells import Cell, Rows
    from perfatlas.operators import FloatArray, IntArray

SEED = 100


def user_columns(cell: Cell, rows: Rows, chosen: IntArray) -> dict[str, list[Any]]:
    """Return chosen rows of a measured table in the schema of a user's rows."""
    table: dict[str, FloatArray] = {
        name: rows.shape_UD[chosen, column]
        for column, name in enumerate(physics_model(cell.operator).shape_names)
    }
    product, kv_format = cell.format, "bf16"
    if cell.operator not in ("gemm", "moe", "streaming"):
        kv_format = "fp8_static" if product.endswith("+fp8_kv") else "bf16"
        product = "fp8_static" if product.startswith("fp8") else "bf16"
    words = {
        "device": cell.device,
        "operator": cell.operator,
        "kernel_family": cell.family,
        "format": product,
        "kv_format": kv_format,
    }
    columns: dict[str, list[Any]] = {name: [word] * chosen.size for name, word in words.items()}
    for name in (*SHAPE_COLUMNS[cell.operator], *PROTOCOL_COLUMNS):
        if name in table:
            columns[name] = table[name].tolist()
    if "skew" in table:
        skews = table["skew"].tolist()
        columns["distribution"] = [f"power_law_{a:g}" if a else "balanced" for a in skews]
    columns["time_s"] = rows.measured_s[chosen].tolist()
    return columns


def score(cell: Cell, rows: Rows, count: int, seed: int) -> dict[str, Any]:
    """Return one line: the errors on all other rows, before and after."""
    draw = np.random.default_rng(seed)
    chosen = draw.choice(rows.measured_s.size, min(count, rows.measured_s.size // 2), replace=False)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.csv"
        write_table(path, user_columns(cell, rows, chosen))
        try:
            read = read_measured_rows(path)
        except InvalidSpecError as problem:
            text = str(problem).partition("rows.csv': ")[2] or str(problem)
            return {"cell": cell.id, "rows": count, "seed": seed, "own": None, "kept": text}
    device = hardware.resolve_system(cell.device).device
    (own,) = row_cells(read, device)
    change = refit_cell(own, device, without=(cell.device,))
    rest = np.setdiff1d(np.arange(rows.measured_s.size), chosen)
    line: dict[str, Any] = {"cell": cell.id, "rows": count, "seed": seed}
    shipped = load_calibrations(cell.device).get(cell.id)
    line["own"] = shipped.mape if shipped else None
    if change.reason:
        return line | {"kept": change.reason}
    before_s = cell.predict(rows.shape_UD[rest], change.prior_parameters)
    after_s = cell.predict(rows.shape_UD[rest], change.parameters)
    residual = np.log(rows.measured_s[rest] / after_s)
    low, high = change.quantiles["q05"], change.quantiles["q95"]
    return line | {
        "before": error_statistics(before_s, rows.measured_s[rest]).mape,
        "after": error_statistics(after_s, rows.measured_s[rest]).mape,
        "inside": float(np.mean((low <= residual) & (residual <= high))),
        "kept": change.kept,
    }


def main() -> int:
    """Print a line per cell and a summary per operator."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", nargs="+", default=["l40s"])
    parser.add_argument("--operator", nargs="*", default=[])
    parser.add_argument("--rows", nargs="+", type=int, default=[50, 200])
    parser.add_argument("--seeds", type=int, default=1)
    asked = parser.parse_args()
    print("| cell | rows | seed | before | after | in 90% | full fit | kept |")
    print("|---|---|---|---|---|---|---|---|")
    lines: list[dict[str, Any]] = []
    for device in asked.device:
        for cell in device_cells(device, tuple(asked.operator)):
            if cell.operator in SHAPE_COLUMNS:
                rows = cell.load()
                for count in asked.rows:
                    for seed in range(SEED, SEED + asked.seeds):
                        lines.append(score(cell, rows, count, seed))
                        print(_text(lines[-1]), flush=True)
    _summary(lines)
    return 0


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f}"


def _text(line: dict[str, Any]) -> str:
    errors = [_percent(line.get(name)) for name in ("before", "after", "inside", "own")]
    words = [line["cell"], line["rows"], line["seed"], *errors, line["kept"]]
    return f"| {' | '.join(map(str, words))} |"


def _summary(lines: list[dict[str, Any]]) -> None:
    print("\n| operator | rows | cells | before | after | full fit |\n|---|---|---|---|---|---|")
    scored = [line for line in lines if "after" in line]
    for key in sorted({(_operator(line), line["rows"]) for line in scored}):
        part = [line for line in scored if (_operator(line), line["rows"]) == key]
        medians = [
            _percent(statistics.median(line[name] or 0.0 for line in part))
            for name in ("before", "after", "own")
        ]
        print(f"| {key[0]} | {key[1]} | {len(part)} | {' | '.join(medians)} |")


def _operator(line: dict[str, Any]) -> str:
    _, operator, _, form = line["cell"].split("/")
    return f"{operator} bf16" if operator == "gemm" and form == "bf16" else operator


if __name__ == "__main__":
    raise SystemExit(main())
