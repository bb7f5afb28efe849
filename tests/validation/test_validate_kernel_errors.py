"""Kernels known to be predicted badly: how rows become questions."""

from __future__ import annotations

import pytest

from validation.kernels.errors import (
    CHOSEN,
    FILE,
    LAUNCHES,
    question_of,
    scored_apart,
    validate_kernel_errors,
)
from validation.runs.shared_data import missing_data, shared_folder

ROW = {
    "topic": "moe_fp8",
    "kernel": "fused_moe triton (both GEMMs, one layer)",
    "engine": "vLLM",
    "model": "Qwen3-30B-A3B",
    "gpu": "H100 SXM",
    "E": "32 of 256",
    "topk": "8",
    "N": "768",
    "hidden": "2048",
    "M": "16",
    "dtype": "fp8 per-tensor",
    "setting": "tuned",
    "metric": "time",
    "value": "164.64",
    "unit": "us",
    "source": "vllm-project/vllm #24700",
    "notes": "",
}


def test_experts_of_a_rank_are_asked_with_its_share_of_the_choices() -> None:
    question = question_of(ROW)
    assert not isinstance(question, str)
    kind, fields = question
    assert kind == "moe"
    assert fields == {
        "system": "h100_sxm",
        "format": "fp8_static",
        "kernel_family": "vllm",
        "tokens": 16,
        "hidden": 2048,
        "intermediate": 768,
        "experts": 32,
        "top_k": 1,
    }


@pytest.mark.parametrize(
    "changed", [{"gpu": "TPU v7x"}, {"unit": "tok/s"}, {"hidden": ""}, {"setting": "", "dtype": ""}]
)
def test_rows_without_a_question_state_why(changed: dict[str, str]) -> None:
    assert isinstance(question_of(ROW | changed), str)


def test_rows_that_chose_a_rule_and_launches_are_scored_apart() -> None:
    floor = "about 185 us floor at M<=4: launch bound, probably not graph captured (derived)"
    assert scored_apart(ROW) == ""
    assert scored_apart(ROW | {"setting": "old default", "M": "256"}).startswith("loop of vLLM")
    assert scored_apart(ROW | {"notes": floor, "M": "4"}) == LAUNCHES
    assert scored_apart(ROW | {"notes": floor, "M": "8"}) == ""


@pytest.mark.study
@pytest.mark.skipif(
    not (shared_folder() / FILE).is_file(), reason=missing_data(shared_folder() / FILE)
)
def test_topics_keep_their_errors() -> None:
    results = validate_kernel_errors()
    bias = {row["topic"]: row["bias"] for row in results["topics"]}
    assert {chosen for *_, chosen in CHOSEN} <= {row["apart"] for row in results["apart"]}
    scored = sum(row["rows"] for row in results["topics"] + results["apart"])
    assert scored == sum(not row["reason"] for row in results["rows"])
    most = {"moe_fp8": 0.05, "block_fp8": 0.8, "mxfp4": 0.15, "tensorrt": 0.1}
    assert set(bias) == set(most)
    assert all(abs(bias[topic]) < limit for topic, limit in most.items())
