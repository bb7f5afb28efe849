"""Errors of predictions against measurements."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from perfatlas.sampling.draws import five_quantiles

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import ArrayLike


@dataclass(frozen=True, kw_only=True)
class ErrorStatistics:
    """Errors of predictions relative to measurements."""

    rows: int  # Rows compared
    mape: float  # Mean |predicted - measured| / measured
    median_error: float  # Median of the same
    p90_error: float  # 90th percentile of the same
    bias: float  # Mean ln(predicted/measured)
    # Quantiles q05, q25, q50, q75, q95 of ln(measured/predicted)
    residual_quantiles: Mapping[str, float]


def error_statistics(predicted_s: ArrayLike, measured_s: ArrayLike) -> ErrorStatistics:
    """Return the error statistics of predictions against measurements.

    Args:
        predicted_s: Predicted times (U,) [s].
        measured_s: Measured times (U,) [s].

    Returns:
        Relative errors and the quantiles of the log residual.

    Example:
        >>> from perfatlas.sampling import error_statistics
        >>> round(error_statistics([1.1, 0.8], [1.0, 1.0]).mape, 3)
        0.15
    """
    predicted, measured = (np.asarray(time_s, np.float64) for time_s in (predicted_s, measured_s))
    error = np.abs(predicted - measured) / measured
    residual = np.log(measured / predicted)
    return ErrorStatistics(
        rows=int(measured.size),
        mape=float(np.mean(error)),
        median_error=float(np.median(error)),
        p90_error=float(np.quantile(error, 0.9)),
        bias=float(-np.mean(residual)),
        residual_quantiles=five_quantiles(residual),
    )


def share_inside(low_s: ArrayLike, measured_s: ArrayLike, high_s: ArrayLike) -> float | None:
    """Return the share of rows inside their interval, None for unbounded predictions.

    Args:
        low_s: Low ends (N,) [s].
        measured_s: Measurements (N,) [s].
        high_s: High ends (N,) [s], NaN for none.
    """
    low, measured, high = (np.asarray(s, np.float64) for s in (low_s, measured_s, high_s))
    known = np.isfinite(high)
    if not known.any():
        return None
    return float(np.mean(((low <= measured) & (measured <= high))[known]))
