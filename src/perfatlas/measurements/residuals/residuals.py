"""Residuals of a physics model on measured shapes, and corrections of nearby shapes.

Measured shapes lie on grids, so that several are often equally far from a shape, and the last digit
of a logarithm, which differs between processors, would select among them.

Shape legend: U unique shapes, R measured rows, F coordinates, K neighbours, B distance bins, N near
neighbours.
"""

from __future__ import annotations

import zipfile
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from perfatlas.files import atomic_file, content_hash, user_folder
from perfatlas.measurements.calibrations import load_calibrations, release_calibrations
from perfatlas.measurements.tables import choose_version, data_hash, table_paths
from perfatlas.quantities import InvalidSpecError
from perfatlas.sampling import seeded_subset

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from numpy.typing import NDArray

    from perfatlas.measurements.calibrations import CalibrationMatch
    from perfatlas.operators import FloatArray, IntArray

    Search = Callable[[FloatArray, int], tuple[FloatArray, IntArray]]

NEIGHBOURS: Final = 16
IN_MEDIAN: Final = 8  # nearest neighbours used for the median
MIN_DISTANCE: Final = 1e-6  # rows closer than this count as the same shape
SHAPE_TOLERANCE: Final = 1e-5  # between two rows of one shape, so that they share its weight
TIE: Final = 1e-9  # of the weight: halves equal to this are exact ones
AT_ONCE: Final = 4096  # shapes per batch, to limit memory


def expected_at(
    rows_RF: FloatArray, residual_R: FloatArray, distance_UK: FloatArray, index_UK: IntArray
) -> FloatArray:
    """Return the interpolated residual (U,)."""
    expected_U = np.empty(index_UK.shape[0])
    for first in range(0, expected_U.size, AT_ONCE):
        batch = slice(first, first + AT_ONCE)
        near_UKF = rows_RF[index_UK[batch]]
        square_UK = (near_UKF**2).sum(axis=2)
        product_UKK = near_UKF @ near_UKF.transpose(0, 2, 1)
        square_UKK = square_UK[:, :, None] + square_UK[:, None, :] - 2.0 * product_UKK
        between_UKK = np.sqrt(np.maximum(square_UKK, 0.0))
        residual_UK = residual_R[index_UK[batch]]
        expected_U[batch] = interpolate(distance_UK[batch], residual_UK, between_UKK)
    return expected_U


