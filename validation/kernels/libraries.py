"""Fit and score the kernels of libraries for analytics and scientific computing.

Rows are published measurements (validation/data/library_kernels.csv). One parameter set per
algorithm and vendor prices every device; a device is scored with parameters fitted to the others.

Shape legend: U rows, D shape columns, S silicon fields, P parameters, F of them that are fitted.
"""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

import numpy as np
from scipy.optimize import least_squares

from perfatlas.files import file_hash, write_atomic
from perfatlas.hardware import resolve_system
from perfatlas.machines.gpu import devices, shapes
from perfatlas.machines.gpu.kernels import libraries
from perfatlas.measurements.calibrations import lent_width
from perfatlas.operators import SECTOR_BYTES
from perfatlas.scenario.operator_queries import QUERIES

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfatlas.operators import FloatArray, LibraryKernel

MEASURED: Final = Path(__file__).parents[1] / "data" / "library_kernels.csv"
SHIPPED: Final = Path(__file__).parents[2] / "src/perfatlas/data/library_kernels.csv"
GIGA: Final = 1e9
FITTED_ON: Final = "2026-11-30"
# Values of what is not fitted: assumptions, and neutral ones of what an algorithm does not do.
START: Final = libraries.LibraryParameters(2e-6, 0.85, 0.7, 0.0, 0.0, 0.0, SECTOR_BYTES)
CYCLES: Final = (0.1, 1.0, 10.0)  # from which fits start
PULL: Final = 0.02  # of a parameter to its start, per e-fold: rows may not tell it
LAUNCH, BANDWIDTH, COMPUTE, ITEMS, BYTES, GATHERS, SECTORS = libraries.LibraryParameters._fields
FITTED: Final = {
    "radix_sort": (LAUNCH, BANDWIDTH, ITEMS, BYTES),
    "merge_sort": (LAUNCH, ITEMS),
    "scan": (LAUNCH, BANDWIDTH, ITEMS, BYTES),
    "reduce": (LAUNCH, BANDWIDTH),
    "histogram": (LAUNCH, ITEMS, GATHERS),
    "filter": (LAUNCH, ITEMS),
    "hash_join": (LAUNCH, ITEMS, GATHERS, SECTORS),
    "hash_group_by": (ITEMS, GATHERS),
    "csr_spmv": (LAUNCH, BANDWIDTH, GATHERS, SECTORS),
    "stencil": (BANDWIDTH,),
    "fft": (BANDWIDTH,),
    "lu": (LAUNCH, BANDWIDTH, COMPUTE),
    "cholesky": (LAUNCH, COMPUTE),
    "gemm_fp32": (COMPUTE,),
    "gemm_fp64": (COMPUTE,),
}
QUANTILES: Final = (0.05, 0.25, 0.5, 0.75, 0.95)


class Rows(NamedTuple):
    """Published rows of one algorithm."""

    operator: str
    device_U: NDArray[np.str_]
    library_U: NDArray[np.str_]
    source_U: NDArray[np.str_]
    shape_UD: FloatArray
    silicon_US: FloatArray
    measured_s_U: FloatArray

    def only(self, keep_U: Any) -> Rows:  # noqa: ANN401 - a mask (U,)
        """Return some of the rows."""
        return Rows(self.operator, *(np.asarray(column)[keep_U] for column in self[1:]))


@cache
def measured_rows() -> dict[tuple[str, str], Rows]:
    """Return the published rows by algorithm and vendor, priced as `kernel` asks for them."""
    found: dict[tuple[str, str], list[tuple[Any, ...]]] = {}
    with MEASURED.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            asked = dict(pair.split("=") for pair in row["shape"].split())
            query = QUERIES[row["operator"]]
            inputs = query.schema.ask({"system": row["device"], **asked})
            operator = cast("LibraryKernel", query.operator([inputs]))
            device = resolve_system(row["device"]).device
            if row["memory_gb_per_s"]:
                device = replace(device, memory_bandwidth=float(row["memory_gb_per_s"]) * GIGA)
            columns = shapes.shape_columns(operator).values()
            shape = [float(np.asarray(column).flat[0]) for column in columns]
            silicon = devices.silicon_row(device, operator.compute_format)
            cells = (row["device"], row["library"], row["source"], shape, silicon)
            found.setdefault((operator.algorithm, device.vendor), []).append(
                (row["operator"], *cells, float(row["time_s"]))
            )
    return {
        key: Rows(cells[0][0], *map(np.array, list(zip(*cells, strict=True))[1:]))
        for key, cells in found.items()
    }


