"""Experts without tuned tiles: which they are by release and device, and the wider interval."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from perfatlas.engines import resolve_engine
from perfatlas.hardware import resolve_system
from perfatlas.machines import DeviceColumns
from perfatlas.operators import GroupedGemm, Phase
from perfatlas.step import gathered
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
    # 128 / 8 = 16 experts of width 1536: no file for an H100 in 0.11.0
    assert "16 block-scaled fp8 experts of width 1536" in remarks()[0]
    # 256 experts of 1536 / 8 = 192, whose ranks are too many for DeepGEMM in 0.12
    eight = {"model": "MiniMaxAI/MiniMax-M2", "system": "h100_sxm", "ep": 1, "moe_tp": 8}
    assert remarks(**eight, engine="vllm@0.12")


@pytest.mark.parametrize(
    "changes",
    [
        {"engine": "vllm@0.24"},  # 16 rows up to 64 tokens since 2026-02
        {"engine": "sglang"},
        {"moe_format": "bf16"},
        {"system": "b200_sxm"},
        {"engine": "vllm@0.11.1"},  # DeepGEMM runs all shapes
        {"system": "h200_sxm", "tp": 4, "ep": 1, "moe_tp": 4},  # 128 experts of 1536 / 4 = 384
    ],
)
def test_tuned_or_other_kernels_are_not(changes: dict[str, Any]) -> None:
    assert remarks(**changes) == []


def fused(held: float, width: float, tokens: float, format_name: str) -> GroupedGemm:
    """Return fused experts on one of eight ranks, `held` of them."""
    return GroupedGemm(
        name="experts",
        phase=Phase.DECODE,
        count=np.ones(1),
        tokens=np.full(1, tokens),
        hidden=np.full(1, 4096.0),
        intermediate=np.full(1, width),
        experts=np.full(1, 8.0 * held),
        top_k=np.full(1, 8.0),
        ep=np.full(1, 8.0),
        moe_tp=np.ones(1),
        matrices=3,
        format=format_name,
        weight_bytes_per_element=1.0,
        input_bytes_per_element=1.0,
    )


def on_device(name: str) -> DeviceColumns:
    return DeviceColumns(devices=(resolve_system(name).device,), index_C=np.zeros(1, np.int64))


def test_a_file_counts_from_its_release_on() -> None:
    # DeepSeek-V3: 256 / 8 = 32 experts of width 2048, tuned for an H200 from 0.11.1 on
    experts = fused(32.0, 2048.0, 8.0, "fp8_block")
    untuned = [
        gathered._untuned_experts(experts, resolve_engine(release), on_device("h200_sxm")).tolist()
        for release in ("vllm@0.11", "vllm@0.11.1")
    ]
    assert untuned == [[True], [False]]


@pytest.mark.parametrize(
    ("experts", "device", "engine", "default"),
    [
        ((16.0, 1536.0, 17.0, "bf16"), "h100_sxm", "vllm@0.11.1", True),
        ((16.0, 1536.0, 16.0, "bf16"), "h100_sxm", "vllm@0.11.1", False),  # tiles of 16 rows
        ((16.0, 1536.0, 17.0, "bf16"), "h100_sxm", "vllm@0.24", False),  # since 2026-02
        ((16.0, 1536.0, 17.0, "bf16"), "h100_sxm", "sglang", False),
        ((16.0, 1536.0, 17.0, "bf16"), "b200_sxm", "vllm@0.11.1", False),  # not measured
        ((16.0, 1536.0, 17.0, "fp8_dynamic"), "h100_sxm", "vllm@0.11.1", False),
        ((16.0, 1792.0, 17.0, "bf16"), "h100_sxm", "vllm@0.11", True),
        ((16.0, 1792.0, 17.0, "bf16"), "h100_sxm", "vllm@0.11.1", False),  # tuned since then
    ],
)
def test_more_tokens_than_experts_run_default_tiles(
    experts: tuple[float, float, float, str], device: str, engine: str, *, default: bool
) -> None:
    context: Any = SimpleNamespace(
        profile=resolve_engine(engine),
        tier="physics",
        placement=SimpleNamespace(devices=lambda: on_device(device)),
    )
    (found,) = gathered.with_default_tiles((fused(*experts),), context)
    assert isinstance(found, GroupedGemm)
    assert bool(np.all(np.asarray(found.loop_cycles) > 0.0)) == default


def test_the_upper_limit_is_wider_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    untuned, bound = estimate(**ASKED).results, estimate(**ASKED, tier="bound").results
    monkeypatch.setattr("perfatlas.step.gathered._has_default_tiles", lambda _: False)
    tuned = estimate(**ASKED).results
    assert (untuned["tpot_s"], untuned["tpot_s_low"]) == (tuned["tpot_s"], tuned["tpot_s_low"])
    assert untuned["tpot_s_high"] > tuned["tpot_s_high"]
    assert bound["tpot_s"] == estimate(**ASKED, tier="bound").results["tpot_s"]
