from __future__ import annotations

import numpy as np
import pytest

from perfatlas.fitting.cells.sparse_attention import padding_grid, sparse_attention_cells
from perfatlas.measurements.calibrations import load_calibrations
from perfatlas.measurements.tables import has_silicon, table_rows
from perfatlas.sampling import error_statistics

pytestmark = pytest.mark.skipif(
    not has_silicon(), reason="the optional silicon package is not installed"
)


def test_every_cell_has_its_rows_and_its_calibration_explains_them() -> None:
    cells = sparse_attention_cells("h200_sxm")
    assert sorted(cell.id for cell in cells) == [
        "h200_sxm/key_scores_decode/sglang/fp8",
        "h200_sxm/key_scores_decode/vllm/fp8",
        "h200_sxm/key_scores_prefill/sglang/fp8",
        "h200_sxm/key_selection/sglang/bf16",
        "h200_sxm/sparse_mla_prefill/sglang/bf16",
    ]
    shipped = load_calibrations("h200_sxm")
    for cell in cells:
        rows = cell.load()
        assert np.median(rows.measured_s / rows.roofline_s) > 1.0
        found = shipped[cell.id]
        errors = error_statistics(cell.predict(rows.shape_UD, found.parameters), rows.measured_s)
        assert errors.mape == pytest.approx(found.mape, abs=1e-3)
        assert errors.mape <= 0.12
        assert errors.mape < 0.75 * found.baselines["two_parameter_mape"]


def test_devices_without_tables_have_no_cells() -> None:
    assert sparse_attention_cells("a100_sxm") == ()
    assert sparse_attention_cells("l40s") == ()


def test_heads_are_padded_as_the_architecture_needs() -> None:
    assert padding_grid("h100_sxm") == ({"padded_heads": 64.0},)
    assert padding_grid("gb300") == ({"padded_heads": 128.0},)


def test_rows_that_are_not_the_kernel_in_use_are_left_out_and_counted() -> None:
    scores = table_rows("h200_sxm", "key_scores_prefill", "sglang", "fp8")
    assert scores.excluded == {
        "one query per sequence: engines decode with the paged kernel": 143,
        "score matrix above 32 GiB: computed in pieces": 582,
    }
    assert scores.columns["q_len"].min() > 1.0
    choice = table_rows("h200_sxm", "key_selection", "sglang", "bf16")
    assert choice.excluded == {
        "all scores equal: the slowest case, no ranking has it": 3025,
        "no more keys than are kept: recorded as 0": 1222,
    }
    assert (choice.columns["kv_len"] > 2048).all()


def test_four_tokens_share_a_key_of_the_paged_scores() -> None:
    # 8 sequences of 64 tokens after 1,024: 512 queries, groups of 16 that see 257 to 272 keys.
    rows = table_rows("h200_sxm", "key_scores_decode", "sglang", "fp8")
    column = rows.columns
    found = (column["queries"] == 512) & (column["q_len"] == 16) & (column["kv_len"] == 272)
    assert found.sum() == 1
    # vLLM's collector counts them as one sequence of 512 tokens: 128 queries see 257 to 384 keys.
    rows = table_rows("h200_sxm", "key_scores_decode", "vllm", "fp8")
    column = rows.columns
    found = (column["queries"] == 512) & (column["q_len"] == 128) & (column["kv_len"] == 384)
    assert found.sum() >= 1
    assert set(column["key_sequences"].tolist()) == {1.0}
