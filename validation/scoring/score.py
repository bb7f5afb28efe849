"""The score of a cell under a protocol: errors, intervals and simpler models."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.sampling import error_statistics
from validation.scoring.intervals import WIDTHS, interval_score
from validation.scoring.protocols import FEW_ROWS, Kin, score_rows

if TYPE_CHECKING:
    from validation.scoring.protocols import Scored

DIGITS: Final = 4


@dataclass(frozen=True, kw_only=True)
class CellScore:
    """One calibration cell scored on measured rows; errors are fractions.

    Args:
        cell: "<device>/<operator>/<family>/<format>".
        system: The device.
        operator, family, format: As in the cell; the family is the measured engine.
        version: Version of that engine.
        protocol: Validation protocol; see `validation.scoring.protocols.score_rows`.
        known_rows: Rows of this device used in the fit.
        sources: Source devices of the parameters.
        rows: Number of rows.
        mape, median_error, p90_error, bias: Errors of the physics model.
        roofline_mape: Error of max(FLOP/peak, bytes/bandwidth).
        inside_90: Share of rows inside the predicted 90% interval; None without one.
        interval_score: Mean Winkler score of that interval in ln(time): its width plus 20 times
            the distance of each miss.
        constant_width_score: Mean score of the interval that holds 90% of the rows of the fit.
        half_width: Half of the interval's width as a fraction of the prediction.
        data_hash: Hash of the measured table.
    """

    cell: str
    system: str
    operator: str
    family: str
    format: str
    version: str
    protocol: str
    known_rows: int
    sources: tuple[str, ...]
    rows: int
    mape: float
    median_error: float
    p90_error: float
    bias: float
    roofline_mape: float
    inside_90: float | None
    interval_score: float | None
    constant_width_score: float | None
    half_width: float | None
    data_hash: str


def score_cell(
    kin: Kin, device: str, protocol: str = "own", count: int = FEW_ROWS
) -> CellScore | str:
    """Return the score of a device's cell, or the reason for none.

    Args:
        protocol: Validation protocol.
        count: Rows of a few-shot fit.
    """
    scored = score_rows(kin, device, protocol, count)
    if isinstance(scored, str):
        return scored
    cell, rows = kin.cells[device], scored.rows
    errors = error_statistics(scored.predicted_s, rows.measured_s)
    return CellScore(
        cell=cell.id,
        system=device,
        operator=cell.operator,
        family=cell.family,
        format=cell.format,
        version=rows.version,
        protocol=protocol,
        known_rows=scored.known_rows,
        sources=scored.sources,
        rows=errors.rows,
        mape=round(errors.mape, DIGITS),
        median_error=round(errors.median_error, DIGITS),
        p90_error=round(errors.p90_error, DIGITS),
        bias=round(errors.bias, DIGITS),
        roofline_mape=round(error_statistics(rows.roofline_s, rows.measured_s).mape, DIGITS),
        **_interval_figures(scored),
        data_hash=rows.data_hash,
    )


def _interval_figures(scored: Scored) -> dict[str, Any]:
    """Return coverage, score and half-width of the interval; None for none."""
    if scored.interval is None:
        return dict.fromkeys(("inside_90", *WIDTHS, "half_width"))
    low, high = scored.interval
    residual = np.log(scored.rows.measured_s / scored.predicted_s)
    return {
        "inside_90": round(float(np.mean((residual >= low) & (residual <= high))), DIGITS),
        "interval_score": round(interval_score(residual, low, high), DIGITS),
        "constant_width_score": round(
            interval_score(residual, *(scored.constant or scored.interval)), DIGITS
        ),
        "half_width": round((exp(high) - exp(low)) / 2.0, DIGITS),
    }
