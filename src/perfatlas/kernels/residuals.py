"""Residuals of physics on measured shapes, and what they say about shapes nearby.

Shape legend: U unique shapes, R measured rows, D shape columns, F coordinates, K neighbours,
B distance bins.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from perfatlas.kernels.shapes import physics_model
from perfatlas.sampling import seeded_subset

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from perfatlas.operators import FloatArray, IntArray

NEIGHBOURS: Final = 8
LEAST_DISTANCE: Final = 1e-6  # a row closer than this is the shape itself
FEW_PAIRS: Final = 4_000_000  # of shapes and rows, up to which comparing all beats a search tree
BINS: Final = 8
FOLDS: Final = 4
SAMPLE: Final = 1500
SEED: Final = 20252
FADE: Final = 2.0  # times the largest distance tried, where nothing of the correction is left
TRUSTS: Final = (0.0, 0.25, 0.5, 0.75, 1.0)
NEAR_BALANCED: Final = -0.1  # skew of a uniform load beside measured ones: near, not the same
LEAST_RATIO: Final = 2.0**-10  # of two columns, in a coordinate


class Axis(NamedTuple):
    """One coordinate of the space in which shapes are near: weight x log2(product / product)."""

    times: tuple[str, ...]
    weight: float = 1.0
    over: tuple[str, ...] = ()
    linear: bool = False


_LATENT: Final = (
    *(Axis(("batch",)), Axis(("q_len",)), Axis(("kv_len",)), Axis(("num_heads",))),
    *(Axis(("kv_lora_rank",), 4.0), Axis(("rope_dim",), 4.0), Axis(("nope_dim",), 4.0)),
    *(Axis(("value_head_dim",), 4.0), Axis(("selected",))),
)
_SCORES: Final = (
    *(Axis(("queries",)), Axis(("q_len",)), Axis(("kv_len",))),
    *(Axis(("num_heads",), 2.0), Axis(("head_dim",), 4.0)),
)
_SCAN: Final = (
    *(Axis(("batch",)), Axis(("q_len",)), Axis(("num_heads",)), Axis(("batch", "num_heads"))),
    Axis(("io_bytes_per_token",), over=("num_heads",)),
)
_CONV: Final = (*(Axis(("batch",)), Axis(("q_len",)), Axis(("channels",)), Axis(("kernel",), 4.0)),)
# Weights were chosen on four devices by the error on shapes left out; what a table holds constant
# keeps a query of another geometry away from its rows.
AXES: Final[Mapping[str, tuple[Axis, ...]]] = {
    "gemm": (Axis(("m",), 2.0), Axis(("n",)), Axis(("k",), 0.5)),
    "moe": (
        Axis(("tokens",), 2.0),
        Axis(("hidden",)),
        Axis(("intermediate",), over=("moe_tp",)),
        Axis(("experts",), over=("ep",)),
        *(Axis(("top_k",)), Axis(("ep",)), Axis(("matrices",), 8.0)),
        Axis(("tokens", "top_k"), over=("experts",)),
        Axis(("skew",), 16.0, linear=True),
    ),
    "prefill_attention": (
        *(Axis(("batch",)), Axis(("q_len",)), Axis(("kv_len",))),
        *(Axis(("num_heads",)), Axis(("num_kv_heads",), 0.5)),
        *(Axis(("head_dim",), 4.0), Axis(("value_head_dim",), 4.0, over=("head_dim",))),
        Axis(("window",), 4.0),
    ),
    "decode_attention": (
        *(Axis(("batch",)), Axis(("q_len",), 2.0), Axis(("kv_len",))),
        *(Axis(("num_heads",), 0.5), Axis(("num_kv_heads",), 0.5)),
        *(Axis(("head_dim",), 2.0), Axis(("value_head_dim",), 4.0, over=("head_dim",))),
        *(Axis(("window",), 2.0), Axis(("batch", "num_kv_heads"))),
        Axis(("num_heads",), over=("num_kv_heads",)),
    ),
    "scan_prefill": (*_SCAN, Axis(("flop_per_token",), 4.0, over=("num_heads",))),
    "scan_decode": (*_SCAN, Axis(("state_bytes",), 4.0, over=("num_heads",))),
    "conv_prefill": _CONV,
    "conv_decode": _CONV,
    "mla_prefill": _LATENT,
    "mla_decode": _LATENT,
    "sparse_mla_prefill": (
        *(Axis(("queries",), 2.0), Axis(("q_len",), 0.5), Axis(("kv_len",), 0.5)),
        *(Axis(("num_heads",)), Axis(("selected",))),
        *(Axis(("kv_lora_rank",), 4.0), Axis(("rope_dim",), 4.0)),
    ),
    "key_scores_prefill": _SCORES,
    "key_scores_decode": _SCORES,
    "key_selection": (
        *(Axis(("queries",)), Axis(("q_len",)), Axis(("kv_len",))),
        *(Axis(("selected",), 4.0), Axis(("kv_len",), over=("selected",))),
    ),
}
# Columns that name a group of rows no part of which a held-out row may see.
GROUPS: Final[Mapping[str, tuple[str, ...]]] = {
    "gemm": ("n", "k"),
    "moe": ("hidden", "intermediate", "experts", "top_k", "ep", "moe_tp"),
    "prefill_attention": ("num_heads", "num_kv_heads", "head_dim", "window"),
    "decode_attention": ("num_heads", "num_kv_heads", "head_dim", "window"),
    "mla_prefill": ("num_heads",),
    "mla_decode": ("num_heads",),
    "sparse_mla_prefill": ("queries",),
    "key_scores_prefill": ("queries",),
    "key_scores_decode": ("queries",),
    "key_selection": ("queries",),
    "scan_prefill": ("num_heads",),
    "scan_decode": ("num_heads",),
    "conv_prefill": ("channels",),
    "conv_decode": ("channels",),
}


@dataclass(frozen=True, kw_only=True)
class Residuals:
    """What physics missed on the rows of one cell, and how far that carries.

    Args:
        coordinate_RF: Rows in the space of `AXES` (R, F).
        residual_R: ln(measured / physics of the row's protocol) (R,).
        distance_B: Distances to the nearest row (B,), rising from 0.
        trust_B: Share of the interpolated residual that is believed at that distance (B,).
        low_B, high_B: 5 % and 95 % quantiles of what is then left of the residual (B,).
        reach: Distance beyond which physics answers alone (1,).
        tree: The search tree once it is needed.
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
        """Return distances and rows of the nearest measured shapes (U, K), nearest first."""
        count = min(NEIGHBOURS, self.residual_R.size)
        if query_UF.shape[0] * self.residual_R.size <= FEW_PAIRS:
            return _compare_all(self.coordinate_RF, query_UF, count)
        if not self.tree:
            self.tree.append(_search_tree(self.coordinate_RF))
        return _search(self.tree[0], query_UF, count)


class Correction(NamedTuple):
    """What tier measured makes of physics times (U,): factor, spread in e-folds, and where."""

    factor_U: FloatArray
    low_U: FloatArray
    high_U: FloatArray
    measured_U: NDArray[np.bool_]


def coordinates(operator: str, shape_UD: FloatArray) -> FloatArray:
    """Return shapes in the space in which they are near each other (U, F).

    Args:
        operator: A name of `AXES`.
        shape_UD: Columns of its physics (U, D).
    """
    names = physics_model(operator).shape_names
    column = {name: shape_UD[:, place] for place, name in enumerate(names)}
    space_UF = np.empty((shape_UD.shape[0], len(AXES[operator])))
    for place, axis in enumerate(AXES[operator]):
        value_U = np.prod([column[name] for name in axis.times], axis=0)
        for name in axis.over:
            value_U = value_U / column[name]
        if axis.linear:
            value_U = np.maximum(value_U, NEAR_BALANCED)
        else:
            value_U = np.log2(np.maximum(value_U, LEAST_RATIO if axis.over else 1.0))
        space_UF[:, place] = axis.weight * value_U
    return space_UF


def interpolate(distance_UK: FloatArray, residual_UK: FloatArray) -> FloatArray:
    """Return the residual expected among neighbours (U,).

    Midway between their mean and their median, both weighted with the inverse distance: the mean
    is smoother, the median forgives a row of another kernel or a bad measurement. A neighbour at
    no distance has all the weight.

    Args:
        distance_UK: Distances (U, K).
        residual_UK: Residuals there (U, K).

    Example:
        >>> import numpy as np
        >>> from perfatlas.kernels.residuals import interpolate
        >>> near = interpolate(np.array([[0.0, 1.0]]), np.array([[0.3, 0.9]]))
        >>> round(float(near[0]), 4)
        0.3
    """
    weight_UK = 1.0 / np.maximum(distance_UK, LEAST_DISTANCE)
    weight_UK /= weight_UK.sum(axis=1, keepdims=True)
    mean_U = (weight_UK * residual_UK).sum(axis=1)
    order_UK = np.argsort(residual_UK, axis=1)
    rising_UK = np.take_along_axis(residual_UK, order_UK, axis=1)
    share_UK = np.cumsum(np.take_along_axis(weight_UK, order_UK, axis=1), axis=1)
    middle_U = np.argmax(share_UK >= 0.5 * share_UK[:, -1:], axis=1)
    median_U = rising_UK[np.arange(middle_U.size), middle_U]
    expected_U: FloatArray = 0.5 * (mean_U + median_U)
    return expected_U


def correct(residuals: Residuals, operator: str, shape_UD: FloatArray) -> Correction:
    """Return the correction of the physics times of shapes.

    Args:
        residuals: Of the cell whose parameters the physics used.
        operator: A name of `AXES`.
        shape_UD: Columns of its physics (U, D).
    """
    distance_UK, index_UK = residuals.nearest(coordinates(operator, shape_UD))
    near_U = distance_UK[:, 0]
    expected_U = interpolate(distance_UK, residuals.residual_R[index_UK])
    trust_U = np.interp(near_U, residuals.distance_B, residuals.trust_B)
    measured_U = near_U <= residuals.reach[0]
    return Correction(
        factor_U=np.where(measured_U, np.exp(trust_U * expected_U), 1.0),
        low_U=np.interp(near_U, residuals.distance_B, residuals.low_B),
        high_U=np.interp(near_U, residuals.distance_B, residuals.high_B),
        measured_U=measured_U,
    )


def carry(operator: str, shape_RD: FloatArray, residual_R: FloatArray) -> Residuals:
    """Return residuals with what leaving rows and whole groups out says about distance.

    Each row of a sample is predicted from the others, and from the other groups alone; by the
    distance to the nearest row left, the share of the interpolated residual that would have been
    best and the quantiles of what remained are kept. A measured shape has the narrowest of these
    intervals: tables measure a shape once and do not tell its noise. Beyond the largest distance
    tried the correction fades to physics and its interval.

    Args:
        operator: A name of `AXES`.
        shape_RD: Measured shapes (R, D).
        residual_R: ln(measured / physics) (R,).
    """
    space_RF = coordinates(operator, shape_RD)
    sample = seeded_subset(residual_R.size, SAMPLE, SEED)
    alone = _search(_search_tree(space_RF), space_RF[sample], NEIGHBOURS + 1)
    tried = [_tried(alone[0][:, 1:], residual_R[alone[1][:, 1:]], residual_R[sample])]
    group_R = _groups(operator, shape_RD)
    fold_R = np.random.default_rng(SEED).permutation(int(group_R.max()) + 1)[group_R] % FOLDS
    for fold in range(FOLDS):
        seen, asked = np.flatnonzero(fold_R != fold), sample[fold_R[sample] == fold]
        if seen.size > NEIGHBOURS and asked.size:
            tree = _search_tree(space_RF[seen])
            distance_UK, index_UK = _search(tree, space_RF[asked], NEIGHBOURS)
            tried.append(_tried(distance_UK, residual_R[seen[index_UK]], residual_R[asked]))
    near, expected, actual = (np.concatenate(parts) for parts in zip(*tried, strict=True))
    edges = np.quantile(near, np.linspace(0.0, 1.0, BINS + 1))
    place = np.clip(np.searchsorted(edges, near, side="left") - 1, 0, BINS - 1)
    bins = [place == b for b in range(BINS) if np.any(place == b)]
    trust = [_best_trust(expected[one], actual[one]) for one in bins]
    left = [actual[one] - t * expected[one] for one, t in zip(bins, trust, strict=True)]
    low, high = (np.array([np.quantile(rest, q) for rest in left]) for q in (0.05, 0.95))
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


def no_residuals(operator: str) -> Residuals:
    """Return residuals of a cell without rows: nothing is near, physics answers.

    Args:
        operator: A name of `AXES`.
    """
    none = np.zeros(1)
    return Residuals(
        coordinate_RF=np.zeros((1, len(AXES[operator]))),
        residual_R=none,
        distance_B=none,
        trust_B=none,
        low_B=none,
        high_B=none,
        reach=np.array([-1.0]),
    )


def _tried(
    distance_UK: FloatArray, residual_UK: FloatArray, actual_U: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    return distance_UK[:, 0], interpolate(distance_UK, residual_UK), actual_U


def _best_trust(expected_U: FloatArray, actual_U: FloatArray) -> float:
    """Return the share of expected residuals that leaves the least mean error."""
    return min(TRUSTS, key=lambda share: float(np.mean(np.abs(actual_U - share * expected_U))))


def _groups(operator: str, shape_RD: FloatArray) -> IntArray:
    names = physics_model(operator).shape_names
    columns = [names.index(name) for name in GROUPS[operator]]
    _, group = np.unique(shape_RD[:, columns], axis=0, return_inverse=True)
    return np.asarray(group, np.int64).reshape(-1)


def _compare_all(
    rows_RF: FloatArray, query_UF: FloatArray, count: int
) -> tuple[FloatArray, IntArray]:
    """Return distances and rows of the nearest rows by comparing every pair."""
    square_UR = (rows_RF**2).sum(axis=1) - 2.0 * (query_UF @ rows_RF.T)
    some_UK = np.argpartition(square_UR, count - 1, axis=1)[:, :count]
    distance_UK = np.sqrt(((rows_RF[some_UK] - query_UF[:, None, :]) ** 2).sum(axis=2))
    order_UK = np.argsort(distance_UK, axis=1)
    return (
        np.take_along_axis(distance_UK, order_UK, axis=1),
        np.take_along_axis(some_UK, order_UK, axis=1).astype(np.int64),
    )


def _search_tree(rows_RF: FloatArray) -> Any:  # noqa: ANN401 - scipy carries no types
    from scipy.spatial import cKDTree

    return cKDTree(rows_RF)


def _search(
    tree: Any,  # noqa: ANN401 - scipy carries no types
    query_UF: FloatArray,
    count: int,
) -> tuple[FloatArray, IntArray]:
    """Return distances and rows of the nearest rows from a search tree."""
    distance_UK, index_UK = tree.query(query_UF, k=list(range(1, count + 1)))
    return distance_UK, index_UK.astype(np.int64)