def interpolate(
    distance_UK: FloatArray, residual_UK: FloatArray, between_UKK: FloatArray
) -> FloatArray:
    """Return the interpolated residual (U,), within the range of the neighbours.

    Average of the kriging mean and the inverse-distance-weighted median of the nearest eight: the
    mean accounts for clustered neighbours, the median is robust to rows of another kernel and bad
    measurements. A neighbour at distance zero has all the weight.

    Source: ordinary kriging with a linear variogram (Chiles and Delfiner, Geostatistics, 2nd ed.,
        chapter 3). Selected on groups of rows of a100_sxm, h200_sxm, b200_sxm and l40s that are
        not used to report errors.

    Example:
        >>> import numpy as np
        >>> from perfatlas.measurements.residuals.residuals import interpolate
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
    matrix = np.ones((count, neighbours + 1, neighbours + 1))
    diagonal = np.arange(neighbours)
    matrix[:, :neighbours, :neighbours] = between_UKK + SHAPE_TOLERANCE
    matrix[:, diagonal, diagonal] = 0.0
    matrix[:, neighbours, neighbours] = 0.0
    vector = np.ones((count, neighbours + 1, 1))
    vector[:, :neighbours, 0] = np.where(
        distance_UK < MIN_DISTANCE, 0.0, distance_UK + SHAPE_TOLERANCE
    )
    solved: FloatArray = np.linalg.solve(matrix, vector)[:, :neighbours, 0]
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


DIGITS: Final = 11  # decimals of a distance; rows that are equally far to these are a tie
TIED: Final = 8  # further rows looked at first, among which ties with the last one are found


def all_pairs(rows_RF: FloatArray) -> Search:
    """Return a search that compares shapes with all rows."""
    return partial(_compare_all, rows_RF)


def search_tree(rows_RF: FloatArray) -> Search:
    """Return a search of a k-d tree, which takes longer to build than to compare few shapes."""
    from scipy.spatial import cKDTree

    return partial(_search, cKDTree(rows_RF))


def nearest_rows(
    search: Search, query_UF: FloatArray, count: int, rows: int, *, tied: int = TIED
) -> tuple[FloatArray, IntArray]:
    """Return rounded distances and indices of the nearest rows (U, K), ties in order of the rows.

    Args:
        count: Number of neighbours, at most `rows`.

    Example:
        >>> import numpy as np
        >>> from perfatlas.measurements.residuals.residuals import all_pairs, nearest_rows
        >>> rows = np.array([[3.0], [1.0 + 1e-15], [-1.0], [1.0]])
        >>> nearest_rows(all_pairs(rows), np.zeros((1, 1)), 2, 4)[1].tolist()
        [[1, 2]]
    """
    looked_up = min(count + tied, rows)
    distance_UK, index_UK = search(query_UF, looked_up)
    distance_UK = np.round(distance_UK, DIGITS)
    order_UK = np.lexsort((index_UK, distance_UK), axis=1)
    distance_UK = np.take_along_axis(distance_UK, order_UK, axis=1)
    index_UK = np.take_along_axis(index_UK, order_UK, axis=1)
    is_tied_U = distance_UK[:, count - 1] == distance_UK[:, -1]
    nearest = distance_UK[:, :count].copy(), index_UK[:, :count].copy()
    if looked_up < rows and is_tied_U.any():
        further = nearest_rows(search, query_UF[is_tied_U], count, rows, tied=4 * tied)
        for nearest_UK, further_UK in zip(nearest, further, strict=True):
            nearest_UK[is_tied_U] = further_UK
    return nearest


def _compare_all(
    rows_RF: FloatArray, query_UF: FloatArray, count: int
) -> tuple[FloatArray, IntArray]:
    """Return distances and indices of the nearest rows by comparing all pairs."""
    square_UR = (rows_RF**2).sum(axis=1) - 2.0 * (query_UF @ rows_RF.T)
    index_UK = np.argpartition(square_UR, count - 1, axis=1)[:, :count].astype(np.int64)
    distance_UK = np.sqrt(((rows_RF[index_UK] - query_UF[:, None, :]) ** 2).sum(axis=2))
    return distance_UK, index_UK


def _search(
    tree: Any,  # noqa: ANN401 - scipy carries no types
    query_UF: FloatArray,
    count: int,
) -> tuple[FloatArray, IntArray]:
    """Return distances and indices of the nearest rows from a search tree."""
    distance_UK, index_UK = tree.query(query_UF, k=list(range(1, count + 1)))
    return distance_UK, index_UK.astype(np.int64)


EDGE_SPAN: Final = 2.0  # minimum octaves spanned by the rows for a size to be extrapolated
EDGE_TRIED: Final = 2.0  # octaves beyond the rows up to which the full correction is kept
EDGE_LOSS: Final = 0.1  # e-folds lost per octave farther out; times still grow with work


def to_edge(
    rows_RF: FloatArray, query_UF: FloatArray, octave_F: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the nearest shapes within the measured sizes (U, F) and the octaves to them (U,).

    Args:
        octave_F: Length of one octave along extrapolated sizes, 0 along others (F,).

    Example:
        >>> import numpy as np
        >>> from perfatlas.measurements.residuals.residuals import to_edge
        >>> rows, query = np.array([[0.0, 1.0], [8.0, 1.0]]), np.array([[11.0, 2.0]])
        >>> edge, octaves = to_edge(rows, query, np.array([2.0, 1.0]))
        >>> edge.tolist(), octaves.tolist()
        ([[8.0, 2.0]], [1.5])
    """
    min_F, max_F = rows_RF.min(axis=0), rows_RF.max(axis=0)
    follows_F = (octave_F > 0.0) & (max_F - min_F >= EDGE_SPAN * octave_F)
    edge_UF = np.where(follows_F, np.clip(query_UF, min_F, max_F), query_UF)
    octaves_UF = np.abs(query_UF - edge_UF) / np.where(follows_F, octave_F, 1.0)
    return edge_UF, octaves_UF.max(axis=1)


