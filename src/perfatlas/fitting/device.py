"""Fitting of all cells of a device, and its calibration file."""

from __future__ import annotations

import datetime as dt
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.files import format_toml, write_atomic
from perfatlas.fitting.cells import device_cells, earlier_moe_cells
from perfatlas.fitting.held_out_residuals import expected_residuals
from perfatlas.fitting.least_squares import fit_parameters
from perfatlas.hardware import resolve_system
from perfatlas.machines.gpu.shapes import shape_limits
from perfatlas.measurements import calibrations
from perfatlas.quantities import InvalidSpecError, UnsupportedError, did_you_mean
from perfatlas.sampling import error_statistics, five_quantiles, seeded_subset

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from perfatlas.fitting.cells import Cell, Range, Rows
    from perfatlas.fitting.least_squares import Predict
    from perfatlas.operators import FloatArray

FIT_ROWS: Final = 1500
SEED: Final = 20251
EVALUATIONS: Final = 1000
HELD_OUT_EVALUATIONS: Final = 400
DIGITS: Final = 6
FINALISTS: Final = 2
DRAWS: Final = 40
TRIALS: Final = 3
HEADER: Final = (
    "# Kernel calibrations fitted to measured tables (package aiconfigurator-core 0.12.0,\n"
    "# ai-dynamo/aiconfigurator, Apache-2.0). Written by the command in each entry.\n\n"
)


def calibrate(
    device: str,
    *,
    operators: Sequence[str] = (),
    families: Sequence[str] = (),
    folder: Path | None = None,
    progress: Callable[[calibrations.Calibration], None] | None = None,
) -> tuple[calibrations.Calibration, ...]:
    """Return newly fitted calibrations of a device and write them to its calibration file.

    Other cells keep their fit.

    Args:
        device: Catalog name of a device with measured tables.
        operators: Operators to fit; all by default.
        families: Engines to fit; all by default.
        folder: Folder of `<device>.toml`; by default the folder of user calibrations, which take
            precedence over the shipped ones.
        progress: Called after each fit.

    Raises:
        MissingDependencyError: The measured tables are not installed.
        InvalidSpecError: The device is not in the catalog, the folder does not exist, or the user's
            file has calibrations for another spec of the device.
        UnsupportedError: There are no measured tables for the selection.
    """
    device = resolve_system(device).name
    earlier = [name for name in families if calibrations.base_family(name) != name]
    if earlier and folder is None:
        raise UnsupportedError(
            f"{', '.join(earlier)}: kernels of an earlier release are not user calibrations;"
            " set --folder"
        )
    path = calibration_target(device, folder)
    cells = [
        cell for cell in device_cells(device, operators) if not families or cell.family in families
    ]
    if not operators or "moe" in operators:
        cells += [cell for name in earlier for cell in earlier_moe_cells(device, name)]
    if not cells:
        measured = sorted({c.operator for c in device_cells(device)})
        requested = ", ".join(operators) or "any operator"
        raise UnsupportedError(
            f"no measured rows of {requested} for {', '.join(families) or 'any engine'} on"
            f" {device!r}; operators with rows: {', '.join(measured) or 'none'}"
            f"{did_you_mean(requested, measured)}"
        )
    fitted: list[calibrations.Calibration] = []
    for cell in cells:
        fitted.append(calibrate_cell(cell))
        # Written after each fit, so that an interrupted run keeps its results.
        stored = calibrations.read_calibrations(path) if path.is_file() else {}
        write_calibrations(path, {**stored, cell.id: fitted[-1]})
        if progress is not None:
            progress(fitted[-1])
    return tuple(fitted)


def calibration_target(device: str, folder: Path | None) -> Path:
    """Return the file to write, checked before fitting.

    Args:
        folder: Folder, None for the user's.
    """
    if folder is not None:
        if not folder.is_dir():
            raise InvalidSpecError(f"--folder '{folder}' is not a directory; create it first")
        return folder / f"{device}.toml"
    folder = calibrations.user_calibration_folder()
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{device}.toml"
    if path.is_file() and calibrations.read_user_file(path).changed:
        raise InvalidSpecError(
            f"'{path}' has calibrations for a device whose spec differs from {device} in the"
            " catalog; move it, or set --folder"
        )
    return path


def calibrate_cell(cell: Cell) -> calibrations.Calibration:
    """Return the calibration of one cell: fitted on a sample, scored on all rows."""
    rows = cell.load()
    parameters = _rounded(fit_cell(cell, rows))
    statistics = error_statistics(cell.predict(rows.shape_UD, parameters), rows.measured_s)
    least, most = shape_limits(cell.operator, rows.shape_UD)
    return calibrations.Calibration(
        id=cell.id,
        device=cell.device,
        operator=cell.operator,
        family=cell.family,
        format=cell.format,
        parameters=parameters,
        rows=statistics.rows,
        mape=_digits(statistics.mape, 4),
        median_error=_digits(statistics.median_error, 4),
        p90_error=_digits(statistics.p90_error, 4),
        bias=_digits(statistics.bias, 4),
        residual_quantiles=residual_quantiles(cell, rows, parameters),
        transfer_quantiles=transfer_quantiles(cell),
        baselines=_rounded(baselines(rows), 4),
        excluded=dict(rows.excluded),
        least_shape=_rounded(least),
        most_shape=_rounded(most),
        protocol=cell.protocol,
        data_hash=rows.data_hash,
        data_version=rows.version,
        fitted=dt.datetime.now(tz=dt.UTC).date().isoformat(),
        command=f"perfatlas calibrate {cell.device} --operator {cell.operator}{_release(cell)}",
    )


def _release(cell: Cell) -> str:
    is_base = calibrations.base_family(cell.family) == cell.family
    return "" if is_base else f" --kernel-family {cell.family} --folder FOLDER"


