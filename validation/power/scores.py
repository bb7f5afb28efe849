"""Errors of predicted power: factors on its parts fitted to some rows, scored on others.

Shape legend: N rows, G groups.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from scipy.optimize import minimize

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfatlas.operators import FloatArray

STARTS: Final = ((1.5, 0.8, 1.0, 0.95), (1.0, 1.0, 2.0, 0.9))
QUANTILES: Final = (0.05, 0.95)
MAX_EVALUATIONS: Final = 1500


class Factors(NamedTuple):
    """Factors on the parts of a power, each at least 0."""

    floor: float = 1.0  # Factor of the power without kernels
    scale: float = 1.0  # Factor of the dynamic power
    active: float = 1.0  # Factor of the power of SMs that are active without useful work
    limit: float = 1.0  # Factor of the power limit, at most 1


UNCHANGED: Final = Factors()


class Watts(NamedTuple):
    """What power is predicted from, each (N,) [W]."""

    measured: FloatArray  # Reading
    dynamic: FloatArray  # Power of useful work
    active: FloatArray  # Power of SMs that are active without useful work
    on: FloatArray  # Power without kernels
    cap: FloatArray  # Power limit

    def take(self, rows: NDArray[np.bool_]) -> Watts:
        """Return the rows of a mask.

        Args:
            rows: The mask (N,).
        """
        return Watts(*(column[rows] for column in self))

    def predicted(self, factors: Factors = UNCHANGED) -> FloatArray:
        """Return the power (N,) [W].

        Args:
            factors: Factors on its parts.
        """
        floor, scale, active, limit = factors
        total = floor * self.on + scale * self.dynamic + active * self.active
        return np.minimum(total, limit * self.cap)


def fit_factors(watts: Watts) -> Factors:
    """Return the factors of least mean relative error.

    Args:
        watts: Rows of the fit.

    Example:
        >>> import numpy as np
        >>> from validation.power import Watts, fit_factors
        >>> dynamic, ones = np.linspace(10.0, 500.0, 20), np.ones(20)
        >>> measured = 2.0 * 100.0 + 0.5 * dynamic
        >>> watts = Watts(measured, dynamic, 0.0 * ones, 100.0 * ones, 900.0 * ones)
        >>> np.round(fit_factors(watts)[:2], 2).tolist()
        [2.0, 0.5]
    """

    def error(point: FloatArray) -> float:
        return float(np.abs(watts.predicted(_factors(point)) / watts.measured - 1.0).mean())

    options = {"maxfev": MAX_EVALUATIONS, "fatol": 1e-5, "xatol": 1e-4}
    found = (minimize(error, start, method="Nelder-Mead", options=options) for start in STARTS)
    return _factors(min(found, key=lambda one: float(one.fun)).x)


def _factors(point: FloatArray) -> Factors:
    floor, scale, active, limit = np.maximum(point, 0.0).tolist()
    return Factors(floor, scale, active, min(limit, 1.0))


def held_out(watts: Watts, groups: NDArray[Any]) -> tuple[FloatArray, FloatArray]:
    """Return predictions with the factors of all other groups, and whether they hold.

    Args:
        watts: All rows.
        groups: Group of each row (N,).

    Returns:
        Predicted power (N,) [W], and 1 where the reading is inside the 5% to 95% quantiles of
        measured over predicted power of the other groups, else 0 (N,). Those groups too are
        predicted with factors of all groups but their own.
    """
    predicted_N, inside_N = np.zeros(groups.shape), np.zeros(groups.shape)
    for group in np.unique(groups):
        own = groups == group
        predicted_N[own] = watts.take(own).predicted(fit_factors(watts.take(~own)))
    ratio_N = watts.measured / predicted_N
    for group in np.unique(groups):
        own = groups == group
        low, high = np.quantile(ratio_N[~own], QUANTILES)
        inside_N[own] = (low <= ratio_N[own]) & (ratio_N[own] <= high)
    return predicted_N, inside_N


def power_error(predicted: FloatArray, measured: FloatArray) -> dict[str, float]:
    """Return the statistics of relative errors.

    Args:
        predicted: Predictions (N,).
        measured: Measurements (N,).
    """
    error = np.abs(predicted / measured - 1.0)
    log = np.log(measured / predicted)
    return {
        "rows": int(error.size),
        "mape": float(error.mean()),
        "median_error": float(np.median(error)),
        "bias": float(-log.mean()),
        "low": float(np.exp(np.quantile(log, QUANTILES[0]))),
        "high": float(np.exp(np.quantile(log, QUANTILES[1]))),
    }
