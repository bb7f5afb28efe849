"""Accuracy of formats in the answers of verbs."""

from __future__ import annotations

from typing import Any

from perfatlas import estimate, search
from perfatlas.verbs.accuracy import accuracy, accuracy_columns

MODEL = "meta-llama/Llama-3.1-8B"
SEARCHED: dict[str, Any] = {"model": MODEL, "system": "b200_sxm", "gpus": 1, "isl": 512, "osl": 64}


def test_estimate_agrees_with_accuracy() -> None:
    alone = accuracy(model=MODEL, gemm_format="nvfp4", benchmark="gsm8k").results
    found = estimate(model=MODEL, system="b200_sxm", format="nvfp4", benchmark="gsm8k").results
    for name in ("accuracy_delta", "accuracy_delta_low", "accuracy_delta_high"):
        assert found[name] == alone[name]
    assert "accuracy_delta" not in estimate(model=MODEL, system="b200_sxm").results


def test_search_limits_and_ranks_by_it() -> None:
    limited = search(
        **SEARCHED, formats=("bf16", "fp8", "nvfp4"), max_accuracy_loss=1.0, num_simulated=0
    ).results["plans"]
    assert {plan["gemm_format"] for plan in limited} == {"bf16", "fp8_dynamic"}
    objectives = "request_latency_s,energy_per_output_token_j,usd_per_million_output_tokens"
    front = search(
        **SEARCHED,
        formats=("bf16", "fp8", "nvfp4"),
        objective=f"{objectives},accuracy_delta",
        num_simulated=0,
    ).results["frontier"]
    assert {point["gemm_format"] for point in front} == {"bf16", "fp8_dynamic", "nvfp4"}
    for point in front:
        assert not any(
            all(other[name] < point[name] for name in objectives.split(","))
            and other["accuracy_delta"] > point["accuracy_delta"]
            for other in front
        )


def test_rows_of_a_table_answer_as_alone_or_have_their_error() -> None:
    found = accuracy_columns(
        {"model": [MODEL, MODEL, "no/model"], "gemm_format": ["nvfp4", "fp7", "fp8"]}
    )
    alone = accuracy(model=MODEL, gemm_format="nvfp4").results
    assert found["accuracy_delta"][0] == alone["accuracy_delta"]
    assert found["error_code"] == [None, "unsupported", "invalid"]
