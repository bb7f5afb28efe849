"""Shipped calibrations against every measured row, beside simpler models and the noise floor."""

from __future__ import annotations

import tomllib
from collections import defaultdict
from dataclasses import asdict, dataclass
from functools import cache
from math import exp
from statistics import mean, median
from typing import TYPE_CHECKING, Any

from perfatlas import hardware
from perfatlas.lab.calibrate import baselines
from perfatlas.lab.cells import MEASURED_DEVICES
from perfatlas.lab.fitting import error_statistics
from perfatlas.lab.registry import device_cells
from perfatlas.measurements import calibration_folder, find_calibration
from perfatlas.quantities import UnsupportedError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from perfatlas.lab.cells import Cell

ROUNDING = 5e-4  # targets are published with one decimal of a percent


@dataclass(frozen=True, kw_only=True)
class CellScore:
    """One calibration cell scored on all its measured rows; errors are fractions.

    Args:
        cell: "<device>/<operator>/<family>/<format>".
        rows: Rows compared.
        mape, median_error, p90_error, bias: Of the compact physics.
        roofline_mape: Of max(FLOP/peak, bytes/bandwidth).
        two_parameter_mape: Of roofline / efficiency + fixed time, both fitted.
        noise: Disagreement of two measurements of one kernel, None where unknown.
        inside_90: Share of rows inside the stored 5 % to 95 % interval.
    """

    cell: str
    rows: int
    mape: float
    median_error: float
    p90_error: float
    bias: float
    roofline_mape: float
    two_parameter_mape: float
    noise: float | None
    inside_90: float


def validate_kernels(
    systems: Sequence[str] | None = None, operators: Sequence[str] = ()
) -> dict[str, Any]:
    """Return the errors of all shipped calibrations, their medians over GPUs, and failures.

    Every prediction is computed anew, with the calibration the pricing looks up.

    Args:
        systems: Devices to score; all with measured tables by default.
        operators: Operators to score; all by default.

    Returns:
        {"medians": rows per operator, family and format, "cells": rows per cell, "failures":
        texts}; a median above its target is a failure.

    Raises:
        MissingDependencyError: The measured tables are not installed.
        UnsupportedError: A system has no measured tables.
    """
    chosen = tuple(systems or MEASURED_DEVICES)
    for name in chosen:
        if name not in MEASURED_DEVICES:
            raise UnsupportedError(
                f"no measured tables for {name!r}{did_you_mean(name, MEASURED_DEVICES)};"
                f" systems with tables: {', '.join(MEASURED_DEVICES)}"
            )
    scores: dict[tuple[str, str, str], dict[str, CellScore]] = defaultdict(dict)
    for device in chosen:
        for cell in device_cells(device, operators):
            score = score_cell(cell)
            if score is not None:
                scores[cell.operator, cell.family, cell.format][device] = score
    medians = [_median_row(key, found) for key, found in sorted(scores.items())]
    cells = [asdict(score) for found in scores.values() for score in found.values()]
    return {
        "medians": medians,
        "cells": cells,
        "failures": [_failure(row) for row in medians if row["reached"] == "no"],
    }


def score_cell(cell: Cell) -> CellScore | None:
    """Return the score of a cell's shipped calibration, None where it is not calibrated."""
    device = hardware.resolve_system(cell.device).device
    match = find_calibration(device, cell.operator, cell.family, cell.format)
    if match is None or not match.own:
        return None
    rows = cell.load()
    predicted_s = cell.predict(rows.shape_UD, match.calibration.parameters)
    statistics = error_statistics(predicted_s, rows.measured_s)
    simple = baselines(rows)
    low, high = (exp(match.quantiles[name]) for name in ("q05", "q95"))
    ratio = rows.measured_s / predicted_s
    return CellScore(
        cell=cell.id,
        rows=statistics.rows,
        mape=round(statistics.mape, 4),
        median_error=round(statistics.median_error, 4),
        p90_error=round(statistics.p90_error, 4),
        bias=round(statistics.bias, 4),
        roofline_mape=round(simple["roofline_mape"], 4),
        two_parameter_mape=round(simple["two_parameter_mape"], 4),
        noise=_noise(cell),
        inside_90=round(float(((ratio >= low) & (ratio <= high)).mean()), 4),
    )


def _median_row(key: tuple[str, str, str], found: dict[str, CellScore]) -> dict[str, Any]:
    """Return one row: medians over GPUs and the target for the same GPUs."""
    operator, family, format_name = key
    target, devices = _target(key, tuple(found))
    compared = [score.mape for device, score in found.items() if device in devices]
    reached = "-"
    if target is not None and compared:
        reached = "yes" if median(compared) <= target + ROUNDING else "no"
    noises = [score.noise for score in found.values() if score.noise is not None]
    return {
        "operator": operator,
        "family": family,
        "format": format_name,
        "gpus": len(found),
        "rows": sum(score.rows for score in found.values()),
        "mape": round(median(score.mape for score in found.values()), 4),
        "median_error": round(median(score.median_error for score in found.values()), 4),
        "p90_error": round(median(score.p90_error for score in found.values()), 4),
        "roofline_mape": round(median(score.roofline_mape for score in found.values()), 4),
        "two_parameter_mape": round(
            median(score.two_parameter_mape for score in found.values()), 4
        ),
        "noise": round(median(noises), 4) if noises else None,
        "target_mape": target,
        "target_gpus": len(compared) if target is not None else 0,
        "compared_mape": round(median(compared), 4) if compared else None,
        "reached": reached,
    }


def _failure(row: dict[str, Any]) -> str:
    return (
        f"{row['operator']} {row['family']} {row['format']}: median MAPE over"
        f" {row['target_gpus']} GPUs {100 * row['compared_mape']:.1f} %, target"
        f" {100 * row['target_mape']:.1f} %"
    )


@cache
def _figures() -> dict[str, list[dict[str, Any]]]:
    """Return the targets and noise floors, as data."""
    return tomllib.loads((calibration_folder() / "targets.toml").read_text("utf-8"))


def _target(
    key: tuple[str, str, str], devices: Sequence[str]
) -> tuple[float | None, tuple[str, ...]]:
    """Return the median target over the devices scored, and the devices it holds for."""
    for row in _figures()["target"]:
        if (row["operator"], row["family"], row["format"]) != key:
            continue
        if "median_range" in row:
            return mean(row["median_range"]), tuple(devices)
        known = tuple(device for device in devices if device in row["mape"])
        if known:
            return median(row["mape"][device] for device in known), known
    return None, ()


def _noise(cell: Cell) -> float | None:
    """Return the noise floor of a cell, None where nobody measured it twice."""
    return next(_noises(cell), None)


def _noises(cell: Cell) -> Iterator[float]:
    for row in _figures()["noise"]:
        if row["operator"] == cell.operator and row["format"] in ("any", cell.format):
            if "all" in row:
                yield row["all"]
            elif cell.device in row["mape"]:
                yield row["mape"][cell.device]