def kept_beyond(edge_U: FloatArray, outside_U: FloatArray) -> FloatArray:
    """Return the correction kept outside the measured sizes (U,) [e-folds].

    Source: outer one and two octaves of each size of matrix products and attention held out on
        a100_sxm, h200_sxm, b200_sxm and l40s (aiconfigurator-core 0.12.0). Mean errors: with the
        full correction 10.0% and 6.0%, losing 0.1 e-folds per octave 12.0% and 8.3%, fading with
        the distance to the nearest row 12.1% and 6.6%, physics only 15.0% and 10.5%. Farther
        extrapolation was not tested; the loss there is an assumption.

    Example:
        >>> import numpy as np
        >>> from perfatlas.measurements.residuals.residuals import kept_beyond
        >>> kept_beyond(np.array([0.5, 0.5, -0.5]), np.array([2.0, 4.0, 9.0])).round(6).tolist()
        [0.5, 0.3, -0.0]
    """
    lost_U = EDGE_LOSS * np.maximum(outside_U - EDGE_TRIED, 0.0)
    kept_U: FloatArray = np.sign(edge_U) * np.maximum(np.abs(edge_U) - lost_U, 0.0)
    return kept_U


FEW_PAIRS: Final = 4_000_000  # maximum pairs of shapes and rows to compare without a tree
BINS: Final = 8
FOLDS: Final = 4
SAMPLE: Final = 1500
SEED: Final = 20252
MIN_TRIED: Final = 30  # minimum rows for quantiles
OUTLIER_INTERVALS: Final = (
    4.0  # a row this many intervals off its neighbours' prediction is an outlier
)
MIN_INTERVAL: Final = 0.01  # e-folds, due to rounding and clocks
FADE: Final = 2.0  # multiple of the largest tested distance at which the correction has faded to 0
TRUSTS: Final = (0.0, 0.25, 0.5, 0.75, 1.0)
SAVED: Final = (
    *("coordinate_RF", "residual_R", "distance_B", "trust_B"),
    *("low_B", "high_B", "reach"),
)


@dataclass(frozen=True, kw_only=True)
class Residuals:
    """Residuals of the physics on the rows of one cell, and their decay with distance.

    Args:
        coordinate_RF: Coordinates of the rows (R, F).
        residual_R: ln(measured / physics of the row's protocol) (R,).
        distance_B: Distances to the nearest row (B,), ascending from 0.
        trust_B: Fraction of the interpolated residual that is applied at that distance (B,).
        low_B, high_B: 5% and 95% quantiles of the remaining residual (B,).
        reach: Distance beyond which physics is not corrected (1,).
        tree: The search tree, once it is needed.
    """

    coordinate_RF: FloatArray
    residual_R: FloatArray
    distance_B: FloatArray
    trust_B: FloatArray
    low_B: FloatArray
    high_B: FloatArray
    reach: FloatArray
    tree: list[Any] = field(default_factory=list, repr=False, compare=False)

    def nearest(self, query_UF: FloatArray) -> tuple[FloatArray, IntArray]:
        """Return distances and indices of the nearest measured shapes (U, K), nearest first."""
        count = min(NEIGHBOURS, self.residual_R.size)
        rows = self.residual_R.size
        if query_UF.shape[0] * rows <= FEW_PAIRS:
            return nearest_rows(all_pairs(self.coordinate_RF), query_UF, count, rows)
        if not self.tree:
            self.tree.append(search_tree(self.coordinate_RF))
        return nearest_rows(self.tree[0], query_UF, count, rows)


class Correction(NamedTuple):
    """Correction of physics times (U,): factor, interval [e-folds], and where it applies."""

    factor_U: FloatArray
    low_U: FloatArray
    high_U: FloatArray
    measured_U: NDArray[np.bool_]


