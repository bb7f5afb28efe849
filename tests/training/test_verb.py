"""`perfatlas train`: answers, tables, refusals and text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pytest

from perfatlas.quantities import InfeasibleError
from perfatlas.verbs.train import train

SMALL: Final[Mapping[str, Any]] = {
    "model": "meta-llama/Llama-3.1-8B",
    "system": "h100_sxm",
    "gpus": 8,
    "tp": 2,
    "global_batch": 64,
}


def test_an_answer_holds_together() -> None:
    answer = train(**SMALL)
    results = answer.results
    assert results["gpus"] == 8
    assert results["micro_batches"] == 16
    assert sum(results["waterfall"].values()) == pytest.approx(results["step_time_s"], rel=1e-9)
    assert sum(row["time_s"] for row in answer.breakdown) == pytest.approx(
        results["step_time_s"], rel=1e-9
    )
    tokens = 64 * 4096 / results["step_time_s"] / 8
    assert results["tokens_per_s_per_gpu"] == pytest.approx(tokens)
    for name in ("step_time_s", "tokens_per_s_per_gpu", "mfu", "hfu"):
        assert results[f"{name}_low"] <= results[name] <= results[f"{name}_high"]
    assert results["memory"]["fits"]
    assert any("causal attention" in text for text in answer.evidence.assumptions)


def test_mxfp8_runs_on_tensor_cores_that_scale_blocks() -> None:
    assert train(**{**SMALL, "system": "b200_sxm"}, format="mxfp8").results["mfu"] > 0.0


def test_a_lower_limit_has_no_efficiency_and_no_upper_end() -> None:
    found = train(**SMALL, tier="bound")
    results = found.results
    # H100: the peak of 989.4 TFLOP/s for all model FLOP is a lower limit of the lower limit
    assert 0.85 < results["mfu"] < 1.0
    assert results["step_time_s_low"] == results["step_time_s"]
    assert results["step_time_s_high"] is None
    assert results["mfu_low"] is None
    assert not any("efficiencies and errors" in text for text in found.evidence.assumptions)
    assert results["step_time_s"] < train(**SMALL, engine="ideal").results["step_time_s"]


def test_a_device_without_calibrations_has_no_upper_end() -> None:
    results = train(**{**SMALL, "system": "cpu"}).results
    assert results["step_time_s_high"] is None
    assert results["mfu_low"] is None


def test_advice_does_not_repeat_changes() -> None:
    with pytest.raises(InfeasibleError) as problem:
        train(
            model="Qwen/Qwen3-235B-A22B", system="b200_sxm", gpus=64, tp=8, pp=2, vpp=1, ep=4,
            global_batch=64, recompute="full", gradient_format="fp32",
        )  # fmt: skip
    advice = [set(one.removeprefix("set ").split(" and ")) for one in problem.value.advice]
    assert len(advice) > 1
    for at, one in enumerate(advice):
        assert not any(earlier <= one for earlier in advice[:at])


def test_advice_fits() -> None:
    wanted: dict[str, Any] = {
        "model": "meta-llama/Llama-3.1-70B",
        "system": "h100_sxm",
        "gpus": 64,
        "tp": 4,
        "pp": 4,
        "global_batch": 128,
        "sequence_length": 8192,
    }
    with pytest.raises(InfeasibleError) as problem:
        train(**wanted)
    assert problem.value.memory["fits"] is False
    assert problem.value.advice
    for change in problem.value.advice:
        pairs = [pair.split(" = ") for pair in change.removeprefix("set ").split(" and ")]
        changed = {name: value if name == "recompute" else int(value) for name, value in pairs}
        assert train(**{**wanted, **changed}).results["memory"]["fits"]
