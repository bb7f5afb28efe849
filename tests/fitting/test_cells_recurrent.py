from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from perfatlas.fitting import row_groups
from perfatlas.fitting.cells import Cell, device_cells
from perfatlas.fitting.device import calibrate_cell
from perfatlas.fitting.few_shot_rows import row_cells
from perfatlas.hardware import resolve_system
from perfatlas.machines.gpu.shapes import physics_model
from perfatlas.measurements import tables
from perfatlas.measurements.calibrations import load_calibrations
from perfatlas.measurements.tables.recurrent_tables import recurrent_mask

pytestmark = pytest.mark.skipif(
    not tables.has_silicon(), reason="the optional silicon package is not installed"
)
OPERATORS = tuple(tables.KERNEL_NAMES)


def cell(device: str, operator: str, family: str) -> Cell:
    (found,) = (c for c in device_cells(device, (operator,)) if c.family == family)
    return found


def test_every_row_of_a_table_belongs_to_one_operator() -> None:
    for family in ("vllm", "sglang", "trtllm"):
        table = tables.read_table("b200_sxm", "linear_attention", family, "gdn_perf")
        masks = np.stack([recurrent_mask(table, name) for name in OPERATORS])
        assert (masks.sum(axis=0) == 1).all()
        for name, mask in zip(OPERATORS, masks, strict=True):
            kernels = set(table.columns["kernel_source"][mask])
            assert kernels == {tables.recurrent_kernel(table, name)}


def test_the_cells_of_a_device() -> None:
    found = {(c.operator, c.family) for c in device_cells("h100_sxm", OPERATORS)}
    assert found == {(o, f) for o in OPERATORS for f in ("vllm", "sglang", "trtllm")}
    # No scan of a prompt was measured on A100; the SGLang table of H200 is excluded.
    older = {(c.operator, c.family) for c in device_cells("a100_sxm", OPERATORS)}
    assert older == {(o, "sglang") for o in OPERATORS if o != "scan_prefill"}
    assert {c.family for c in device_cells("h200_sxm", OPERATORS)} == {"vllm", "trtllm"}


def test_a_row_by_hand() -> None:
    # Qwen3.5: 16 key heads, 64 value heads; 8 sequences of 1,024 tokens.
    prefill = cell("h100_sxm", "scan_prefill", "sglang")
    names = physics_model("scan_prefill").shape_names
    rows = prefill.load()
    shape = dict(zip(names, rows.shape_UD.T, strict=True))
    (at,) = np.flatnonzero(
        (shape["batch"] == 8)
        & (shape["q_len"] == 1024)
        & (shape["num_heads"] == 64)
        & (shape["io_bytes_per_token"] == 2 * (2 * 2048 + 2 * 8192 + 2 * 64))
    )[:1]
    assert shape["state_bytes"][at] == 64 * 128 * 128 * 8
    assert shape["inner_bytes_per_token"][at] == 64 * 256 * 2
    assert shape["hot"][at] == 1.0
    # 8,192 tokens x 64 heads x 181,589.33 FLOP = 95.2 TFLOP/1000 at the sustained peak; memory:
    # inputs and output 8,192 x 41,216 B and states 8 x 8.39 MB.
    compute_s = 8192 * 64 * (6 * 128**2 + 640 * 128 + 4096 / 3) / prefill.silicon.peak
    memory_s = (8192 * 41216 + 8 * 64 * 128 * 128 * 8) / 3.35e12
    assert rows.roofline_s[at] == pytest.approx(max(compute_s, memory_s), rel=1e-3)


@pytest.mark.parametrize("operator", OPERATORS)
def test_groups_are_head_counts_or_channels(operator: str) -> None:
    rows = cell("b200_sxm", operator, "vllm").load()
    names = list(physics_model(operator).shape_names)
    key = rows.shape_UD[:, names.index("num_heads" if "scan" in operator else "channels")]
    group = row_groups(operator, rows)
    for one in range(int(group.max()) + 1):
        assert np.unique(key[group == one]).size == 1
    assert np.unique(group).size >= 10


def test_a_fit_is_what_is_shipped() -> None:
    one = cell("h100_sxm", "scan_decode", "trtllm")
    shipped = load_calibrations("h100_sxm")[one.id]
    fresh = calibrate_cell(one)
    assert fresh.data_hash == shipped.data_hash
    assert fresh.mape == pytest.approx(shipped.mape, abs=2e-3)


ROWS = {
    "scan_prefill": (8, 1024),
    "scan_decode": (8, 1),
    "conv_prefill": (8, 1024),
    "conv_decode": (8, 1),
}


@pytest.mark.parametrize("operator", OPERATORS)
def test_rows_of_a_user_mean_what_rows_of_a_table_mean(operator: str, tmp_path: Path) -> None:
    batch, q_len = ROWS[operator]
    scan = "num_heads,num_key_heads,head_dim,value_head_dim", "64,16,128,128"
    header, values = scan if operator.startswith("scan") else ("channels", "12288")
    path = tmp_path / "rows.csv"
    path.write_text(
        f"device,operator,kernel_family,format,batch,q_len,{header},hot,time_us\n"
        f"h100_sxm,{operator},sglang,bf16,{batch},{q_len},{values},1,9\n"
    )
    (own,) = row_cells(tables.read_measured_rows(path), resolve_system("h100_sxm").device)
    table = cell("h100_sxm", operator, "sglang").load().shape_UD
    assert (np.abs(table / np.maximum(own.shape_ND, 1e-9) - 1.0).max(axis=1) < 1e-9).any()


def test_one_convolution_kernel_whatever_the_channels() -> None:
    # TensorRT-LLM's gated delta net table has 2,048 channels only; its Mamba-2 table times the same
    # kernel with 1,536 to 20,480.
    found = cell("h100_sxm", "conv_prefill", "trtllm")
    table = tables.read_table("h100_sxm", "linear_attention", "trtllm", "mamba2_perf")
    keep = table.columns["kernel_source"] == "causal_conv1d_fn"
    size = {name: np.asarray(table.columns[name][keep], np.float64) for name in SIZES}
    channels = size["nheads"] * size["head_dim"] + 2.0 * size["n_groups"] * size["d_state"]
    ones = np.ones_like(channels)
    shape = np.stack([size["batch_size"], size["seq_len"], channels, 4.0 * ones, ones], axis=1)
    measured_s = table.measured_s()[keep]
    calibration = load_calibrations("h100_sxm")[found.id]
    error = np.abs(found.predict(shape, calibration.parameters) / measured_s - 1.0)
    assert np.unique(channels).size == 5
    assert error.mean() < 0.09


SIZES = ("batch_size", "seq_len", "nheads", "head_dim", "n_groups", "d_state")
