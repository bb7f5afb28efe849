"""Interpolation of residuals among measured neighbours.

Shape legend: U unique shapes, R measured rows, F coordinates, K neighbours, N near neighbours.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from perfatlas.operators import FloatArray, IntArray

NEIGHBOURS: Final = 16
IN_MEDIAN: Final = 8  # nearest neighbours used for the median
MIN_DISTANCE: Final = 1e-6  # rows closer than this count as the same shape
APART: Final = 1e-5  # between two rows of one shape, so that they share its weight
TIE: Final = 1e-9  # of the weight: halves equal to this are exact ones
AT_ONCE: Final = 4096  # shapes per batch, to limit memory


def expected_at(
    rows_RF: FloatArray, residual_R: FloatArray, distance_UK: FloatArray, index_UK: IntArray
) -> FloatArray:
    """Return the interpolated residual (U,).

    Args:
        rows_RF: Coordinates of the rows (R, F).
        residual_R: Their residuals (R,).
        distance_UK: Distances to the nearest rows, nearest first (U, K).
        index_UK: Indices of the nearest rows (U, K).
    """
    expected_U = np.empty(index_UK.shape[0])
    for first in range(0, expected_U.size, AT_ONCE):
        some = slice(first, first + AT_ONCE)
        near_UKF = rows_RF[index_UK[some]]
        square_UK = (near_UKF**2).sum(axis=2)
        product_UKK = near_UKF @ near_UKF.transpose(0, 2, 1)
        square_UKK = square_UK[:, :, None] + square_UK[:, None, :] - 2.0 * product_UKK
        between_UKK = np.sqrt(np.maximum(square_UKK, 0.0))
        residual_UK = residual_R[index_UK[some]]
        expected_U[some] = interpolate(distance_UK[some], residual_UK, between_UKK)
    return expected_U


def interpolate(
    distance_UK: FloatArray, residual_UK: FloatArray, between_UKK: FloatArray
) -> FloatArray:
    """Return the interpolated residual (U,), within the range of the neighbours.

    Average of the kriging mean and the inverse-distance-weighted median of the nearest eight: the
    mean accounts for clustered neighbours, the median is robust to rows of another kernel and bad
    measurements. A neighbour at distance zero has all the weight.

    Args:
        distance_UK: Distances, nearest first (U, K).
        residual_UK: Residuals of the neighbours (U, K).
        between_UKK: Distances between neighbours (U, K, K).

    Source: ordinary kriging with a linear variogram (Chiles and Delfiner, Geostatistics, 2nd ed.,
        chapter 3). Selected on groups of rows of a100_sxm, h200_sxm, b200_sxm and l40s that are
        not used to report errors.

    Example:
        >>> import numpy as np
        >>> from perfatlas.measurements.residuals.interpolation import interpolate
        >>> between = np.array([[[0.0, 1.0], [1.0, 0.0]]])
        >>> near = interpolate(np.array([[0.0, 1.0]]), np.array([[0.3, 0.9]]), between)
        >>> round(float(near[0]), 4)
        0.3
    """
    mean_U = (_kriging_weights(distance_UK, between_UKK) * residual_UK).sum(axis=1)
    mean_U = np.clip(mean_U, residual_UK.min(axis=1), residual_UK.max(axis=1))
    median_U = _median(distance_UK[:, :IN_MEDIAN], residual_UK[:, :IN_MEDIAN])
    expected_U: FloatArray = 0.5 * (mean_U + median_U)
    return expected_U


def _kriging_weights(distance_UK: FloatArray, between_UKK: FloatArray) -> FloatArray:
    """Return the kriging weights, which sum to 1 and minimize the expected squared error (U, K)."""
    count, neighbours = distance_UK.shape
    left = np.ones((count, neighbours + 1, neighbours + 1))
    each = np.arange(neighbours)
    left[:, :neighbours, :neighbours] = between_UKK + APART
    left[:, each, each] = 0.0
    left[:, neighbours, neighbours] = 0.0
    right = np.ones((count, neighbours + 1, 1))
    right[:, :neighbours, 0] = np.where(distance_UK < MIN_DISTANCE, 0.0, distance_UK + APART)
    solved: FloatArray = np.linalg.solve(left, right)[:, :neighbours, 0]
    return solved


def _median(distance_UN: FloatArray, residual_UN: FloatArray) -> FloatArray:
    """Return the inverse-distance-weighted median (U,)."""
    weight_UN = 1.0 / np.maximum(distance_UN, MIN_DISTANCE)
    order_UN = np.argsort(residual_UN, axis=1)
    rising_UN = np.take_along_axis(residual_UN, order_UN, axis=1)
    share_UN = np.cumsum(np.take_along_axis(weight_UN, order_UN, axis=1), axis=1)
    half_U1 = (0.5 - TIE) * share_UN[:, -1:]  # exact halves are frequent on grids: the lower one
    middle_U = np.argmax(share_UN >= half_U1, axis=1)
    median_U: FloatArray = rising_UN[np.arange(middle_U.size), middle_U]
    return median_U
