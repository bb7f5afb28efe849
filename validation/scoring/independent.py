"""Shipped calibrations against independent measurements, not used in any fit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfatlas.fitting import refit_rows
from perfatlas.hardware import resolve_system
from perfatlas.measurements.tables import read_measured_rows
from validation.scoring.tables import table

if TYPE_CHECKING:
    from pathlib import Path

NOT_MEASURED: Final = "Not measured: the repository has no rows of such a run."
HEADINGS: Final = ("rows of", "cell", "rows", "calibration", "MAPE", "median", "bias")


def independent_check(folder: Path) -> str:
    """Return the errors of the calibrations on our own measurements, or a note without any.

    Args:
        folder: `measurements/` of the repository: <device>/<date>_<suite>/rows.csv.

    Raises:
        InvalidSpecError: A row is invalid.
    """
    lines: list[list[str]] = []
    for path in sorted(folder.glob("*/*/rows.csv")):
        every = read_measured_rows(path)
        device = resolve_system(path.parents[1].name).device
        for change in refit_rows(every.take(every.texts["device"] == device.name), device):
            known = change.before
            figures = (known.mape, known.median_error, known.bias) if known else ()
            lines.append(
                [
                    f"{device.name}, {path.parent.name}",
                    f"{change.operator}/{change.family}/{change.format}",
                    str(change.rows),
                    change.prior or change.reason,
                    *(f"{100 * value:.1f}%" for value in figures),
                    *[""] * (3 - len(figures)),
                ]
            )
    return table(list(HEADINGS), lines) if lines else NOT_MEASURED
