"""A release that ran other kernels is priced with them."""

from __future__ import annotations

import pytest

from perfatlas.engines import resolve_engine
from perfatlas.hardware import resolve_system
from perfatlas.measurements.calibrations import find_calibration, release_calibrations
from perfatlas.verbs.estimate import estimate
from perfatlas.verbs.kernel import kernel_moe

EARLIER = "vllm@0.22"
MIXTURE = {"model": "Qwen/Qwen3-235B-A22B", "tp": 4, "batch": 64, "isl": 512, "osl": 64}


@pytest.mark.parametrize(
    ("engine", "kernels"),
    [
        ("vllm@0.11", EARLIER),
        ("vllm@0.19.1", EARLIER),
        ("vllm@0.22.1", EARLIER),
        ("vllm@0.23", "vllm"),
        ("vllm", "vllm"),
        ("trtllm", "trtllm"),
    ],
)
def test_a_release_names_its_kernels(engine: str, kernels: str) -> None:
    assert resolve_engine(engine).kernels == kernels


def matched(system: str, operator: str, format_name: str) -> tuple[str, bool]:
    found = find_calibration(resolve_system(system).device, operator, EARLIER, format_name)
    assert found is not None
    return found.calibration.id, found.own


def test_kernels_of_a_release_are_its_own_lent_or_those_that_did_not_change() -> None:
    assert matched("b200_sxm", "moe", "bf16") == (f"b200_sxm/moe/{EARLIER}/bf16", True)
    assert matched("h100_sxm", "moe", "fp8_block") == (f"h200_sxm/moe/{EARLIER}/fp8_block", False)
    # Triton before and after, and other operators
    assert matched("h200_sxm", "moe", "bf16") == ("h200_sxm/moe/vllm/bf16", True)
    assert matched("b200_sxm", "gemm", "bf16") == ("b200_sxm/gemm/vllm/bf16", True)
    # no device of the architecture has them
    assert matched("l40s", "moe", "fp8_dynamic")[0] == "l40s/moe/vllm/fp8_dynamic"


def test_expert_kernels_of_blackwell_were_slower_before_they_were_replaced() -> None:
    old, new = (
        estimate(**MIXTURE, system="b200_sxm", engine=engine).results["tpot_s"]
        for engine in ("vllm@0.22", "vllm@0.24")
    )
    assert 1.05 < old / new < 2.0


def test_every_calibration_of_a_release_says_what_it_was_fitted_to() -> None:
    cells = release_calibrations(EARLIER)
    assert {cell.data_version for cell in cells.values()} == {"0.19.0", "0.22.0"}
    assert all(cell.median_error < 0.12 and cell.rows > 5000 for cell in cells.values())


def test_experts_that_no_ranks_share_run_triton_under_vllm_on_hopper() -> None:
    layer = {"tokens": 128, "hidden": 2048, "intermediate": 256, "experts": 512, "top_k": 10}
    asked = layer | {"format": "fp8_block", "kernel_family": "vllm"}

    def cell(system: str, ep: int) -> object:
        return kernel_moe(**asked, system=system, ep=ep).breakdown[0]["calibration"]

    for system in ("h100_sxm", "h200_sxm"):
        assert cell(system, 1) == f"{system}/moe/vllm@tp/fp8_block"
        assert cell(system, 8) == f"{system}/moe/vllm/fp8_block"
    assert cell("h20", 1) == "h200_sxm/moe/vllm@tp/fp8_block"  # its relative comes first
    assert cell("b200_sxm", 1) == "b200_sxm/moe/vllm/fp8_block"  # one kernel with and without
