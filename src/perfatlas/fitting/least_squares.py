"""Fitting of few positive parameters to measured times, and error statistics."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from perfatlas.operators import FloatArray
from perfatlas.sampling import five_quantiles

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

Predict = Callable[[FloatArray], FloatArray]

STEP = 0.35  # size of the first simplex, in ln(parameter)
PENALTY = 10.0  # loss per squared e-fold outside the bounds: soft, so that the simplex can turn


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
        >>> from perfatlas.fitting import error_statistics
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


def fit_parameters(
    predict: Predict,
    measured_s: FloatArray,
    *,
    start: FloatArray,
    low: FloatArray,
    high: FloatArray,
    evaluations: int = 600,
) -> FloatArray:
    """Return the positive parameters that minimise the mean |ln(predicted/measured)|.

    `simplex_search` in the logarithms of the parameters, with a soft penalty at the bounds.

    Args:
        predict: Times (U,) [s] for parameters (P,).
        measured_s: Measured times (U,) [s].
        start: Start values (P,), inside the bounds.
        low: Lower bounds (P,), above 0.
        high: Upper bounds (P,).
        evaluations: Maximum calls of `predict`.

    Returns:
        Parameters (P,), clipped to the bounds.
    """
    log_low, log_high = np.log(low), np.log(high)
    log_measured = np.log(measured_s)

    def loss(point: FloatArray) -> float:
        inside = np.clip(point, log_low, log_high)
        wall = float(np.sum((point - inside) ** 2))
        error = np.log(predict(np.exp(inside))) - log_measured
        return float(np.mean(np.abs(error))) + PENALTY * wall

    first = np.clip(np.log(start), log_low, log_high)
    best = simplex_search(loss, first, log_high, step=STEP, evaluations=evaluations)
    fitted: FloatArray = np.exp(np.clip(best, log_low, log_high))
    return fitted


def simplex_search(
    objective: Callable[[FloatArray], float],
    first: FloatArray,
    high: FloatArray,
    *,
    step: float,
    evaluations: int,
) -> FloatArray:
    """Return the minimum by Nelder-Mead, restarted once from its result.

    The restart recovers from a collapsed simplex.

    Args:
        objective: Objective as a function of ln(parameter) (P,).
        first: Start of the search (P,).
        high: Upper bounds (P,); the first steps stay below them.
        step: Size of the first simplex, in ln(parameter).

    Source:
        Nelder and Mead, A simplex method for function minimization, 1965.
    """
    from scipy.optimize import minimize

    best = first
    for share in (0.6, 0.4):
        simplex = np.tile(best, (best.size + 1, 1))
        simplex[1:] += np.diag(np.where(best + step <= high, step, -step))
        answer = minimize(
            objective,
            best,
            method="Nelder-Mead",
            options={
                "initial_simplex": simplex,
                "maxfev": int(share * evaluations),
                "adaptive": True,
                "xatol": 1e-3,
                "fatol": 1e-6,
            },
        )
        best = np.asarray(answer.x, dtype=np.float64)
    return best
