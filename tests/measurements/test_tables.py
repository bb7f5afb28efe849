from __future__ import annotations

import numpy as np
import pytest

from perfatlas.measurements import TableRows, has_silicon, table_rows, table_versions
from perfatlas.measurements.tables import doubtful_rows
from perfatlas.quantities import UnsupportedError

needs_silicon = pytest.mark.skipif(
    not has_silicon(), reason="the measured tables of perfatlas[silicon] are not installed"
)


def moe_rows(balanced_s: float, skewed_s: float) -> TableRows:
    columns = {
        "hidden": np.full(4, 7168.0),
        "intermediate": np.full(4, 2048.0),
        "experts": np.full(4, 256.0),
        "top_k": np.full(4, 8.0),
        "tokens": np.array([4096.0, 4096.0, 64.0, 4096.0]),
        "ep": np.array([8.0, 8.0, 8.0, 1.0]),
        "moe_tp": np.ones(4),
        "skew": np.array([0.0, 1.2, 0.0, 0.0]),
    }
    times = np.array([balanced_s, skewed_s, 1e-4, 1e-2])
    return TableRows(columns, times, "1.0", "sha256:0", {})


def test_a_balanced_load_slower_than_a_skewed_one_is_doubted_with_all_batches_of_its_model() -> (
    None
):
    # 3 ms balanced against 2 ms on the busiest rank of a skewed load; one rank has nothing to skew
    assert doubtful_rows(moe_rows(3e-3, 2e-3)).tolist() == [True, False, True, False]


def test_a_balanced_load_faster_than_a_skewed_one_is_believed() -> None:
    assert not doubtful_rows(moe_rows(1.9e-3, 2e-3)).any()


@needs_silicon
@pytest.mark.parametrize(
    ("family", "format_name", "copies", "shared", "inside"),
    [
        ("vllm", "bf16", {6.0}, 1.0, 0.0),
        ("vllm", "fp8_dynamic", {6.0}, 1.0, 1.0),
        ("sglang", "bf16", {6.0}, 0.0, 0.0),
        ("trtllm", "bf16", {1.0, 2.0, 3.0, 4.0, 5.0}, 1.0, 0.0),
    ],
)
def test_rows_carry_their_protocol(
    family: str, format_name: str, copies: set[float], shared: float, inside: float
) -> None:
    rows = table_rows("h200_sxm", "gemm", family, format_name)
    assert set(np.unique(rows.columns["copies"]).tolist()) == copies
    assert set(rows.columns["shared_activation"].tolist()) == {shared}
    assert set(rows.columns["quantize"].tolist()) == {inside}
    assert np.all(rows.measured_s > 0)
    # 50 MB of cache over a bf16 weight of 8192 x 8192: 134 MB need no second copy
    big = (rows.columns["n"] == 8192) & (rows.columns["k"] == 8192)
    assert rows.shape_table(("m", "n", "k"))[big][:, 1:].tolist() == [[8192.0, 8192.0]] * big.sum()
    if family == "trtllm":
        assert set(rows.columns["copies"][big].tolist()) == {1.0}


@needs_silicon
def test_a_version_is_explicit_and_changes_the_hash() -> None:
    versions = table_versions("h200_sxm", "moe", "sglang")
    assert {"0.5.10", "0.5.14"} <= set(versions)
    old, new = (table_rows("h200_sxm", "moe", "sglang", "bf16", v) for v in ("0.5.10", "0.5.14"))
    assert (old.version, new.version) == ("0.5.10", "0.5.14")
    assert old.data_hash != new.data_hash


@needs_silicon
def test_a_format_or_version_without_rows_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="no measured gemm rows of nvfp4"):
        table_rows("a100_sxm", "gemm", "vllm", "nvfp4")
    with pytest.raises(UnsupportedError, match=r"version 9\.9"):
        table_rows("h200_sxm", "gemm", "vllm", "bf16", "9.9")


@needs_silicon
def test_balanced_rows_of_one_model_are_doubted_on_several_ranks() -> None:
    rows = table_rows("b200_sxm", "moe", "sglang", "fp8_block")
    doubted = doubtful_rows(rows)
    assert int(doubted.sum()) == 891
    assert set(rows.columns["experts"][doubted].tolist()) == {256.0}
    assert np.all(rows.columns["ep"][doubted] > 1.0)
    assert not doubtful_rows(table_rows("b200_sxm", "moe", "trtllm", "fp8_block")).any()
