"""Effect on the errors of rows excluded for their measured times."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.fitting import error_statistics
from perfatlas.fitting.cells import cells_by_key
from perfatlas.machines.gpu.moe import MOE_SHAPE
from perfatlas.measurements.calibrations import load_calibrations
from perfatlas.measurements.tables import SLOWER_PART, excluded_moe_rows
from validation.scoring.tables import SHORT_NAMES, Row, about, percent, table

if TYPE_CHECKING:
    from collections.abc import Sequence

SAID_FROM: Final = 0.05  # share of a cell's rows


@dataclass(frozen=True, kw_only=True)
class LeftOut:
    """Rows of a cell excluded for one reason; errors are fractions."""

    about: str  # Operator, family and format, as on the page
    system: str  # Device
    reason: str
    rows: int  # Number of rows
    share: float  # Share of the cell's rows, including those excluded for their times
    mape: float  # Error of the scored rows
    left_mape: float  # Error of these rows, with the same parameters
    with_mape: float  # Error of both together


def left_out_errors(cells: Sequence[Row]) -> list[LeftOut]:
    """Return the errors of excluded rows of expert networks, by cell and reason.

    Args:
        cells: Cells scored with their own calibration.

    Raises:
        MissingDependencyError: The measured tables are not installed.
    """
    scored = [row for row in cells if row["operator"] == "moe"]
    known = cells_by_key(sorted({row["system"] for row in scored}), ("moe",)) if scored else {}
    found: list[LeftOut] = []
    for row in scored:
        cell = known["moe", row["family"], row["format"]][row["system"]]
        parameters = load_calibrations(cell.device)[cell.id].parameters
        left = excluded_moe_rows(cell.device, cell.family, cell.format)
        every = row["rows"] + sum(rows.measured_s.size for rows in left.values())
        for reason, rows in left.items():
            count = rows.measured_s.size
            if not count:
                continue
            shape_UD = np.ascontiguousarray(rows.shape_table(MOE_SHAPE))
            predicted_s = cell.predict(shape_UD, parameters)
            error = error_statistics(predicted_s, rows.measured_s).mape
            joined = (row["rows"] * row["mape"] + count * error) / (row["rows"] + count)
            found.append(
                LeftOut(
                    about=about(row),
                    system=row["system"],
                    reason=reason,
                    rows=count,
                    share=count / every,
                    mape=row["mape"],
                    left_mape=error,
                    with_mape=joined,
                )
            )
    return found


def slow_medians(cells: Sequence[Row], left: Sequence[LeftOut]) -> dict[str, float]:
    """Return cell name -> median MAPE over GPUs including its slow rows.

    Only cells with excluded slow rows.

    Args:
        cells: Cells scored with their own calibration.
        left: From `left_out_errors`.
    """
    slow = {
        (left_out.about, left_out.system): left_out.with_mape
        for left_out in left
        if left_out.reason == SLOWER_PART
    }
    touched = {name for name, _ in slow}
    errors: dict[str, list[float]] = {name: [] for name in sorted(touched)}
    for row in cells:
        if about(row) in touched:
            kept: float = row["mape"]
            errors[about(row)].append(slow.get((about(row), row["system"]), kept))
    return {name: median(values) for name, values in errors.items()}


def left_out_table(left: Sequence[LeftOut]) -> str:
    """Return the cells with more than 5% excluded rows, as Markdown.

    Args:
        left: From `left_out_errors`.
    """
    notes = sorted(
        (left_out for left_out in left if left_out.share > SAID_FROM),
        key=lambda left_out: (left_out.reason, -left_out.share, left_out.about, left_out.system),
    )
    headings = ["GPU", "cell", "left out", "why", "MAPE", "of these rows", "with them"]
    rows = [
        [
            SHORT_NAMES[left_out.system],
            left_out.about,
            f"{percent(left_out.share)}% ({left_out.rows:,})",
            left_out.reason,
            *(percent(value) for value in (left_out.mape, left_out.left_mape, left_out.with_mape)),
        ]
        for left_out in notes
    ]
    return table(headings, rows) if rows else "None."
