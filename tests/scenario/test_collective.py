from __future__ import annotations

from typing import Any

import pytest

from perfatlas.verbs.collective import collective


def asked(size: float, **more: Any) -> dict[str, Any]:  # noqa: ANN401 - fields of a question
    answer = collective(system="h200_sxm", op="all_reduce", bytes=size, gpus=8, **more)
    return {**answer.results, "used": [row["id"] for row in answer.evidence.calibrations]}


def test_the_library_is_used_if_selected() -> None:
    found = asked(1e6, kernel_family="nccl")
    assert found["used"] == ["h200_sxm/all_reduce/nccl/bf16"]
    assert found["algorithm"] in {"ring", "tree", "in_network"}


@pytest.mark.parametrize("size", [1e4, 1e6, 1e9])
def test_without_a_family_the_fastest_of_all_answers(size: float) -> None:
    families = ("nccl", "vllm", "sglang", "trtllm")
    fastest = min(asked(size, kernel_family=name)["time_s"] for name in families)
    assert asked(size)["time_s"] == fastest
