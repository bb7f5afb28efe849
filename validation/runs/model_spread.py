"""Spread of measured over predicted steps, of models that the numbers were not fitted to.

Shape legend: R runs, K models.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import t as student

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfatlas.operators import FloatArray


def unfitted_model_interval(
    residual_R: FloatArray, models: Sequence[str], covered: float
) -> tuple[float, float]:
    """Return the ends between which a run of a further model lies with a probability.

    A residual is the mean, a deviation of its model and one of the run. A further model has a
    deviation of its own, so that the variance of its runs is that between models, with what the
    mean of the known ones leaves open, and that within models.

    Args:
        residual_R: ln(measured/predicted) of the fitted runs (R,).
        models: Their models (R,).

    Returns:
        The lower end, at most 0, and the upper end, at least 0.

    Source: Analysis of variance of one random factor with unequal groups; degrees of freedom of a
        sum of variances: Satterthwaite, Biometrics Bulletin 2 (1946), equation 17.
    Limits: Normal deviations. Numbers that were fitted to the runs make the variance too small.

    Example:
        >>> import numpy as np
        >>> low, high = unfitted_model_interval(np.array([0.1, 0.1, -0.1, -0.1]), "aabb", 0.9)
        >>> round(high, 2), round(low, 2)
        (1.09, -1.09)
    """
    names, model_R, count_K = np.unique(
        np.array(list(models)), return_inverse=True, return_counts=True
    )
    runs, groups = len(residual_R), len(names)
    if groups < 2 or runs == groups:
        low, high = np.quantile(residual_R, ((1.0 - covered) / 2.0, (1.0 + covered) / 2.0))
        return min(float(low), 0.0), max(float(high), 0.0)
    mean_K = np.bincount(model_R, residual_R) / count_K
    mean = float(mean_K.mean())
    within = float(((residual_R - mean_K[model_R]) ** 2).sum()) / (runs - groups)
    overall = float(residual_R.mean())
    between = float((count_K * (mean_K - overall) ** 2).sum()) / (groups - 1)
    each = (runs - float((count_K**2).sum()) / runs) / (groups - 1)
    share = (1.0 + 1.0 / groups) / each if between > within else 0.0
    parts = (share * between, (1.0 - share) * within)
    variance = sum(parts)
    if variance == 0.0:
        return min(mean, 0.0), max(mean, 0.0)
    freedom = variance**2 / (parts[0] ** 2 / (groups - 1) + parts[1] ** 2 / (runs - groups))
    half = float(student.ppf((1.0 + covered) / 2.0, freedom)) * variance**0.5
    return min(mean - half, 0.0), max(mean + half, 0.0)