def residual_quantiles(cell: Cell, rows: Rows, parameters: Mapping[str, float]) -> dict[str, float]:
    """Return the expected quantiles of ln(measured/predicted) of unmeasured shapes."""
    fit = partial(fit_cell, evaluations=HELD_OUT_EVALUATIONS)
    return _rounded(five_quantiles(expected_residuals(cell, rows, parameters, fit)), 4)


def fit_cell(cell: Cell, rows: Rows, *, evaluations: int = EVALUATIONS) -> dict[str, float]:
    """Return the fitted parameters of a cell, from a seeded sample of its rows.

    Args:
        evaluations: Maximum model evaluations per alternative of the grid.
    """
    sample = seeded_subset(rows.measured_s.size, FIT_ROWS, SEED)
    shape_UD, measured_s = rows.shape_UD[sample], rows.measured_s[sample]
    fit = partial(_fit_with, cell, shape_UD, measured_s)
    grid = list(cell.grid)
    if len(grid) > FINALISTS:
        # A short fit ranks the alternatives; only the best get a full fit.
        screened = [fit(fixed, evaluations // 5)[0] for fixed in grid]
        grid = [grid[index] for index in np.argsort(screened)[:FINALISTS]]
    _, best = min((fit(fixed, evaluations) for fixed in grid), key=lambda answer: answer[0])
    return {name: best[name] for name in cell.ranges}


def _fit_with(
    cell: Cell,
    shape_UD: FloatArray,
    measured_s: FloatArray,
    fixed: Mapping[str, float],
    evaluations: int,
) -> tuple[float, dict[str, float]]:
    """Return the loss and all parameters of the best fit with some parameters fixed."""
    names = [name for name in cell.ranges if name not in fixed]
    ranges = [cell.ranges[name] for name in names]

    def complete(values: FloatArray) -> dict[str, float]:
        return {**dict(zip(names, values.tolist(), strict=True)), **fixed}

    def predict(values: FloatArray) -> FloatArray:
        return cell.predict(shape_UD, complete(values))

    fitted = fit_from_many(predict, measured_s, ranges, evaluations)
    predicted_s = cell.predict(shape_UD, complete(fitted))
    return float(np.mean(np.abs(np.log(predicted_s / measured_s)))), complete(fitted)


def fit_from_many(
    predict: Predict, measured_s: FloatArray, ranges: Sequence[Range], evaluations: int
) -> FloatArray:
    """Return the best fit of several starts: the given one and the best of seeded random ones.

    Args:
        predict: Times (U,) [s] for parameters (P,).
        measured_s: Measured times (U,) [s].
    """
    bounds = {
        "low": np.array([part.low for part in ranges]),
        "high": np.array([part.high for part in ranges]),
    }
    start = np.array([part.start for part in ranges])

    def loss(values: FloatArray) -> float:
        return float(np.mean(np.abs(np.log(predict(values) / measured_s))))

    draw = np.random.default_rng(SEED).uniform(-1.0, 1.0, (DRAWS, start.size))
    drawn = sorted(np.clip(start * np.exp(2.0 * draw), bounds["low"], bounds["high"]), key=loss)
    trials = [
        fit_parameters(predict, measured_s, start=first, evaluations=evaluations // 4, **bounds)
        for first in (start, *drawn[: TRIALS - 1])
    ]
    best = min(trials, key=loss)
    return fit_parameters(predict, measured_s, start=best, evaluations=evaluations, **bounds)


def baselines(rows: Rows) -> dict[str, float]:
    """Return the errors of the roofline and of a fitted roofline / efficiency + fixed time."""
    sample = seeded_subset(rows.measured_s.size, FIT_ROWS, SEED)
    roofline_s, measured_s = rows.roofline_s[sample], rows.measured_s[sample]
    coefficients = fit_parameters(
        lambda values: roofline_s / values[0] + values[1],
        measured_s,
        start=np.array([0.8, 3e-6]),
        low=np.array([0.05, 1e-7]),
        high=np.array([1.0, 1e-3]),
        evaluations=400,
    )
    fitted_s = rows.roofline_s / coefficients[0] + coefficients[1]
    return {
        "roofline_mape": error_statistics(rows.roofline_s, rows.measured_s).mape,
        "two_parameter_mape": error_statistics(fitted_s, rows.measured_s).mape,
    }


def transfer_quantiles(cell: Cell) -> dict[str, float]:
    """Return expected quantiles of ln(measured/predicted) of a cell on an unmeasured device.

    From the stored transfers between other devices (`validation.transfers`); empty where too few
    of them have the operator, family and format.

    Args:
        cell: A cell; its rows and parameters are not used.
    """
    links = cell.operator not in calibrations.KERNELS
    stored = calibrations.load_transfers(cell.operator).get((cell.family, cell.format))
    if stored is None:
        return {}
    (target,) = calibrations.catalog_silicon((cell.device,), links=links)
    return calibrations.expected_quantiles(
        target, calibrations.catalog_silicon(stored.devices, links=links), stored.pairs
    )


def write_calibrations(path: Path, cells: Mapping[str, calibrations.Calibration]) -> None:
    """Write calibrations to one TOML file, sorted by id."""
    rows: list[dict[str, Any]] = [asdict(cells[name]) for name in sorted(cells)]
    write_atomic(path, HEADER + format_toml({"calibration": rows}))
    calibrations.load_calibrations.cache_clear()


def _digits(value: float, digits: int = DIGITS) -> float:
    return float(f"{value:.{digits}g}")


def _rounded(values: Mapping[str, float], digits: int = DIGITS) -> dict[str, float]:
    return {name: _digits(value, digits) for name, value in values.items()}
