from __future__ import annotations

from typing import Any

import pytest

from perfatlas.measurements.tables import has_silicon
from perfatlas.verbs.estimate import estimate

LOAD: dict[str, Any] = {"tp": 8, "batch": 8, "isl": 8192, "osl": 256}


@pytest.mark.parametrize("model", ["deepseek-ai/DeepSeek-V3.2", "zai-org/GLM-5-FP8"])
@pytest.mark.parametrize("system", ["h200_sxm", "b200_sxm"])
@pytest.mark.parametrize("engine", ["sglang", "vllm", "trtllm"])
def test_every_kernel_of_a_sparse_model_has_a_calibration(
    model: str, system: str, engine: str
) -> None:
    answer = estimate(model=model, system=system, engine=engine, **LOAD)
    assert not [text for text in answer.warnings if "no measured kernels" in text]
    priced = {(row["phase"], row["name"]): row["calibration"] for row in answer.breakdown}
    for phase, name, operator in (
        ("prefill", "indexer_scores", "key_scores_prefill"),
        ("decode", "indexer_scores", "key_scores_decode"),
        ("prefill", "indexer_selection", "key_selection"),
        ("decode", "indexer_selection", "key_selection"),
        ("prefill", "latent_attention", "sparse_mla_prefill"),
        ("decode", "latent_attention", "mla_decode"),
    ):
        assert priced[phase, name].startswith(f"{system}/{operator}/"), (phase, name)


def test_an_fp8_cache_is_expanded_by_the_same_kernels() -> None:
    answer = estimate(
        model="deepseek-ai/DeepSeek-V3.2",
        system="h200_sxm",
        engine="sglang",
        kv_format="fp8",
        **LOAD,
    )
    priced = {
        row["phase"]: row["calibration"]
        for row in answer.breakdown
        if row["name"] == "latent_attention"
    }
    assert priced == {
        "prefill": "h200_sxm/sparse_mla_prefill/sglang/bf16",
        "decode": "h200_sxm/mla_decode/sglang/bf16",
    }


@pytest.mark.study
@pytest.mark.skipif(not has_silicon(), reason="the optional silicon package is not installed")
def test_measured_rows_correct_the_scores_the_selection_and_the_attention() -> None:
    answer = estimate(
        model="zai-org/GLM-5-FP8", system="h200_sxm", engine="sglang", tier="measured", **LOAD
    )
    tiers = {(row["phase"], row["name"]): row["tier"] for row in answer.breakdown}
    for name in ("indexer_scores", "indexer_selection", "latent_attention"):
        assert tiers["prefill", name] == "measured", name
