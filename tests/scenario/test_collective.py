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


def test_small_buffers_that_are_left_to_nccl_are_warned_of() -> None:
    asked: dict[str, Any] = {"system": "gb200", "op": "all_reduce", "bytes": 2**17}
    asked["kernel_family"] = "vllm"
    assert any("faster kernels of vllm" in text for text in collective(gpus=8, **asked).warnings)
    assert not collective(gpus=4, **asked).warnings
    assert not collective(gpus=8, **(asked | {"kernel_family": "nccl"})).warnings


def test_in_network_reduction_between_nodes_is_named_and_not_a_default() -> None:
    asked: dict[str, Any] = {"op": "all_reduce", "bytes": 1e9, "gpus": 8192}
    found = collective(system="h100_sxm", **asked)
    assert found.results["algorithm"] == "nvls_tree"
    assert any("1,024 nodes: collectives between nodes" in text for text in found.warnings)
    sharp = collective(system="h100_sxm{fabric.in_network_reduction=true}", **asked).results
    assert sharp["algorithm"] == "nvls_sharp"
    assert sharp["time_s"] < found.results["time_s"]
    rings = collective(system="h100_sxm{device.scale_up.in_network_reduction=false}", **asked)
    assert rings.results["algorithm"] == "hierarchical_ring"
    assert not collective(system="h100_sxm", **(asked | {"gpus": 64})).warnings
