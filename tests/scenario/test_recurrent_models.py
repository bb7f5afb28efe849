"""Models with recurrent mixers use measured kernels and name them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from perfatlas.answer import Answer
from perfatlas.measurements.tables import has_silicon
from perfatlas.verbs.estimate import estimate

QWEN_NEXT = "Qwen/Qwen3-Next-80B-A3B-Instruct"
NEMOTRON = "nvidia/Nemotron-H-8B-Base-8K"
LOAD: dict[str, Any] = {"isl": 4096, "osl": 512, "concurrency": 32, "tp": 2}
H200 = {"system": "h200_sxm", **LOAD}


def rows(answer: Answer, phase: str) -> dict[str, Any]:
    return {row["name"]: row for row in answer.breakdown if row["phase"] == phase}


@pytest.mark.parametrize("engine", ["vllm@0.24", "sglang@0.5.14", "trtllm@1.3", "ideal@1"])
@pytest.mark.parametrize("model", [QWEN_NEXT, "Qwen/Qwen3.5-35B-A3B", NEMOTRON])
def test_scans_and_convolutions_are_priced_by_measured_kernels(model: str, engine: str) -> None:
    answer = estimate(model=model, engine=engine, **H200)
    assert not any("no measured kernels" in warning for warning in answer.warnings)
    for phase in ("prefill", "decode"):
        for name in ("scan", "causal_conv"):
            row = rows(answer, phase)[name]
            assert row["tier"] == "physics"
            assert row["time_s"] > row["bound_time_s"]


def test_only_mamba2_names_substitute_kernels() -> None:
    for model, said in ((QWEN_NEXT, False), (NEMOTRON, True)):
        answer = estimate(model=model, engine="vllm@0.24", **H200)
        assert any("Mamba-2" in line for line in answer.evidence.assumptions) == said
        scan = rows(answer, "prefill")["scan"]
        family = "trtllm" if said else "vllm"
        assert scan["calibration"] == f"h200_sxm/scan_prefill/{family}/bf16"


def test_the_selective_scan_of_mamba_is_still_a_bound() -> None:
    answer = estimate(model="ai21labs/Jamba-v0.1", engine="vllm@0.24", **H200)
    assert rows(answer, "prefill")["scan"]["tier"] == "bound"
    assert rows(answer, "prefill")["causal_conv"]["tier"] == "physics"


def test_decode_states_are_read_and_written_at_the_speed_of_memory() -> None:
    # 36 gated delta net layers x 16 value heads a rank x 128 x 128 states of 4 bytes, read and
    # written for 32 sequences: 2.416 GB, 0.503 ms at 4.8 TB/s. Measured kernels reach 0.85 of it
    # and launch in 4 us: 0.592 + 36 x 0.004 = 0.74 ms.
    answer = estimate(model=QWEN_NEXT, engine="vllm@0.24", **H200)
    scan = rows(answer, "decode")["scan"]
    assert scan["bound_time_s"] == pytest.approx(0.503e-3, rel=2e-3)
    assert scan["time_s"] == pytest.approx(0.74e-3, rel=0.05)
    assert 0.02 < scan["share"] < 0.10


def test_heads_are_divided_over_the_ranks() -> None:
    one, four = (estimate(model=NEMOTRON, engine="vllm@0.24", **H200 | {"tp": tp}) for tp in (1, 4))
    for phase in ("prefill", "decode"):
        whole, part = (rows(answer, phase)["scan"]["time_s"] for answer in (one, four))
        assert whole / 4.0 < part < whole / 2.0


@pytest.mark.skipif(not has_silicon(), reason="the measured tables are not installed")
def test_tier_measured_corrects_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERFATLAS_HOME", str(tmp_path))
    answer = estimate(model=QWEN_NEXT, engine="vllm@0.24", tier="measured", **H200)
    physics = estimate(model=QWEN_NEXT, engine="vllm@0.24", **H200)
    for phase in ("prefill", "decode"):
        for name in ("scan", "causal_conv"):
            row = rows(answer, phase)[name]
            assert row["tier"] == "measured"
            assert row["time_s"] == pytest.approx(rows(physics, phase)[name]["time_s"], rel=0.15)