def correct(
    residuals: Residuals, query_UF: FloatArray, octave_F: FloatArray | None = None
) -> Correction:
    """Return the corrections of the physics times of shapes.

    If the nearest row is an outlier, the other neighbours are used and the interval includes that
    row. Beyond the measured sizes, the correction of the nearest shape at the edge is used; within
    one octave, the interval grows to include that of uncorrected physics. Farther out, the
    correction decreases to 0, where physics is not corrected.

    Args:
        residuals: Residuals of the cell whose parameters the physics used.
        query_UF: Coordinates of the shapes (U, F).
        octave_F: Length of one octave along extrapolated sizes, 0 along the others (F,); by default
            1 along all.
    """
    octaves_F = np.ones(query_UF.shape[1]) if octave_F is None else octave_F
    edge_UF, outside_U = to_edge(residuals.coordinate_RF, query_UF, octaves_F)
    edge = _within(residuals, edge_UF)
    edge_U = np.log(edge.factor_U)
    kept_U = kept_beyond(edge_U, outside_U)
    measured_U = edge.measured_U & ((outside_U <= EDGE_TRIED) | (np.abs(kept_U) > MIN_INTERVAL))
    share_U = np.minimum(outside_U, 1.0)
    low, high = residuals.low_B[-1], residuals.high_B[-1]  # of uncorrected physics
    low_U = np.minimum(edge.low_U, share_U * (min(low, 0.0) - kept_U))
    high_U = np.maximum(edge.high_U, share_U * (max(high, 0.0) - kept_U))
    return Correction(
        factor_U=np.where(measured_U, np.exp(kept_U), 1.0),
        low_U=np.where(measured_U, low_U, low),
        high_U=np.where(measured_U, high_U, high),
        measured_U=measured_U,
    )


def _within(residuals: Residuals, query_UF: FloatArray) -> Correction:
    """Return the corrections of shapes within the measured sizes."""
    distance_UK, index_UK = residuals.nearest(query_UF)
    plain = _corrected(residuals, distance_UK, index_UK)
    is_outlier_U = _outliers(residuals, index_UK[:, 0])
    if not is_outlier_U.any():
        return plain
    others = _corrected(residuals, distance_UK[:, 1:], index_UK[:, 1:])
    off_U = residuals.residual_R[index_UK[:, 0]] - np.log(others.factor_U)
    wide = others._replace(
        low_U=np.minimum(others.low_U, off_U), high_U=np.maximum(others.high_U, off_U)
    )
    is_outlier_U &= plain.measured_U
    pairs = zip(wide, plain, strict=True)
    return Correction(*(np.where(is_outlier_U, wide_U, plain_U) for wide_U, plain_U in pairs))


def _corrected(residuals: Residuals, distance_UK: FloatArray, index_UK: IntArray) -> Correction:
    """Return the corrections from neighbours, nearest first."""
    near_U = distance_UK[:, 0]
    expected_U = expected_at(residuals.coordinate_RF, residuals.residual_R, distance_UK, index_UK)
    trust_U = np.interp(near_U, residuals.distance_B, residuals.trust_B)
    measured_U = near_U <= residuals.reach[0]
    return Correction(
        factor_U=np.where(measured_U, np.exp(trust_U * expected_U), 1.0),
        low_U=np.interp(near_U, residuals.distance_B, residuals.low_B),
        high_U=np.interp(near_U, residuals.distance_B, residuals.high_B),
        measured_U=measured_U,
    )


def _outliers(residuals: Residuals, row_U: IntArray) -> NDArray[np.bool_]:
    """Return where a row is an outlier relative to its neighbours (U,).

    Rows that share their shape with another row are never outliers, as they confirm each other.
    """
    row_V, back_U = np.unique(row_U, return_inverse=True)
    distance_VK, index_VK = residuals.nearest(residuals.coordinate_RF[row_V])
    if distance_VK.shape[1] < NEIGHBOURS:
        return np.zeros(row_U.size, np.bool_)
    others = _corrected(residuals, distance_VK[:, 1:], index_VK[:, 1:])
    # Predictions from neighbours start at the second bin; the first is for the row itself.
    distance_V = np.maximum(distance_VK[:, 1], residuals.distance_B[1])
    low_V = np.interp(distance_V, residuals.distance_B, residuals.low_B)
    high_V = np.interp(distance_V, residuals.distance_B, residuals.high_B)
    error_V = np.abs(residuals.residual_R[row_V] - np.log(others.factor_U))
    is_single_V = distance_VK[:, 1] > MIN_DISTANCE
    interval_V = np.maximum(high_V - low_V, MIN_INTERVAL)
    is_outlier_V = is_single_V & (error_V > OUTLIER_INTERVALS * interval_V)
    return np.asarray(is_outlier_V[back_U.reshape(-1)], np.bool_)


