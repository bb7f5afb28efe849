"""Calibration from a user's measured rows: the file written and the changes."""

from __future__ import annotations

import datetime as dt
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from perfatlas import hardware
from perfatlas.files import format_toml, make_folder, write_atomic
from perfatlas.fitting.few_shot import UNCHANGED, refit_rows
from perfatlas.measurements import calibrations
from perfatlas.measurements.tables import read_measured_rows
from perfatlas.quantities import InvalidSpecError, did_you_mean, repr_for_error

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfatlas.fitting.few_shot import CellChange
    from perfatlas.hardware import Device
    from perfatlas.measurements.tables import MeasuredRows

HEADER: Final = (
    "# Kernel calibrations of your own measurements, written by `perfatlas calibrate"
    " --measurements`.\n# docs/calibrate.md describes the fit. Delete this file to undo it.\n\n"
)


@dataclass(frozen=True, kw_only=True)
class MeasurementReport:
    """Changes due to a file of measured rows."""

    device: str
    origin: str
    data_hash: str
    rows: int  # Number of rows of the device
    changes: tuple[CellChange, ...]
    written: tuple[str, ...]  # Ids of the written cells
    file: str  # Calibration file, "" if none was written
    used: bool  # Whether perfatlas uses that file by default
    warnings: tuple[str, ...]  # Warnings for the user


def calibrate_measurements(
    path: str | Path, device_text: str, output: str | Path | None = None
) -> MeasurementReport:
    """Write the calibrations fitted to measured rows and return the changes.

    Args:
        path: CSV, Parquet or JSON Lines file of measured rows; docs/calibrate.md has the schema.
        device_text: Catalog name, or the TOML spec of the user's own device.
        output: Calibration file; by default the one that perfatlas reads for the device.

    Raises:
        InvalidSpecError: A row or the device's spec is invalid, there are no rows of the device,
            over a quarter of a cell's rows are below the speed-of-light time, or the file cannot be
            written.
        UnsupportedError: The device does not multiply in a format of the rows.
    """
    device = _device(device_text)
    every = read_measured_rows(path)
    rows = every.take(every.texts["device"] == device.name)
    if not rows.rows:
        named = sorted(set(every.texts["device"].tolist()))
        raise InvalidSpecError(
            f"measured rows '{path}': no rows of device {device.name!r}; the file has rows of"
            f" {', '.join(named[:8])}{did_you_mean(device.name, named)}"
        )
    changes = refit_rows(rows, device)
    default = calibrations.user_calibration_folder() / f"{device.name}.toml"
    target = default if output is None else Path(output)
    used = target.resolve() == default.resolve()
    written = _write(device, rows, changes, target, used=used)
    return MeasurementReport(
        device=device.name,
        origin=str(path),
        data_hash=rows.data_hash,
        rows=rows.rows,
        changes=changes,
        written=written,
        file=str(target) if written else "",
        used=used and bool(written),
        warnings=(
            *_left_out(changes),
            *_warnings(every, device, default if written and not used else None),
        ),
    )


def _device(text: str) -> Device:
    if "{" in text:
        raise InvalidSpecError(
            f"device {repr_for_error(text)}: expected the measured device: a catalog name, or a"
            " TOML file"
            " with its spec"
        )
    device = hardware.resolve_system(text).device
    if not calibrations.DEVICE_NAME.fullmatch(device.name):
        raise InvalidSpecError(
            f"device {repr_for_error(device.name)}: the name is used as a file name; use at most 64"
            " letters, digits, '_', '-' and '.'"
        )
    return device


def _write(
    device: Device,
    rows: MeasuredRows,
    changes: Sequence[CellChange],
    target: Path,
    *,
    used: bool,
) -> tuple[str, ...]:
    """Write the changed cells, keeping those of earlier rows; return their ids."""
    cells = dict(calibrations.user_calibrations(device.name)) if used else {}
    earlier = set(cells)
    written = []
    for change in changes:
        name = f"{device.name}/{change.operator}/{change.family}/{change.format}"
        if change.reason:
            continue
        cells.pop(name, None)
        if change.kept != UNCHANGED or change.prior != name:
            cells[name] = _calibration(name, device, rows, change)
            written.append(name)
    if not written and set(cells) == earlier:
        return ()
    if used:
        make_folder(target.parent)
    document = {
        "device": device.name,
        "changed": list(device.overridden),
        "calibration": [asdict(cells[name]) for name in sorted(cells)],
    }
    write_atomic(target, HEADER + format_toml(document))
    return tuple(written)


def _calibration(
    name: str, device: Device, rows: MeasuredRows, change: CellChange
) -> calibrations.Calibration:
    before, after = change.before, change.after
    if before is None or after is None:
        raise ValueError(f"{name} was not scored")
    file = Path(rows.origin).name
    stacks = sorted({word for word in rows.texts["stack"].tolist() if word})
    held_out = ", ".join(change.held_out_by)
    return calibrations.Calibration(
        id=name,
        device=device.name,
        operator=change.operator,
        family=change.family,
        format=change.format,
        parameters=dict(change.parameters),
        rows=change.rows,
        mape=round(after.mape, 4),
        median_error=round(after.median_error, 4),
        p90_error=round(after.p90_error, 4),
        bias=round(after.bias, 4),
        residual_quantiles=dict(change.quantiles),
        baselines={"prior_mape": round(before.mape, 4)},
        excluded=dict(change.left_out),
        protocol=f"{calibrations.USER_PROTOCOL}; errors on rows held out by ({held_out}); kept:"
        f" {change.kept}, from {change.prior}",
        data_hash=rows.data_hash,
        data_version=f"{file} ({', '.join(stacks)[:80]})" if stacks else file,
        fitted=dt.datetime.now(tz=dt.UTC).date().isoformat(),
        command=f"perfatlas calibrate --measurements {file} --device {device.name}",
    )


def _left_out(changes: Sequence[CellChange]) -> tuple[str, ...]:
    """Return a sentence per reason for excluded rows of a cell."""
    return tuple(
        f"{change.operator}/{change.family}/{change.format}: {count:,} rows excluded: {why}"
        for change in changes
        for why, count in change.left_out.items()
    )


def _warnings(every: MeasuredRows, device: Device, elsewhere: Path | None) -> tuple[str, ...]:
    notes = []
    others = int((every.texts["device"] != device.name).sum())
    if others:
        notes.append(f"{others} rows of devices other than {device.name} ignored")
    if every.ignored_columns:
        notes.append(f"columns not in the schema, ignored: {', '.join(every.ignored_columns[:20])}")
    if elsewhere:
        notes.append(f"perfatlas uses these calibrations only from {elsewhere}")
    return tuple(notes)
