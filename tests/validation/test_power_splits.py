"""The rows that power is fitted to and scored on, as committed before the first fit."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from perfatlas.measurements.tables import has_silicon, read_table
from validation.power import fold_of, power_splits
from validation.runs import read_table as read_shared_table, shared_folder


def test_rows_of_one_geometry_share_a_fold_and_both_folds_occur() -> None:
    geometry = np.repeat(np.array([[h, k, 128, 0] for h in (8, 16, 32, 64) for k in (1, 8)]), 3, 0)
    folds = fold_of(geometry, 2).reshape(-1, 3)
    assert (folds == folds[:, :1]).all()
    assert set(folds[:, 0].tolist()) == {0, 1}


def test_no_study_of_loads_is_fitted_and_scored() -> None:
    loads = power_splits().loads
    assert not set(loads["fitted"]) & set(loads["scored"])


@pytest.mark.skipif(not has_silicon(), reason="the measured tables are not installed")
def test_kernel_tables_have_the_stated_rows_and_watts() -> None:
    kernels = power_splits().kernels
    for name, one in kernels["tables"].items():
        table = read_table(
            kernels["device"], one["folder"], kernels["engine"], name, kernels["version"]
        )
        assert table.rows == one["rows"]
        assert table.data_hash == f"sha256:{one['sha256'][:16]}"
        assert set(one["geometry"]) | {"power"} <= set(table.columns)


def test_served_rows_are_those_of_the_shared_file() -> None:
    served = power_splits().served
    path = shared_folder() / served["file"]
    if not path.is_file():
        pytest.skip(f"{path} is not at hand")
    assert hashlib.sha256(path.read_bytes()).hexdigest() == served["sha256"]
    rows = [row for row in read_shared_table(path) if row["task"] in served["tasks"]]
    found = {gpu: sum(row["gpu"] == gpu for row in rows) for gpu in served["rows"]}
    assert found == served["rows"]
