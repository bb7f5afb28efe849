"""AMD GPUs: the shipped fits are those of the published rows, and services are inside."""

from __future__ import annotations

import math
from typing import Any

import pytest

import perfatlas
from perfatlas.fitting.cells import Cell
from perfatlas.hardware import resolve_system
from perfatlas.measurements.calibrations import find_shipped_calibration, load_calibrations
from validation.machines.amd import FILE, cell_of, table_of
from validation.machines.amd_experts import FILE as EXPERTS, expert_cells
from validation.machines.amd_services import question_of
from validation.runs.shared_data import missing_data, shared_folder

PRODUCT: dict[str, Any] = {"system": "mi355x", "m": 4096, "n": 8192, "k": 8192}
NEEDS_DATA = pytest.mark.skipif(
    not (shared_folder() / FILE).is_file(), reason=missing_data(shared_folder() / FILE)
)


@NEEDS_DATA
@pytest.mark.parametrize("dtype", ["bf16", "fp8", "fp8 blockscale", "fp4 blockscale"])
def test_shipped_cells_have_the_errors_that_they_state(dtype: str) -> None:
    cell, rows = cell_of("mi355x", dtype), table_of("mi355x", dtype).rows
    shipped = load_calibrations("mi355x")[cell.id]
    error_U = abs(cell.predict(rows.shape_UD, shipped.parameters) / rows.measured_s - 1.0)
    assert sorted(error_U)[error_U.size // 2] == pytest.approx(shipped.median_error, abs=0.01)
    assert shipped.data_hash == rows.data_hash


def test_formats_that_were_not_measured_are_those_of_the_relative() -> None:
    device = resolve_system("mi325x").device
    own = find_shipped_calibration(device, "gemm", "vllm", "fp8_block")
    lent = find_shipped_calibration(device, "gemm", "vllm", "bf16")
    assert own is not None
    assert lent is not None
    assert own.calibration.id == "mi300x/gemm/aiter/fp8_block"
    assert lent.calibration.id == "mi355x/gemm/aiter/bf16"


def test_engines_that_call_aiter_have_its_spread_and_no_wider_one() -> None:
    """TensorRT-LLM's kernels, which do not run there, are apart by those of engines."""
    device = resolve_system("mi355x").device
    called, apart = (
        find_shipped_calibration(device, "gemm", family, "bf16") for family in ("sglang", "trtllm")
    )
    assert called is not None
    assert apart is not None
    assert called.quantiles == called.calibration.residual_quantiles
    assert called.quantiles["q95"] < apart.quantiles["q95"]


def test_kernels_of_another_vendor_are_slower_and_wider() -> None:
    device = resolve_system("mi300x").device
    experts = find_shipped_calibration(device, "moe", "vllm", "bf16")
    attention = find_shipped_calibration(device, "decode_attention", "vllm", "bf16")
    assert experts is not None
    assert attention is not None
    lender = load_calibrations(experts.calibration.device)[experts.calibration.id]
    ratio = (
        experts.calibration.parameters["overhead_launch_s"] / lender.parameters["overhead_launch_s"]
    )
    assert ratio == pytest.approx(math.exp(0.5183), rel=1e-6)
    assert "of other vendors" in experts.notes[0]
    # products are corrected by what was measured; attention is not, so that it may be as slow
    assert attention.quantiles["q95"] >= 1.0363
    lent = load_calibrations(attention.calibration.device)[attention.calibration.id]
    assert attention.calibration.parameters == lent.parameters


def test_a_borrowed_fit_is_no_surer_than_on_its_own_device() -> None:
    widths = {}
    for name in ("mi300x", "mi325x", "mi300x{device.memory.bandwidth=5.4TB/s}"):
        found = perfatlas.kernel_gemm(**{**PRODUCT, "system": name, "format": "fp8_block"}).results
        widths[name] = found["time_s_high"] / found["time_s_low"]
    assert min(widths.values()) == pytest.approx(widths["mi300x"], rel=0.01)


def test_equal_links_have_equal_all_reduces() -> None:
    asked: dict[str, Any] = {"op": "all_reduce", "bytes": 1 << 24, "gpus": 8}
    one, other = (perfatlas.collective(system=name, **asked) for name in ("mi300x", "mi325x"))
    assert one.results["time_s"] == other.results["time_s"]


def test_a_rate_that_no_fp8_product_allows_is_not_compared() -> None:
    row: dict[str, Any] = {
        "machine": "MI355X", "precision": "fp8", "model": "llama2-70b-99.9",
        "metric": "offline_output_tokens_per_s_total",
    }  # fmt: skip
    assert question_of(row) is None
    asked = question_of({**row, "machine": "MI300X"})
    assert asked is not None
    assert (asked["isl"], asked["osl"], asked["format"]) == (294, 294, "fp8")


@pytest.mark.skipif(
    not (shared_folder() / EXPERTS).is_file(), reason=missing_data(shared_folder() / EXPERTS)
)
@pytest.mark.parametrize("cell", expert_cells(), ids=lambda cell: cell.format)
def test_shipped_experts_have_the_errors_that_they_state(cell: Cell) -> None:
    rows = cell.load()
    shipped = load_calibrations("mi355x")[cell.id]
    error_U = abs(cell.predict(rows.shape_UD, shipped.parameters) / rows.measured_s - 1.0)
    assert sorted(error_U)[error_U.size // 2] == pytest.approx(shipped.median_error, abs=0.01)
    assert shipped.data_hash == rows.data_hash


def test_experts_in_four_bits_are_slower_than_their_roofline() -> None:
    few: dict[str, Any] = {"tokens": 8, "hidden": 3072, "intermediate": 1536}
    few |= {"experts": 256, "top_k": 8, "system": "mi355x", "kernel_family": "vllm"}
    results = perfatlas.kernel_moe(**few, format="mxfp4_mxfp4").results
    assert results["time_s"] == pytest.approx(81.8e-6, rel=0.2)  # AITER
    assert results["time_s"] > 1.3 * results["bound_time_s"]