def residuals_by_distance(
    space_RF: FloatArray, residual_R: FloatArray, group_R: IntArray
) -> Residuals:
    """Return residuals with error growth by distance, from held-out rows and groups.

    Each row of a sample is predicted from rows of other shapes, and from the other groups only. By
    distance to the nearest remaining row, this yields the optimal fraction of the interpolated
    residual and the quantiles of what remains. Measured shapes get the narrowest of these
    intervals, since tables measure each shape once and do not show noise. Beyond the largest tested
    distance the correction fades to uncorrected physics and its interval.

    Args:
        space_RF: Coordinates of measured shapes (R, F).
        residual_R: ln(measured / physics) (R,).
        group_R: Group of each row, numbered from 0 (R,).
    """
    sample = seeded_subset(residual_R.size, SAMPLE, SEED)
    distance_UK, index_UK = _other_shapes(space_RF, sample)
    expected_U = expected_at(space_RF, residual_R, distance_UK, index_UK)
    predictions = [(distance_UK[:, 0], expected_U, residual_R[sample])]
    fold_R = np.random.default_rng(SEED).permutation(int(group_R.max()) + 1)[group_R] % FOLDS
    for fold in range(FOLDS):
        train, test = np.flatnonzero(fold_R != fold), sample[fold_R[sample] == fold]
        if train.size > NEIGHBOURS and test.size:
            tree = search_tree(space_RF[train])
            distance_UK, index_UK = nearest_rows(tree, space_RF[test], NEIGHBOURS, train.size)
            expected_U = expected_at(space_RF, residual_R, distance_UK, train[index_UK])
            predictions.append((distance_UK[:, 0], expected_U, residual_R[test]))
    near, expected, actual = (np.concatenate(parts) for parts in zip(*predictions, strict=True))
    edges = np.quantile(near, np.linspace(0.0, 1.0, BINS + 1))
    bin_index = np.clip(np.searchsorted(edges, near, side="left") - 1, 0, BINS - 1)
    bins = [bin_index == b for b in range(BINS) if np.any(bin_index == b)]
    trust = [_best_trust(expected[rows], actual[rows]) for rows in bins]
    in_fold = np.arange(near.size) >= sample.size  # predicted without their whole group
    low, high = np.array(
        [
            _widest(actual[rows] - share * expected[rows], in_fold[rows])
            for rows, share in zip(bins, trust, strict=True)
        ]
    ).T
    max_tested = float(near.max())
    physics_low, physics_high = np.quantile(residual_R, [0.05, 0.95])
    middles = [float(np.median(near[rows])) for rows in bins]
    return Residuals(
        coordinate_RF=space_RF,
        residual_R=residual_R,
        distance_B=np.array([0.0, *middles, max_tested, FADE * max_tested]),
        trust_B=np.array([1.0, *trust, trust[-1], 0.0]),
        low_B=np.array([low.max(), *low, low[-1], physics_low]),
        high_B=np.array([high.min(), *high, high[-1], physics_high]),
        reach=np.array([FADE * max_tested]),
    )


def _other_shapes(space_RF: FloatArray, sample_U: IntArray) -> tuple[FloatArray, IntArray]:
    """Return distances and indices of the nearest rows of other shapes (U, K), nearest first.

    Rows of one shape, such as those of two layers that differ in nothing that is a coordinate, say
    nothing about a shape that was not measured.
    """
    _, shape_R, rows_S = np.unique(
        np.round(space_RF / MIN_DISTANCE), axis=0, return_inverse=True, return_counts=True
    )
    same_U = rows_S[shape_R.reshape(-1)[sample_U]]
    count = min(NEIGHBOURS + int(same_U.max()), space_RF.shape[0])
    distance_UK, index_UK = nearest_rows(
        search_tree(space_RF), space_RF[sample_U], count, space_RF.shape[0]
    )
    neighbours = max(min(NEIGHBOURS, count - int(same_U.max())), 1)
    position_UK = np.minimum(same_U[:, None] + np.arange(neighbours), count - 1)
    return (
        np.take_along_axis(distance_UK, position_UK, axis=1),
        np.take_along_axis(index_UK, position_UK, axis=1),
    )