def residuals(rows: Rows, parameters: libraries.LibraryParameters) -> FloatArray:
    """Return ln(measured / predicted) of rows (U,)."""
    parameters_UP = np.tile(np.array(parameters), (rows.measured_s_U.size, 1))
    predicted_s_U, _ = libraries.library_time_s(rows.shape_UD, rows.silicon_US, parameters_UP)
    difference_U: FloatArray = np.log(rows.measured_s_U / predicted_s_U)
    return difference_U


def fit(algorithm: str, rows: Rows) -> libraries.LibraryParameters:
    """Return the parameters of an algorithm; devices count alike, whatever their rows."""
    names = FITTED[algorithm]
    counts = dict(zip(*np.unique(rows.device_U, return_counts=True), strict=True))
    weight_U = np.array([counts[name] ** -0.5 for name in rows.device_U])

    def with_values(log_F: FloatArray) -> libraries.LibraryParameters:
        return START._replace(**dict(zip(names, np.exp(log_F).tolist(), strict=True)))

    most = [1.0 if name.startswith("efficiency") else np.inf for name in names]
    fits = []
    for cycles in CYCLES:
        start_F = np.log([getattr(START, name) or cycles for name in names])

        def errors(log_F: FloatArray, start_F: FloatArray = start_F) -> FloatArray:
            error_U = weight_U * residuals(rows, with_values(log_F))
            return np.concatenate([error_U, PULL * (log_F - start_F)])

        limits = (-np.inf, np.log(most))
        fits.append(least_squares(errors, start_F, bounds=limits, loss="soft_l1", diff_step=1e-3))
    return with_values(min(fits, key=lambda found: float(found.cost)).x)


def left_out(algorithm: str, rows: Rows) -> FloatArray:
    """Return the residuals of each device with parameters fitted to the others (U,)."""
    difference_U = np.full(rows.measured_s_U.size, np.nan)
    devices = sorted(set(rows.device_U))
    if len(devices) > 1:
        for device in devices:
            own_U = np.asarray(rows.device_U) == device
            parameters = fit(algorithm, rows.only(~own_U))
            difference_U[own_U] = residuals(rows.only(own_U), parameters)
    return difference_U


def _covered(rows: Rows, other_U: FloatArray) -> float:
    """Return the share of rows inside the interval that the devices other than their own give."""
    inside = []
    for device in set(rows.device_U):
        own_U = rows.device_U == device
        rest_U = other_U[~own_U]
        width = max(-float(np.quantile(rest_U, 0.05)), float(np.quantile(rest_U, 0.95)))
        others = len(set(rows.device_U[~own_U]))
        inside.append(np.abs(other_U[own_U]) <= lent_width(width, others))
    return float(np.concatenate(inside).mean())


def _quantiles(difference_U: FloatArray, name: str) -> dict[str, float]:
    values = np.quantile(difference_U, QUANTILES).tolist()
    return {f"{name}{100 * q:02.0f}": v for q, v in zip(QUANTILES, values, strict=True)}


def scores() -> list[dict[str, Any]]:
    """Return the fit of each algorithm with its errors, as the shipped file has them."""
    table = []
    for (algorithm, vendor), rows in sorted(measured_rows().items()):
        parameters = fit(algorithm, rows)
        fitted_U, other_U = residuals(rows, parameters), left_out(algorithm, rows)
        error_U = np.abs(np.expm1(-fitted_U))
        row: dict[str, Any] = {
            "algorithm": algorithm,
            "vendor": vendor,
            "operator": rows.operator,
            "libraries": "; ".join(sorted({str(name) for name in rows.library_U})),
            "devices": " ".join(sorted({str(name) for name in rows.device_U})),
            "rows": int(rows.measured_s_U.size),
            "mean_error": float(error_U.mean()),
            "median_error": float(np.median(error_U)),
            "p90_error": float(np.quantile(error_U, 0.9)),
            "bias": float(-fitted_U.mean()),
            **parameters._asdict(),
            **_quantiles(fitted_U, "q"),
            **dict.fromkeys(("left_out_error", "covered", *_quantiles(fitted_U, "left_out_q"))),
            "fitted": FITTED_ON,
            "data_hash": file_hash(MEASURED),
            "sources": " ".join(sorted({str(name) for name in rows.source_U})),
        }
        if np.isfinite(other_U).all():
            row["left_out_error"] = float(np.median(np.abs(np.expm1(-other_U))))
            row["covered"] = _covered(rows, other_U)
            row |= _quantiles(other_U, "left_out_q")
        table.append(row)
    return table


def write_fits() -> None:
    """Write the fits that perfatlas ships."""
    table, text = scores(), io.StringIO()
    writer = csv.DictWriter(text, table[0], lineterminator="\n")
    writer.writeheader()
    for row in table:
        short = {n: f"{v:.5g}" if isinstance(v, float) else v for n, v in row.items()}
        writer.writerow(short)
    write_atomic(SHIPPED, text.getvalue())
