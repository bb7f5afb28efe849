"""Experts without tuned tiles: which they are by release and device, and the wider interval."""

from __future__ import annotations

from typing import Any

import pytest

from perfatlas.verbs.estimate import estimate

ASKED: dict[str, Any] = {
    "model": "Qwen/Qwen3-235B-A22B",
    "system": "h100_sxm",
    "engine": "vllm@0.11",
    "moe_format": "fp8_block",
    "tp": 8,
    "ep": 8,
    "batch": 8,
    "isl": 500,
    "osl": 100,
}


def remarks(**changes: Any) -> list[str]:  # noqa: ANN401 - fields of any type
    found = estimate(**ASKED | changes).evidence.assumptions
    return [said for said in found if "tuned tiles" in said]


def test_a_shape_without_a_file_is_named() -> None:
    # 128 / 8 = 16 experts of width 1536: no file for an H100 in 0.11.0 or 0.11.1
    assert "16 block-scaled fp8 experts of width 1536" in remarks()[0]
    assert remarks(engine="vllm@0.11.1")


@pytest.mark.parametrize(
    "changes",
    [
        {"engine": "vllm@0.24"},  # 16 rows up to 64 tokens since 2026-02
        {"engine": "sglang"},
        {"moe_format": "bf16"},
        {"system": "b200_sxm"},
        {"system": "h200_sxm", "tp": 4, "ep": 1, "moe_tp": 4},  # 128 experts of 1536 / 4 = 384
    ],
)
def test_tuned_or_other_kernels_are_not(changes: dict[str, Any]) -> None:
    assert remarks(**changes) == []


def test_a_file_counts_from_its_release_on() -> None:
    # DeepSeek-V3: 256 / 8 = 32 experts of width 2048, tuned for an H200 from 0.11.1 on
    asked = {"model": "deepseek-ai/DeepSeek-V3", "system": "h200_sxm"}
    assert remarks(**asked)
    assert remarks(**asked, engine="vllm@0.11.1") == []


def test_the_upper_limit_is_wider_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    untuned, bound = estimate(**ASKED).results, estimate(**ASKED, tier="bound").results
    monkeypatch.setattr("perfatlas.step.gathered._has_default_tiles", lambda _: False)
    tuned = estimate(**ASKED).results
    assert (untuned["tpot_s"], untuned["tpot_s_low"]) == (tuned["tpot_s"], tuned["tpot_s_low"])
    assert untuned["tpot_s_high"] > tuned["tpot_s_high"]
    assert bound["tpot_s"] == estimate(**ASKED, tier="bound").results["tpot_s"]
