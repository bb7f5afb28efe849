"""Calibrations of library calls: one parameter set per algorithm and vendor, for all devices."""

from __future__ import annotations

import csv
import io
from functools import cache
from math import log
from typing import TYPE_CHECKING, Final

from perfatlas.files import shipped_text
from perfatlas.measurements.calibrations.calibration import Calibration
from perfatlas.measurements.calibrations.matching import (
    KERNEL_FIELDS,
    CalibrationMatch,
    envelope,
    hidden_devices,
    vendor_transfer,
    with_overheads,
)
from perfatlas.measurements.calibrations.transfer import CPU
from perfatlas.measurements.calibrations.user_folder import FIVE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perfatlas.hardware import Device

LIBRARY: Final = "library"  # calibration operator
_DATA: Final = "data/library_kernels.csv"
_PARAMETERS: Final = (
    *("overhead_launch_s", "efficiency_bandwidth", "efficiency_compute", "cycles_per_item"),
    *("cycles_per_byte", "cycles_per_gather", "miss_bytes"),
)
_TEXTS: Final = (
    *("algorithm", "vendor", "operator", "libraries", "devices", "fitted", "data_hash", "sources"),
)
# Half-widths of ln(time) where rows of one device were published: on that device and on others.
# Source: assumption; algorithms with rows of several devices have medians up to 0.4 on those left
# out.
_FEW_ROWS: Final = log(1.25)
_ONE_DEVICE: Final = log(2.0)


def lent_width(width: float, devices: int) -> float:
    """Return the half-width of ln(time) on a device that was not measured.

    Args:
        width: Of devices left out of the fit.
        devices: How many there are.

    Source: assumption: one of n devices left out says what a new one may differ but for 1/(n - 1),
        up to half and twice the time; chosen after the coverage without it had been seen (50 to 93%
        of the rows of algorithms with two devices), so that coverage with it does not test it
        (`python -m validation libraries --json`).

    Example:
        >>> from perfatlas.measurements.calibrations import lent_width
        >>> lent_width(0.2, 2), lent_width(0.2, 5), lent_width(1.0, 2)
        (0.4, 0.25, 1.0)
    """
    return max(width, min(width * (1.0 + 1.0 / max(devices - 1, 1)), _ONE_DEVICE))


@cache
def _library_rows() -> Mapping[tuple[str, str], Mapping[str, str]]:
    rows = csv.DictReader(io.StringIO(shipped_text(_DATA)))
    return {(row["algorithm"], row["vendor"]): row for row in rows}


def library_match(device: Device, algorithm: str) -> CalibrationMatch | None:
    """Return the calibration of a library call on a device, None if there is none.

    A device without published rows has the parameters of the others of its vendor, or of another
    vendor. Its interval is that of devices left out of the fit, the wider side on both, as each
    of few devices may be the faster or the slower one.

    Args:
        algorithm: radix_sort, scan, hash_join, ... as in `operators.LibraryKernel`.

    Source: data/library_kernels.csv; `validation.kernels.libraries`.

    Example:
        >>> from perfatlas.hardware import resolve_system
        >>> from perfatlas.measurements.calibrations import library_match
        >>> library_match(resolve_system("b200_sxm").device, "radix_sort").own
        True
    """
    rows = _library_rows()
    vendors = [vendor for name, vendor in rows if name == algorithm]
    if device.architecture == CPU or not vendors:
        return None
    foreign = device.vendor not in vendors
    row = rows[algorithm, vendors[0] if foreign else device.vendor]
    devices, libraries, notes = row["devices"].split(), row["libraries"], []
    changed = [name for name in device.overridden if name.startswith(KERNEL_FIELDS)]
    seen = device.name in devices and device.name not in hidden_devices()
    own = seen and not changed
    number = {name: float(value) for name, value in row.items() if name not in _TEXTS and value}
    residuals = {name: number[name] for name in FIVE}
    width, quantiles = _FEW_ROWS if own else _ONE_DEVICE, residuals
    apart = max(-number.get("left_out_q05", 0.0), number.get("left_out_q95", 0.0))
    if apart:
        width = 0.0 if own else lent_width(apart, len(devices))
    else:
        notes.append(
            f"{libraries}: measurements of one device are published, {devices[0]}; the interval is"
            " an assumption"
        )
    if width:
        quantiles = envelope([residuals, {**residuals, "q05": -width, "q95": width}])
    if foreign:
        quantiles = envelope([quantiles, vendor_transfer()])
    if changed:
        notes.append(f"{', '.join(changed)} changed; parameters are those of the measured devices")
    if not seen:
        notes.append(
            f"{device.name} has no published {row['operator']}: efficiencies of {libraries} on"
            f" {', '.join(devices)} are used"
        )
    name = device.name if own else devices[0]
    cell = Calibration(
        id=f"{name}/{LIBRARY}/{row['vendor']}/{algorithm}",
        device=name,
        operator=LIBRARY,
        family=row["vendor"],
        format=algorithm,
        parameters={name: number[name] for name in _PARAMETERS},
        rows=int(row["rows"]),
        mape=number["mean_error"],
        median_error=number["median_error"],
        p90_error=number["p90_error"],
        bias=number["bias"],
        residual_quantiles=residuals,
        protocol=f"published: {row['sources']}",
        data_hash=row["data_hash"],
        data_version=libraries,
        fitted=row["fitted"],
        command="python -m validation libraries --write",
    )
    match = CalibrationMatch(
        calibration=cell,
        own=own,
        quantiles={**quantiles, "q50": 0.0},
        notes=tuple(notes),
        other_vendor=foreign,
        own_kernels=seen,
    )
    return with_overheads(match, device)
