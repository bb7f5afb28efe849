"""Options that change nothing in a training step are named."""

from __future__ import annotations

from typing import Any, Final

import pytest

from perfatlas.verbs.train import train, train_columns

SMALL: Final = {
    "model": "meta-llama/Llama-3.1-8B",
    "system": "h100_sxm",
    "gpus": 8,
    "global_batch": 64,
}
EXPERTS: Final = {
    "model": "Qwen/Qwen3-30B-A3B",
    "system": "h100_sxm",
    "gpus": 64,
    "tp": 2,
    "ep": 8,
    "global_batch": 256,
}


@pytest.mark.parametrize(
    ("asked", "change"),
    [
        (SMALL, {"sequence_parallel": True}),
        (SMALL | {"lora_rank": 16}, {"fused_weight_gradient": False}),
        (EXPERTS | {"engine": "ideal"}, {"cuda_graphs": "full"}),
    ],
)
def test_an_option_without_effect_is_named(asked: dict[str, Any], change: dict[str, Any]) -> None:
    plain, changed = train(**asked), train(**(asked | change))
    assert changed.results["step_time_s"] == plain.results["step_time_s"]
    assert not plain.warnings
    (remark,) = changed.warnings
    assert remark.split()[0] in change
    assert "has no effect" in remark
    row = train_columns({name: [given] for name, given in (asked | change).items()})
    assert remark in row["warnings"][0]


@pytest.mark.parametrize(
    ("asked", "change"),
    [
        (SMALL | {"tp": 2}, {"sequence_parallel": False}),
        (SMALL, {"fused_weight_gradient": False}),
        (EXPERTS, {"cuda_graphs": "full"}),
    ],
)
def test_an_option_with_an_effect_is_not(asked: dict[str, Any], change: dict[str, Any]) -> None:
    plain, changed = train(**asked), train(**(asked | change))
    assert changed.results["step_time_s"] != plain.results["step_time_s"]
    assert not changed.warnings


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"engine": "fsdp"}, True),
        ({"engine": "torchtitan@2024.12"}, True),
        ({"engine": "fsdp", "zero": "1"}, False),
        ({"engine": "fsdp", "zero": "3"}, False),
        ({"engine": "megatron"}, False),
    ],
)
def test_sharding_less_than_the_engine_does_by_default_is_told(
    change: dict[str, Any], *, told: bool
) -> None:
    asked = SMALL | {"tp": 2, "recompute": "full"} | change
    warnings = train(**asked).warnings
    assert any("set zero = 3" in one for one in warnings) == told
    row = train_columns({name: [given] for name, given in asked.items()})
    assert ("set zero = 3" in (row["warnings"][0] or "")) == told