def _widest(rest_U: FloatArray, in_fold_U: NDArray[np.bool_]) -> tuple[float, float]:
    """Return the wider of the quantiles of single held-out rows and of held-out groups.

    At equal distance, a row of a known group is predicted better than one of a new group.
    """
    masks = [mask_U for mask_U in (in_fold_U, ~in_fold_U) if mask_U.sum() >= MIN_TRIED]
    parts = [rest_U, *(rest_U[mask_U] for mask_U in masks)]
    ends = np.array([np.quantile(part, [0.05, 0.95]) for part in parts])
    return float(ends[:, 0].min()), float(ends[:, 1].max())


def no_residuals(axes: int) -> Residuals:
    """Return the residuals of a cell without rows, for which physics is not corrected.

    Args:
        axes: Number of coordinates.
    """
    none = np.zeros(1)
    return Residuals(
        coordinate_RF=np.zeros((1, axes)),
        residual_R=none,
        distance_B=none,
        trust_B=none,
        low_B=none,
        high_B=none,
        reach=np.array([-1.0]),
    )


def number_groups(key_RG: FloatArray) -> IntArray:
    """Return the group number of each row; rows with equal keys share a group (R,).

    Args:
        key_RG: Columns that identify the group (R, G).
    """
    _, group_R = np.unique(key_RG, axis=0, return_inverse=True)
    return np.asarray(group_R, np.int64).reshape(-1)


def with_rows_of(
    match: CalibrationMatch, table_key: tuple[str, str, str], version: str
) -> CalibrationMatch:
    """Return a match with the table whose rows correct it, or with a note why there is none.

    Args:
        match: The calibration of an operator on a device.
        table_key: Folder, framework and name of its table.
        version: Measured version; "" for the version the calibration was fitted on.

    Raises:
        MissingDependencyError: The measured tables are not installed.
    """
    cell = match.calibration
    if not match.own:
        why = "the calibration is a substitute for the kernels of this device"
    elif cell not in (
        load_calibrations(cell.device).get(cell.id),
        release_calibrations(cell.family).get(cell.id),
    ):
        why = "it is a user calibration"
    else:
        paths = table_paths(cell.device, *table_key)
        fitted = cell.data_version if cell.data_version in paths else ""
        chosen = version or fitted or choose_version(cell.device, *table_key) or ""
        if chosen in paths:
            return replace(match, table=(chosen, data_hash(paths[chosen])))
        why = f"no table of {cell.family} {chosen}; available: {', '.join(paths) or 'none'}"
    return replace(match, notes=(*match.notes, f"{cell.id} uses tier physics: {why}"))


def cached_residuals(key: str, fit: Callable[[], Residuals]) -> Residuals:
    """Return residuals from the user's cache folder, computed and stored if missing.

    Args:
        key: Everything that they depend on: table, parameters, silicon, code.
        fit: Function that computes them.
    """
    folder = user_folder("cache") / "residuals"
    name = content_hash(key).removeprefix("sha256:")
    path = folder / f"{name[:32]}.npz"
    residuals = _read(path)
    if residuals is None:
        residuals = fit()
        # If the folder is not writable, the next run only takes a second longer.
        with suppress(OSError, InvalidSpecError):
            folder.mkdir(parents=True, exist_ok=True)
            with atomic_file(path) as scratch, scratch.open("wb") as stream:
                np.savez(stream, **{name: getattr(residuals, name) for name in SAVED})
    return residuals


def _read(path: Path) -> Residuals | None:
    """Return cached residuals, None if the file is missing or damaged."""
    if not path.is_file():
        return None
    try:
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as arrays:
            return Residuals(**{name: arrays[name] for name in SAVED})
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        return None


def _best_trust(expected_U: FloatArray, actual_U: FloatArray) -> float:
    """Return the fraction of expected residuals that minimizes the mean error."""
    return min(TRUSTS, key=lambda share: float(np.mean(np.abs(actual_U - share * expected_U))))
