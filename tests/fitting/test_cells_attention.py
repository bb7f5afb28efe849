from __future__ import annotations

import numpy as np
import pytest

from perfatlas.fitting.cells.attention import attention_cells, decode_grid
from perfatlas.fitting.cells.latent_attention import latent_attention_cells
from perfatlas.measurements.tables import default_kernels, has_silicon

pytestmark = pytest.mark.skipif(
    not has_silicon(), reason="the optional silicon package is not installed"
)


def test_every_cell_has_its_rows_and_beats_the_roofline() -> None:
    cells = attention_cells("h200_sxm") + latent_attention_cells("h200_sxm")
    assert len({cell.id for cell in cells}) == len(cells) == 21
    for cell in cells:
        rows = cell.load()
        assert rows.measured_s.size >= 800
        assert np.all(rows.measured_s > 0)
        assert np.median(rows.measured_s / rows.roofline_s) > 1.0
        for fixed in cell.grid:
            start = {name: part.start for name, part in cell.ranges.items()} | dict(fixed)
            predicted_s = cell.predict(rows.shape_UD[:50], start)
            assert np.all(np.isfinite(predicted_s))
            assert np.all(predicted_s > 0)


def test_side_kernels_are_left_out_and_counted() -> None:
    # SGLang on H200 runs FlashAttention-3; the Triton kernel serves the 512-wide heads it cannot.
    kernels = default_kernels("h200_sxm", "prefill_attention", "sglang")
    assert kernels == {"bf16": "fa3", "fp8+fp8_kv": "fa3"}
    cell = next(
        cell
        for cell in attention_cells("h200_sxm")
        if cell.id == "h200_sxm/prefill_attention/sglang/bf16"
    )
    assert cell.load().excluded == {"kernel triton": 1156}


def test_broken_tables_are_excluded() -> None:
    ids = {cell.id for cell in attention_cells("a100_sxm")}
    assert "a100_sxm/prefill_attention/sglang/bf16" not in ids
    assert "a100_sxm/decode_attention/sglang/bf16" in ids


def test_kernel_rules_follow_the_kernel() -> None:
    assert {grid["packed_group_max"] for grid in decode_grid("b200_sxm", "torch_flow")} == {32.0}
    assert {grid["unpacked_group_max"] for grid in decode_grid("b200_sxm", "torch_flow")} == {0.0}
    assert {grid["unpacked_group_max"] for grid in decode_grid("h200_sxm", "torch_flow")} == {1.0}
    assert {grid["unpacked_window"] for grid in decode_grid("l40s", "vllm_flash_attn_fa2")} == {1.0}
