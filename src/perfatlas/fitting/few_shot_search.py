"""Cross-validation folds and small-sample quantiles for few-shot fits.

Shape legend: N rows, G groups of rows, P fitted parameters.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.sampling import five_quantiles

if TYPE_CHECKING:
    from perfatlas.operators import FloatArray, IntArray

FOLDS: Final = 5
SEED: Final = 20251


def folds(group_N: IntArray) -> IntArray:
    """Return the fold of each row; rows of a group share it (N,)."""
    groups, position_N = np.unique(group_N, return_inverse=True)
    order = np.random.default_rng(SEED).permutation(groups.size)
    fold_G = np.empty(groups.size, dtype=np.int64)
    fold_G[order] = np.arange(groups.size) % FOLDS
    fold_N: IntArray = fold_G[position_N]
    return fold_N


def small_sample_quantiles(residual: FloatArray) -> dict[str, float]:
    """Return five quantiles of residuals, with outer ones widened for a small sample.

    Args:
        residual: ln(measured/predicted) of held-out rows (N,).

    Returns:
        q05 ... q95; the outer two are order statistics (n + 1) 0.05 and (n + 1) 0.95, or the
        extremes where there are too few rows.

    Source:
        Split-conformal prediction: the (n + 1)(1 - a) order statistic covers 1 - a of new rows.
    """
    quantiles = five_quantiles(residual)
    ordered = np.sort(residual)
    last = ordered.size - 1
    tail = int(0.05 * (ordered.size + 1))
    quantiles["q05"] = min(float(ordered[max(tail - 1, 0)]), quantiles["q25"])
    quantiles["q95"] = max(float(ordered[min(last + 1 - tail, last)]), quantiles["q75"])
    return {name: round(value, 4) for name, value in quantiles.items()}
