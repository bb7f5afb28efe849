"""Quantization of an activation in an answer, and its remark."""

from __future__ import annotations

import pytest

from perfatlas.measurements.tables import has_silicon
from perfatlas.verbs.estimate import estimate
from perfatlas.verbs.kernel import kernel_gemm

ASKED = {"system": "h200_sxm", "m": 4096, "n": 4096, "k": 4096, "kernel_family": "vllm"}
needs_silicon = pytest.mark.skipif(
    not has_silicon(), reason="the measured tables of perfatlas[silicon] are not installed"
)


@pytest.mark.parametrize("tier", ["bound", "physics"])
def test_a_quantization_is_added_and_named(tier: str) -> None:
    excluded = kernel_gemm(**ASKED, format="fp8_dynamic", tier=tier)
    included = kernel_gemm(**ASKED, format="fp8_dynamic", tier=tier, quantization="included")
    assert excluded.results["quantization"] == "excluded"
    assert included.results["quantization"] == "included"
    # 16 bits read and 8 written of every element of the activation, beside those of the product
    more = included.results["activation_bytes"] - excluded.results["activation_bytes"]
    assert more == 4096 * 4096 * 3
    assert included.results["time_s"] >= excluded.results["time_s"]
    assert any("time excludes" in said for said in excluded.evidence.assumptions)
    assert any("time includes" in said for said in included.evidence.assumptions)


@needs_silicon
def test_a_step_names_the_products_whose_quantization_the_engine_absorbs() -> None:
    asked = {"model": "Qwen/Qwen3-8B", "system": "h200_sxm", "batch": 8, "tier": "measured"}
    answer = estimate(**asked, gemm_format="fp8_dynamic", engine="vllm")
    said = [s for s in answer.evidence.assumptions if "share of the corrected sum" in s]
    assert len(said) == 2  # of each phase
    assert "qkv_projection" in said[0]
    plain = estimate(**asked, gemm_format="bf16", engine="vllm")
    assert not any("corrected sum" in said for said in plain.evidence.assumptions)
