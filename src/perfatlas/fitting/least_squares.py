"""Fitting of few positive parameters to measured times."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from perfatlas.operators import FloatArray

Predict = Callable[[FloatArray], FloatArray]

STEP = 0.35  # size of the first simplex, in ln(parameter)
PENALTY = 10.0  # loss per squared e-fold outside the bounds: soft, so that the simplex can turn


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
