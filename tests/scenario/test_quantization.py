"""Quantization of an activation in an answer, and its remark."""

from __future__ import annotations

import pytest

from perfatlas.verbs.kernel import kernel_gemm

ASKED = {"system": "h200_sxm", "m": 4096, "n": 4096, "k": 4096, "kernel_family": "vllm"}


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
