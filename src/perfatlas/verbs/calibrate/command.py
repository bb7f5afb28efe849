"""`perfatlas calibrate`: fit kernel parameters to measured tables or to your own rows."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

from cyclopts import Parameter

from perfatlas.commands.flags import SWITCH, WITHOUT_NEGATIVE_FLAG, File
from perfatlas.commands.output import envelope, print_json
from perfatlas.quantities import UsageError

if TYPE_CHECKING:
    from perfatlas.fitting import CellChange, MeasurementReport
    from perfatlas.measurements.calibrations import Calibration


SHOWN: Final = {
    "cell": "cell",
    "rows": "rows",
    "mape_before": "before",
    "mape_after": "after",
    "kept": "kept",
}


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class MeasurementFlags:
    """Your own measurements instead of measured tables.

    Args:
        measurements: CSV, Parquet or JSON Lines file of measured rows.
        device: Device they were measured on: a catalog name, or your TOML spec.
        output: Calibration file to write; by default the one that perfatlas reads for the device.
    """

    measurements: File | None = None
    device: str | None = None
    output: File | None = None


def calibrate(
    system: str | None = None,
    *,
    operator: Annotated[list[str] | None, WITHOUT_NEGATIVE_FLAG] = None,
    kernel_family: Annotated[list[str] | None, WITHOUT_NEGATIVE_FLAG] = None,
    folder: Path | None = None,
    own: MeasurementFlags | None = None,
    json: Annotated[bool, SWITCH] = False,
) -> int:
    """Fit kernel parameters to measurements and write them as TOML.

    Works for devices with measured tables in the [silicon] extra, and with --measurements for any
    device: 20 to 500 of your own rows adjust the parameters of other devices.

    Args:
        system: Device with measured tables, such as h200_sxm.
        operator: Operator to fit, repeatable; by default all with rows.
        kernel_family: Engine that provides the kernels, repeatable; by default all.
        folder: Folder for SYSTEM.toml; by default your own calibrations, which are read first.
        json: Print one JSON object.
    """
    if system == "power":
        raise UsageError(
            "the energies of events are fitted in a clone of the repository of perfatlas:"
            " `python -m validation energies`, or with all scores `make validate`"
        )
    flags = own or MeasurementFlags()
    if system is not None and flags.device is not None:
        raise UsageError(f"two devices: {system!r} and --device {flags.device!r}; set one")
    device = system if flags.device is None else flags.device
    if device is None:
        raise UsageError(
            "missing device: set --system, as in `perfatlas calibrate h200_sxm`, or --device with"
            " --measurements"
        )
    if flags.measurements is not None:
        if operator or kernel_family or folder:
            raise UsageError(
                "--operator, --kernel-family and --folder apply only to measured tables; with"
                " --measurements the rows determine what is fitted; write it with --output"
            )
        return _calibrate_rows(flags.measurements, device, flags.output, json=json)
    if flags.device is not None:
        raise UsageError(
            "--device needs --measurements; to refit from measured tables:"
            f" perfatlas calibrate {device}"
        )
    if flags.output is not None:
        raise UsageError("--output needs --measurements; with measured tables use --folder")
    return _calibrate_tables(
        device, tuple(operator or ()), tuple(kernel_family or ()), folder, json=json
    )


def _calibrate_tables(
    system: str,
    operators: tuple[str, ...],
    families: tuple[str, ...],
    folder: Path | None,
    *,
    json: bool,
) -> int:
    from perfatlas.fitting import calibrate
    from perfatlas.measurements.calibrations import user_calibration_folder

    fitted = calibrate(
        system,
        operators=operators,
        families=families,
        folder=Path(folder) if folder is not None else None,
        progress=_progress,
    )
    rows = [_row(calibration) for calibration in fitted]
    if json:
        set_fields = {
            "system": system,
            "operator": list(operators) or None,
            "kernel_family": list(families) or None,
        }
        print_json(envelope("calibrate", results={"calibrations": rows}, scenario=set_fields))
        return 0
    from perfatlas.report.text import open_terminal, print_rows

    print_rows(open_terminal(sys.stdout), rows)
    where = folder or user_calibration_folder()
    sys.stdout.write(f"\nwrote {where / f'{system}.toml'}\n")
    if folder is None:
        sys.stdout.write("it takes precedence over the shipped calibrations; remove it to revert\n")
    return 0


def _calibrate_rows(measurements: Path, device: str, output: Path | None, *, json: bool) -> int:
    from perfatlas.fitting import calibrate_measurements

    report = calibrate_measurements(measurements, device, output)
    cells = [_change(report, change) for change in report.changes]
    moved = [row for change in report.changes for row in _moved(change)]
    if json:
        set_fields = {"measurements": str(measurements), "device": device}
        results = {
            "device": report.device,
            "rows": report.rows,
            "data_hash": report.data_hash,
            "file": report.file or None,
            "used": report.used,
            "written": list(report.written),
            "cells": cells,
            "moved": moved,
        }
        print_json(
            envelope("calibrate", results=results, scenario=set_fields, warnings=report.warnings)
        )
        return 0
    from perfatlas.report.text import open_terminal, print_rows

    console = open_terminal(sys.stdout)
    print_rows(console, cells, columns=SHOWN)
    print_rows(console, moved, title="\nchanged parameters")
    for warning in report.warnings:
        sys.stderr.write(f"perfatlas: {warning}\n")
    where = f"wrote {report.file}" if report.file else "nothing written; see column kept"
    sys.stdout.write(f"\nbefore, after: mean error on held-out rows\n{where}\n")
    return 0


def _change(report: MeasurementReport, change: CellChange) -> dict[str, Any]:
    """Return one line per cell, with errors on held-out rows."""
    before, after = change.before, change.after
    name = f"{change.operator}/{change.family}/{change.format}"
    return {
        "cell": name,
        "rows": change.rows,
        "groups": change.groups,
        "prior": change.prior,
        "mape_before": round(before.mape, 4) if before else None,
        "mape_after": round(after.mape, 4) if after else None,
        "median_before": round(before.median_error, 4) if before else None,
        "median_after": round(after.median_error, 4) if after else None,
        "kept": change.reason or change.kept,
        "written": f"{report.device}/{name}" in report.written,
        "left_out": sum(change.left_out.values()),
    }


def _moved(change: CellChange) -> list[dict[str, Any]]:
    name = f"{change.operator}/{change.family}/{change.format}"
    return [
        {"cell": name, "parameter": parameter, "before": before, "after": after}
        for parameter, (before, after) in change.moved.items()
    ]


def _row(calibration: Calibration) -> dict[str, Any]:
    return {
        "id": calibration.id,
        "rows": calibration.rows,
        "median_error": calibration.median_error,
        "p90_error": calibration.p90_error,
    }


def _progress(calibration: Calibration) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(f"fitted {calibration.id}: median {100 * calibration.median_error:.1f}%\n")
