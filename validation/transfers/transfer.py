"""Stored transfer errors: devices priced with each other's parameters."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from perfatlas.files import format_toml, write_atomic
from perfatlas.fitting import transfer_quantiles, write_calibrations
from perfatlas.fitting.cells import MEASURED_DEVICES, cells_by_key, device_cells
from perfatlas.measurements import calibrations
from validation.scoring import SAMPLE_ROWS, Kin

if TYPE_CHECKING:
    from collections.abc import Sequence

HEADER: Final = (
    f"# Rows of each device (a sample of at most {SAMPLE_ROWS:,}) priced with the parameters of\n"
    "# every other one: mean |ln(measured/predicted)| and quantiles of ln(measured/predicted).\n"
    "# They choose the donor of an unmeasured device and tell its interval\n"
    "# (perfatlas.measurements.calibrations). Written by\n"
    "# validation.transfers.refresh_transfer() from data/calibrations and the tables of\n"
    "# aiconfigurator-core 0.12.0 (Apache-2.0).\n\n"
)


def refresh_transfer(operators: Sequence[str] = ()) -> None:
    """Update the stored transfers from calibrations and tables, then all transfer quantiles.

    Run this whenever a shipped calibration changes.

    Args:
        operators: Operators to refresh; all by default.

    Raises:
        MissingDependencyError: The measured tables are not installed.
    """
    found: dict[str, list[dict[str, Any]]] = {}
    for key, cells in sorted(cells_by_key(MEASURED_DEVICES, operators).items()):
        found.setdefault(key[0], []).extend(transfer_rows(Kin(cells=cells)))
    for operator, rows in found.items():
        write_atomic(calibrations.transfer_path(operator), HEADER + format_toml({"transfer": rows}))
    calibrations.load_transfers.cache_clear()
    for device in MEASURED_DEVICES:
        path = calibrations.calibration_folder() / f"{device}.toml"
        known = calibrations.read_calibrations(path)
        for cell in device_cells(device, operators):
            if cell.id in known:
                known[cell.id] = replace(
                    known[cell.id], transfer_quantiles=transfer_quantiles(cell)
                )
        write_calibrations(path, known)


def transfer_rows(kin: Kin) -> list[dict[str, Any]]:
    """Return the stored rows of an operator, family and format: one per calibrated device.

    Args:
        kin: The cell on all devices.
    """
    devices = sorted(device for device in kin.cells if kin.calibration(device) is not None)
    pairs = kin.pairs(devices)
    rows = []
    for device in devices:
        donors = [donor for donor in devices if donor != device]
        lent = [pairs[device, donor] for donor in donors]
        rows.append(
            {
                "family": kin.cells[device].family,
                "format": kin.cells[device].format,
                "device": device,
                "data_hash": kin.rows(device).data_hash,
                "donors": donors,
                "error": [pair.error for pair in lent],
                **{
                    name: [pair.quantiles[at] for pair in lent]
                    for at, name in enumerate(calibrations.FIVE)
                },
            }
        )
    return rows
