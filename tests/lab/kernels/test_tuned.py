"""Designs of `kernel tune` compile, and their launches get inputs and results."""

from __future__ import annotations

from typing import Any

import pytest

from perfatlas.formats import get_format
from perfatlas.hardware import resolve_system

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
pytest.importorskip("triton", reason="Triton is not installed")

from perfatlas.lab import tune  # noqa: E402
from perfatlas.lab.kernels.runs import run_of  # noqa: E402
from perfatlas.lab.tune.kernels import KERNELS, SOURCE_FORMATS, compiled_kernel  # noqa: E402

LAYER = {"hidden": 256, "intermediate": 128, "experts": 8, "top_k": 2, "ep": 1, "moe_tp": 1}
HEADS = {"num_heads": 8, "num_kv_heads": 2, "head_dim": 128, "causal": True}
CASES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "gemm": ("gemm", "bf16", {"m": 48, "n": 256, "k": 512}),
    "gemm in fp8": ("gemm", "fp8_static", {"m": 48, "n": 256, "k": 512}),
    "gemm in blocks": ("gemm", "fp8_block", {"m": 48, "n": 256, "k": 512}),
    "experts": ("grouped_gemm", "bf16", {**LAYER, "tokens": 24}),
    "experts in fp8": ("grouped_gemm", "fp8_static", {**LAYER, "tokens": 24}),
    "experts in blocks": ("grouped_gemm", "fp8_block", {**LAYER, "tokens": 24}),
    "prefill": ("attention", "bf16", {"batch": 1, "q_len": 256, "kv_len": 256, **HEADS}),
    "decode": ("attention", "bf16", {"batch": 2, "q_len": 1, "kv_len": 256, **HEADS}),
    "norm": ("norm", "bf16", {"tokens": 64, "width": 512}),
    "all_reduce": ("all_reduce", "bf16", {"tokens": 64, "width": 512, "ranks": 4}),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("system", ["h100_sxm", "mi300x"])
def test_designs_are_compiled(name: str, system: str) -> None:
    kernel, kind, shape = CASES[name]
    device = resolve_system(system).device
    question = tune.Question(
        kernel=kernel, device=device, number_format=get_format(kind), shape=shape
    )
    found = tune.tune(question, keep=2)
    assert found.versions["triton"]
    for row in found.rows():
        assert row["registers"] <= 512
    if not (launches := KERNELS[kernel].launches(question)):
        return
    source = compiled_kernel(question, found.priced.designs.row(found.order[0]), found.chip.target)
    run = run_of(source.run)
    for launch in launches:
        expected = run.expected(run.inputs(launch, SOURCE_FORMATS[kind], "cpu"))
        assert all(torch.isfinite(value).all() for value in expected.values())
