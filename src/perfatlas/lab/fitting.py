"""Fitting of few positive parameters to measured times, and the statistics of what is left."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from perfatlas.operators import FloatArray
from perfatlas.sampling import five_quantiles

Predict = Callable[[FloatArray], FloatArray]

PENALTY = 10.0  # loss per squared e-fold outside the bounds: soft, so that the simplex can turn


@dataclass(frozen=True, kw_only=True)
class ErrorStatistics:
    """How far predictions are from measurements.

    Args:
        rows: Rows compared.
        mape: Mean |predicted - measured| / measured.
        median_error: Median of the same.
        p90_error: 90th percentile of the same.
        bias: Mean ln(predicted/measured).
        residual_quantiles: Quantiles q05, q25, q50, q75, q95 of ln(measured/predicted).
    """

    rows: int
    mape: float
    median_error: float
    p90_error: float
    bias: float
    residual_quantiles: Mapping[str, float]


def error_statistics(predicted_s: FloatArray, measured_s: FloatArray) -> ErrorStatistics:
    """Return the error statistics of predictions against measurements.

    Args:
        predicted_s: Predicted times (U,) [s].
        measured_s: Measured times (U,) [s].

    Returns:
        Relative errors and the quantiles of the log residual.

    Example:
        >>> import numpy as np
        >>> from perfatlas.lab import error_statistics
        >>> round(error_statistics(np.array([1.1, 0.8]), np.array([1.0, 1.0])).mape, 3)
        0.15
    """
    error = np.abs(predicted_s - measured_s) / measured_s
    residual = np.log(measured_s / predicted_s)
    return ErrorStatistics(
        rows=int(measured_s.size),
        mape=float(np.mean(error)),
        median_error=float(np.median(error)),
        p90_error=float(np.quantile(error, 0.9)),
        bias=float(-np.mean(residual)),
        residual_quantiles=five_quantiles(residual),
    )


def fit_parameters(
    predict: Predict,
    measured_s: FloatArray,
    *,
    start: FloatArray,
    low: FloatArray,
    high: FloatArray,
    evaluations: int = 600,
) -> FloatArray:
    """Return the positive parameters with the least mean |ln(predicted/measured)|.

    Nelder-Mead in the logarithms of the parameters, started again once from its own answer (a
    collapsed simplex gets a second chance), with a soft wall at the bounds.

    Args:
        predict: Times (U,) [s] for parameters (P,).
        measured_s: Measured times (U,) [s].
        start: First guess (P,), inside the bounds.
        low: Lower bounds (P,), above 0.
        high: Upper bounds (P,).
        evaluations: Calls of `predict` at most.

    Returns:
        Parameters (P,), clipped into the bounds.

    Source:
        Nelder and Mead, A simplex method for function minimization, 1965.
    """
    from scipy.optimize import minimize

    log_low, log_high = np.log(low), np.log(high)
    log_measured = np.log(measured_s)

    def loss(point: FloatArray) -> float:
        inside = np.clip(point, log_low, log_high)
        wall = float(np.sum((point - inside) ** 2))
        error = np.log(predict(np.exp(inside))) - log_measured
        return float(np.mean(np.abs(error))) + PENALTY * wall

    best = np.clip(np.log(start), log_low, log_high)
    for share in (0.6, 0.4):
        size = best.size
        simplex = np.tile(best, (size + 1, 1))
        for row in range(size):
            step = 0.35 if best[row] + 0.35 <= log_high[row] else -0.35
            simplex[row + 1, row] += step
        answer = minimize(
            loss,
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
    fitted: FloatArray = np.exp(np.clip(best, log_low, log_high))
    return fitted
