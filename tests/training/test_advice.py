"""Advice for a step that does not fit is followed: every change that is advised fits."""

from __future__ import annotations

import re
from typing import Any

import pytest

from perfatlas.quantities import InfeasibleError
from perfatlas.verbs.train import train
from tests.examples import few

CASES: dict[str, dict[str, Any]] = {
    "tensor parallel": {"model": "meta-llama/Llama-3.1-70B", "gpus": 16, "tp": 8},
    "one node of a large model": {"model": "meta-llama/Llama-3.1-405B", "gpus": 8, "tp": 8},
    "experts": {"model": "Qwen/Qwen3-30B-A3B", "gpus": 8},
    "experts on few GPUs": {"model": "deepseek-ai/DeepSeek-V3", "gpus": 64, "ep": 8},
    "a given dp": {"model": "meta-llama/Llama-3.1-70B", "gpus": 64, "dp": 64},
    "without sequence parallelism": {
        "model": "meta-llama/Llama-3.1-70B",
        "gpus": 64,
        "sequence_parallel": False,
    },
    "without context parallelism": {
        "engine": "megatron@22.06",
        "model": "meta-llama/Llama-3.1-70B",
        "gpus": 64,
    },
    "sharding alone": {"model": "meta-llama/Llama-2-70b-hf", "gpus": 8, "engine": "fsdp"},
    "three GPUs": {"model": "meta-llama/Llama-2-70b-hf", "gpus": 3, "lora_rank": 8},
    "large micro-batch": {"model": "meta-llama/Llama-3.1-8B", "gpus": 8, "micro_batch": 8},
}


@pytest.mark.parametrize("asked", few(CASES.values(), every=2), ids=CASES)
def test_every_change_that_is_advised_fits(asked: dict[str, Any]) -> None:
    asked = {"system": "h100_sxm", "global_batch": 510 if asked["gpus"] == 3 else 512, **asked}
    with pytest.raises(InfeasibleError) as refused:
        train(**asked)
    assert refused.value.advice
    if "gpus" in asked and asked["gpus"] == 3:
        assert "set recompute = full and pp = 3" in refused.value.advice
    for advice in refused.value.advice:
        changes: dict[str, Any] = dict(re.findall(r"(\w+) = (\w+)", advice))
        assert train(**{**asked, **changes}).results["memory"]["fits"]
