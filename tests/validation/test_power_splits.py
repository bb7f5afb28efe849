"""The rows that power is fitted to and scored on, as committed before the first fit."""

from __future__ import annotations

import numpy as np

from validation.power import fold_of, power_splits


def test_rows_of_one_geometry_share_a_fold_and_both_folds_occur() -> None:
    geometry = np.repeat(np.array([[h, k, 128, 0] for h in (8, 16, 32, 64) for k in (1, 8)]), 3, 0)
    folds = fold_of(geometry, 2).reshape(-1, 3)
    assert (folds == folds[:, :1]).all()
    assert set(folds[:, 0].tolist()) == {0, 1}


def test_no_study_of_loads_is_fitted_and_scored() -> None:
    loads = power_splits().loads
    assert not set(loads["fitted"]) & set(loads["scored"])
