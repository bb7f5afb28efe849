"""Answers that kernels of another vendor's GPUs price say so."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from perfatlas.report.text.evidence import confidence_lines
from perfatlas.verbs.collective import collective
from perfatlas.verbs.estimate import estimate
from perfatlas.verbs.kernel import kernel_attention, kernel_gemm

if TYPE_CHECKING:
    from collections.abc import Callable

    from perfatlas.answer import Answer

NOTE = "kernels of another vendor's GPUs ("
QUESTIONS: list[tuple[Callable[..., Answer], dict[str, Any]]] = [
    (collective, {"op": "all_reduce", "bytes": 16384, "gpus": 8}),
    (
        kernel_attention,
        {"phase": "decode", "batch": 8, "kv_len": 2048, "num_heads": 32, "head_dim": 128},
    ),
    (estimate, {"model": "meta-llama/Llama-3.1-8B-Instruct", "isl": 2048, "osl": 256}),
]


@pytest.mark.parametrize(("call", "fields"), QUESTIONS)
def test_kernels_of_another_vendor_are_one_warning(
    call: Callable[..., Answer], fields: dict[str, Any]
) -> None:
    warnings = call(system="mi355x", **fields).warnings
    assert sum(one.startswith(NOTE) for one in warnings) == 1
    for asked in ({"system": "h200_sxm"}, {"system": "mi355x", "tier": "bound"}):
        assert not any(one.startswith(NOTE) for one in call(**asked, **fields).warnings)


@pytest.mark.parametrize(
    ("system", "where"), [("mi300x", "on b300_sxm"), ("h200_sxm", "on the measured machine")]
)
def test_the_tabulated_interval_names_its_machine(system: str, where: str) -> None:
    answer = collective(system=system, op="all_reduce", bytes=16384, gpus=8).to_dict()
    assert any(f"as tabulated, {where}: " in one for one in confidence_lines(answer))


@pytest.mark.parametrize(("system", "graph"), [("mi300x", "a graph"), ("h200_sxm", "a CUDA graph")])
def test_graphs_are_those_of_the_vendor(system: str, graph: str) -> None:
    said = kernel_gemm(system=system, m=128, n=4096, k=4096).evidence.assumptions
    assert said[0] == f"cold caches, one kernel of {graph}"
