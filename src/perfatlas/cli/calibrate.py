"""`perfatlas calibrate`: kernel parameters fitted to measured tables."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from perfatlas.cli.envelope import envelope
from perfatlas.cli.output import print_json
from perfatlas.cli.vocabulary import MANY, SWITCH

if TYPE_CHECKING:
    from perfatlas.measurements import Calibration


def calibrate(
    system: str,
    *,
    operator: Annotated[list[str] | None, MANY] = None,
    kernel_family: Annotated[list[str] | None, MANY] = None,
    folder: Path | None = None,
    json: Annotated[bool, SWITCH] = False,
) -> int:
    """Fit kernel parameters to the measured tables of the [silicon] extra; write them as TOML.

    Args:
        system: Device with measured tables, such as h200_sxm.
        operator: Operator to fit, repeatable; by default all that have rows.
        kernel_family: Engine whose kernels to fit, repeatable; by default all.
        folder: Where SYSTEM.toml is written; by default the calibrations perfatlas uses.
        json: Print one JSON object.
    """
    from perfatlas import lab

    fitted = lab.calibrate(
        system,
        operators=tuple(operator or ()),
        families=tuple(kernel_family or ()),
        folder=Path(folder) if folder is not None else None,
        progress=_progress,
    )
    rows = [_row(calibration) for calibration in fitted]
    if json:
        asked = {"system": system, "operator": operator, "kernel_family": kernel_family}
        print_json(envelope("calibrate", results={"calibrations": rows}, scenario=asked))
        return 0
    from perfatlas.report import open_terminal, print_rows

    print_rows(open_terminal(sys.stdout), rows)
    return 0


def _row(calibration: Calibration) -> dict[str, Any]:
    return {
        "id": calibration.id,
        "rows": calibration.rows,
        "median_error": calibration.median_error,
        "p90_error": calibration.p90_error,
    }


def _progress(calibration: Calibration) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(
            f"fitted {calibration.id}: median {100 * calibration.median_error:.1f} %\n"
        )
