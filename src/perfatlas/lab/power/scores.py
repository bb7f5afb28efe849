"""Errors of predicted power: floor and scale fitted to some rows, scored on others.

Shape legend: N rows, G groups.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from scipy.optimize import minimize

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfatlas.operators import FloatArray

STARTS: Final = ((1.5, 0.8), (3.0, 0.4))
QUANTILES: Final = (0.05, 0.95)


class Watts(NamedTuple):
    """What power is predicted from, each (N,) [W]."""

    measured: FloatArray
    dynamic: FloatArray
    on: FloatArray
    cap: FloatArray

    def take(self, rows: NDArray[np.bool_]) -> Watts:
        """Return the rows of a mask.

        Args:
            rows: The mask (N,).
        """
        return Watts(*(one[rows] for one in self))

    def predicted(self, floor: float = 1.0, scale: float = 1.0) -> FloatArray:
        """Return the power with a floor and a scale (N,) [W].

        Args:
            floor: Factor on the power without kernels, at least 0.
            scale: Factor on the dynamic power, at least 0.
        """
        return np.minimum(max(floor, 0.0) * self.on + max(scale, 0.0) * self.dynamic, self.cap)


def fit_floor_and_scale(watts: Watts) -> tuple[float, float]:
    """Return the floor and scale of least mean relative error.

    Args:
        watts: Rows of the fit.

    Example:
        >>> import numpy as np
        >>> from perfatlas.lab.power import Watts, fit_floor_and_scale
        >>> dynamic, ones = np.linspace(10.0, 500.0, 20), np.ones(20)
        >>> measured = 2.0 * 100.0 + 0.5 * dynamic
        >>> found = fit_floor_and_scale(Watts(measured, dynamic, 100.0 * ones, 900.0 * ones))
        >>> np.round(found, 2).tolist()
        [2.0, 0.5]
    """

    def error(point: FloatArray) -> float:
        return float(np.abs(watts.predicted(*point) / watts.measured - 1.0).mean())

    found = (minimize(error, start, method="Nelder-Mead") for start in STARTS)
    floor, scale = min(found, key=lambda one: float(one.fun)).x
    return max(float(floor), 0.0), max(float(scale), 0.0)


def held_out(watts: Watts, groups: NDArray[Any]) -> tuple[FloatArray, FloatArray]:
    """Return predictions with floor and scale of all other groups, and whether they hold.

    Args:
        watts: All rows.
        groups: Group of each row (N,).

    Returns:
        Predicted power (N,) [W], and 1 where the reading is inside the 5% to 95% quantiles of
        measured over predicted power of the other groups, else 0 (N,).
    """
    predicted_N, inside_N = np.zeros(groups.shape), np.zeros(groups.shape)
    for group in np.unique(groups):
        own = groups == group
        others = watts.take(~own)
        point = fit_floor_and_scale(others)
        predicted_N[own] = watts.take(own).predicted(*point)
        ends = np.quantile(others.measured / others.predicted(*point), QUANTILES)
        ratio = watts.measured[own] / predicted_N[own]
        inside_N[own] = (ends[0] <= ratio) & (ratio <= ends[1])
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
