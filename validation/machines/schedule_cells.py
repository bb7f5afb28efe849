"""Calibrations of machines whose steps have one or two constants, from the errors of fits."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.files import format_toml, write_atomic
from perfatlas.measurements.calibrations import Calibration, calibration_folder

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

DIGITS: Final = 4
QUANTILES: Final = {"q05": -1.0, "q25": -0.41, "q50": 0.0, "q75": 0.41, "q95": 1.0}  # of a normal
HEADER: Final = "# Fitted to published {}. Written by the command in the entry.\n\n"


def schedule_cell(
    device: str,
    family: str,
    parameters: Mapping[str, float],
    errors: Sequence[float],
    limits: tuple[float, float],
    stated: Mapping[str, Any],
) -> Calibration:
    """Return the calibration of a machine.

    Args:
        family: `dataflow` or `systolic`.
        errors: predicted/measured - 1 of the runs of the machine, their network left out.
        limits: 5% and 95% quantiles of ln(measured / predicted).
        stated: Other fields of `Calibration`.
    """
    absolute_R = np.abs(errors)
    low, high = limits
    return Calibration(
        id=f"{device}/schedule/{family}/any",
        device=device,
        operator="schedule",
        family=family,
        format="any",
        parameters={name: rounded(value) for name, value in parameters.items()},
        rows=len(errors),
        mape=rounded(float(absolute_R.mean())),
        median_error=rounded(float(np.median(absolute_R))),
        p90_error=rounded(float(np.quantile(absolute_R, 0.9))),
        residual_quantiles={
            name: rounded(abs(low if part < 0.0 else high) * part)
            for name, part in QUANTILES.items()
        },
        fitted="2026-11-28",
        **stated,
    )


def write_cells(cells: Iterable[Calibration], what: str) -> None:
    """Write the calibration of each machine.

    Args:
        what: What they are fitted to.
    """
    for cell in cells:
        text = HEADER.format(what) + format_toml({"calibration": [asdict(cell)]})
        write_atomic(calibration_folder() / f"{cell.device}.toml", text)


def rounded(value: float) -> float:
    """Return a value with four significant digits."""
    return float(f"{value:.{DIGITS}g}")
