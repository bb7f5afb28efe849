from __future__ import annotations

import numpy as np
import pytest

from perfatlas.measurements.tables import has_silicon, table_rows, table_versions

needs_silicon = pytest.mark.skipif(
    not has_silicon(), reason="the measured tables of the extra silicon are not installed"
)


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
def test_rows_that_are_not_one_ranks_share_are_left_out_and_counted() -> None:
    rows = table_rows("b200_sxm", "moe", "sglang", "fp8_block")
    reason = "balanced load of a model whose router is not balanced"
    assert rows.excluded[reason] == 1053
    deepseek = (rows.columns["experts"] == 256.0) & (rows.columns["hidden"] == 7168.0)
    assert np.all(rows.columns["skew"][deepseek] > 0.0)
    believed = table_rows("b200_sxm", "moe", "trtllm", "fp8_block").excluded
    assert believed[reason] == 0
    assert believed["choices of other ranks computed as well"] == 0


@needs_silicon
def test_a_table_of_a_collector_that_shared_nothing_out_keeps_single_ranks() -> None:
    rows = table_rows("a100_sxm", "moe", "sglang", "bf16")
    assert set(rows.columns["ep"].tolist()) == {1.0}
    assert rows.excluded["choices of other ranks computed as well"] == 30456


@needs_silicon
def test_models_without_a_gate_have_two_matrices() -> None:
    rows = table_rows("b200_sxm", "moe", "sglang", "bf16")
    without = rows.columns["matrices"] == 2.0
    assert set(rows.columns["hidden"][without].tolist()) == {2048.0, 2688.0, 8192.0}
    assert set(rows.columns["top_k"][without].tolist()) == {6.0, 22.0}
    assert set(rows.columns["matrices"][~without].tolist()) == {3.0}
