"""Advice for a step that does not fit is followed: every change that is advised fits."""

from __future__ import annotations

import re
from typing import Any

import pytest

from perfatlas.quantities import InfeasibleError
from perfatlas.verbs.train import train

CASES: dict[str, dict[str, Any]] = {
    "tensor parallel": {"model": "meta-llama/Llama-3.1-70B", "gpus": 16, "tp": 8},
    "one node of a large model": {"model": "meta-llama/Llama-3.1-405B", "gpus": 8, "tp": 8},
    "experts": {"model": "Qwen/Qwen3-30B-A3B", "gpus": 8},
    "large micro-batch": {"model": "meta-llama/Llama-3.1-8B", "gpus": 8, "micro_batch": 8},
}


@pytest.mark.parametrize("asked", CASES.values(), ids=CASES)
def test_every_change_that_is_advised_fits(asked: dict[str, Any]) -> None:
    asked = {"system": "h100_sxm", "global_batch": 512, **asked}
    with pytest.raises(InfeasibleError) as refused:
        train(**asked)
    assert refused.value.advice
    for advice in refused.value.advice:
        changes: dict[str, Any] = dict(re.findall(r"(\w+) = (\w+)", advice))
        assert train(**{**asked, **changes}).results["memory"]["fits"]
