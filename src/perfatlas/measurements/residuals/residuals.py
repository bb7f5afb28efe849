"""Residuals of a physics model on measured shapes, and corrections of nearby shapes.

Shape legend: U unique shapes, R measured rows, F coordinates, K neighbours, B distance bins.
"""

from __future__ import annotations

import zipfile
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from perfatlas.files import atomic_file, content_hash, user_folder
from perfatlas.measurements.calibrations import load_calibrations, release_calibrations
from perfatlas.measurements.residuals.beyond_rows import EDGE_TRIED, kept_beyond, to_edge
from perfatlas.measurements.residuals.interpolation import MIN_DISTANCE, NEIGHBOURS, expected_at
from perfatlas.measurements.residuals.nearest import all_pairs, nearest_rows, search_tree
from perfatlas.measurements.tables import choose_version, data_hash, table_paths
from perfatlas.quantities import InvalidSpecError
from perfatlas.sampling import seeded_subset

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from numpy.typing import NDArray

    from perfatlas.measurements.calibrations import CalibrationMatch
    from perfatlas.operators import FloatArray, IntArray

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
    return _from_edge(residuals, _within(residuals, edge_UF), outside_U)


def _from_edge(residuals: Residuals, found: Correction, outside_U: FloatArray) -> Correction:
    """Return corrections beyond the edge from those at the edge."""
    edge_U = np.log(found.factor_U)
    kept_U = kept_beyond(edge_U, outside_U)
    measured_U = found.measured_U & ((outside_U <= EDGE_TRIED) | (np.abs(kept_U) > MIN_INTERVAL))
    share_U = np.minimum(outside_U, 1.0)
    low, high = residuals.low_B[-1], residuals.high_B[-1]  # of uncorrected physics
    low_U = np.minimum(found.low_U, share_U * (min(low, 0.0) - kept_U))
    high_U = np.maximum(found.high_U, share_U * (max(high, 0.0) - kept_U))
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
    doubted_U = _outliers(residuals, index_UK[:, 0])
    if not doubted_U.any():
        return plain
    own_U = residuals.residual_R[index_UK[:, 0]]
    others = _corrected(residuals, distance_UK[:, 1:], index_UK[:, 1:])
    left_U = own_U - np.log(others.factor_U)
    wide = others._replace(
        low_U=np.minimum(others.low_U, left_U), high_U=np.maximum(others.high_U, left_U)
    )
    doubted_U &= plain.measured_U
    pairs = zip(wide, plain, strict=True)
    return Correction(*(np.where(doubted_U, one_U, other_U) for one_U, other_U in pairs))


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
    away_V = np.maximum(distance_VK[:, 1], residuals.distance_B[1])
    low_V = np.interp(away_V, residuals.distance_B, residuals.low_B)
    high_V = np.interp(away_V, residuals.distance_B, residuals.high_B)
    missed_V = np.abs(residuals.residual_R[row_V] - np.log(others.factor_U))
    alone_V = distance_VK[:, 1] > MIN_DISTANCE
    doubted_V = alone_V & (missed_V > OUTLIER_INTERVALS * np.maximum(high_V - low_V, MIN_INTERVAL))
    return np.asarray(doubted_V[back_U.reshape(-1)], np.bool_)


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
    tried = [(distance_UK[:, 0], expected_U, residual_R[sample])]
    fold_R = np.random.default_rng(SEED).permutation(int(group_R.max()) + 1)[group_R] % FOLDS
    for fold in range(FOLDS):
        seen, asked = np.flatnonzero(fold_R != fold), sample[fold_R[sample] == fold]
        if seen.size > NEIGHBOURS and asked.size:
            tree = search_tree(space_RF[seen])
            distance_UK, index_UK = nearest_rows(tree, space_RF[asked], NEIGHBOURS, seen.size)
            expected_U = expected_at(space_RF, residual_R, distance_UK, seen[index_UK])
            tried.append((distance_UK[:, 0], expected_U, residual_R[asked]))
    near, expected, actual = (np.concatenate(parts) for parts in zip(*tried, strict=True))
    edges = np.quantile(near, np.linspace(0.0, 1.0, BINS + 1))
    place = np.clip(np.searchsorted(edges, near, side="left") - 1, 0, BINS - 1)
    bins = [place == b for b in range(BINS) if np.any(place == b)]
    trust = [_best_trust(expected[one], actual[one]) for one in bins]
    left = [actual[one] - t * expected[one] for one, t in zip(bins, trust, strict=True)]
    whole = np.arange(near.size) >= sample.size  # predicted without their whole group
    parts = [_widest(rest, whole[one]) for one, rest in zip(bins, left, strict=True)]
    low, high = np.array(parts).T
    tried_most = float(near.max())
    physics_low, physics_high = np.quantile(residual_R, [0.05, 0.95])
    middles = [float(np.median(near[one])) for one in bins]
    return Residuals(
        coordinate_RF=space_RF,
        residual_R=residual_R,
        distance_B=np.array([0.0, *middles, tried_most, FADE * tried_most]),
        trust_B=np.array([1.0, *trust, trust[-1], 0.0]),
        low_B=np.array([low.max(), *low, low[-1], physics_low]),
        high_B=np.array([high.min(), *high, high[-1], physics_high]),
        reach=np.array([FADE * tried_most]),
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
    left = max(min(NEIGHBOURS, count - int(same_U.max())), 1)
    place_UK = np.minimum(same_U[:, None] + np.arange(left), count - 1)
    return (
        np.take_along_axis(distance_UK, place_UK, axis=1),
        np.take_along_axis(index_UK, place_UK, axis=1),
    )


def _widest(left_U: FloatArray, whole_U: NDArray[np.bool_]) -> tuple[float, float]:
    """Return the wider of the quantiles of single held-out rows and of held-out groups.

    At equal distance, a row of a known group is predicted better than one of a new group.
    """
    parts = [left_U, *(left_U[some] for some in (whole_U, ~whole_U) if some.sum() >= MIN_TRIED)]
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
    match: CalibrationMatch, place: tuple[str, str, str], version: str
) -> CalibrationMatch:
    """Return a match with the table whose rows correct it, or with a note why there is none.

    Args:
        match: The calibration of an operator on a device.
        place: Folder, framework and name of its table.
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
        paths = table_paths(cell.device, *place)
        fitted = cell.data_version if cell.data_version in paths else ""
        chosen = version or fitted or choose_version(cell.device, *place) or ""
        if chosen in paths:
            return replace(match, table=(chosen, data_hash(paths[chosen])))
        why = f"no table of {cell.family} {chosen}; available: {', '.join(paths) or 'none'}"
    return replace(match, notes=(*match.notes, f"{cell.id} uses tier physics: {why}"))


def cached_residuals(stated: str, fit: Callable[[], Residuals]) -> Residuals:
    """Return residuals from the user's cache folder, computed and stored if missing.

    Args:
        stated: Everything that they depend on: table, parameters, silicon, code.
        fit: Function that computes them.
    """
    folder = user_folder("cache") / "residuals"
    name = content_hash(stated).removeprefix("sha256:")
    path = folder / f"{name[:32]}.npz"
    found = _read(path)
    if found is None:
        found = fit()
        # If the folder is not writable, the next run only takes a second longer.
        with suppress(OSError, InvalidSpecError):
            folder.mkdir(parents=True, exist_ok=True)
            with atomic_file(path) as scratch, scratch.open("wb") as stream:
                np.savez(stream, **{name: getattr(found, name) for name in SAVED})
    return found


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
