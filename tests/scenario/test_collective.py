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
    assert found["algorithm"] in {"ring", "tree", "nvls"}


@pytest.mark.parametrize("size", [1e4, 1e6, 1e9])
def test_without_a_family_the_fastest_of_all_answers(size: float) -> None:
    families = ("nccl", "vllm", "sglang", "trtllm")
    fastest = min(asked(size, kernel_family=name)["time_s"] for name in families)
    assert asked(size)["time_s"] == fastest


@pytest.mark.parametrize("size", [2**13, 2**17, 2**20])
def test_a_group_beyond_a_tray_takes_about_as_long_as_one_of_a_node(size: int) -> None:
    asked: dict[str, Any] = {"op": "all_reduce", "bytes": size, "gpus": 8}
    older = collective(system="h100_sxm", **asked).results["time_s"]
    for system in ("gb200", "gb300"):
        found = collective(system=system, **asked)
        assert found.results["time_s"] < 1.5 * older  # 3.3 times as a ring of NCCL
        assert not found.warnings
    lent = collective(system="gb200", kernel_family="trtllm", **asked).evidence.assumptions
    assert any("those of gb300 are used" in text for text in lent)
