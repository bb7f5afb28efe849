"""Kernels of routed experts in a training step."""

from __future__ import annotations

import numpy as np
import pytest

from perfatlas.operators import Gemm, GroupedGemm, Phase, Streaming, with_fields
from perfatlas.training.work import Part, expert_kernels


def experts_of(format_name: str, *, matrices: int = 3) -> GroupedGemm:
    one = np.ones(1)
    return GroupedGemm(
        name="experts",
        phase=Phase.FORWARD,
        count=2.0 * one,
        shard="experts",
        tokens=1000.0 * one,
        hidden=64.0 * one,
        intermediate=32.0 * one,
        experts=4.0 * one,
        top_k=one,
        ep=one,
        moe_tp=one,
        matrices=matrices,
        format=format_name,
        weight_bytes_per_element=1.0,
        input_bytes_per_element=1.0,
    )


@pytest.mark.parametrize("matrices", [2, 3])
@pytest.mark.parametrize("part", list(Part))
def test_kernels_have_the_flop_of_the_experts(part: Part, matrices: int) -> None:
    experts = experts_of("bf16", matrices=matrices)
    flop = sum(float((one.count * one.work().flop)[0]) for one in expert_kernels(experts, part))
    assert flop == pytest.approx(float((experts.count * experts.work().flop)[0]))


def test_each_expert_multiplies_its_own_rows() -> None:
    first, second, *others = expert_kernels(experts_of("bf16"), Part.FORWARD)
    assert isinstance(first, Gemm)
    assert isinstance(second, Gemm)
    # 1000 rows of 4 experts, in 2 layers; up and gate in one product
    assert (first.m[0], first.n[0], first.k[0], first.count[0]) == (250.0, 64.0, 64.0, 8.0)
    assert (second.m[0], second.n[0], second.k[0], second.count[0]) == (250.0, 64.0, 32.0, 8.0)
    assert [one.name for one in others] == [
        "experts_permute",
        "experts_unpermute",
        "experts_activation",
    ]


def test_weight_gradients_multiply_along_the_rows() -> None:
    up, down = expert_kernels(experts_of("bf16"), Part.WEIGHT_GRADIENT)
    assert isinstance(up, Gemm)
    assert isinstance(down, Gemm)
    assert (up.m[0], up.n[0], up.k[0]) == (64.0, 64.0, 250.0)
    assert (down.m[0], down.n[0], down.k[0]) == (64.0, 32.0, 250.0)


def test_low_precision_quantizes_both_ways() -> None:
    forward = expert_kernels(experts_of("fp8_block"), Part.FORWARD)
    written = {one.name: float(one.write_bytes[0]) for one in forward if isinstance(one, Streaming)}
    assert written["experts_up_quantize"] == 2.0 * 1000.0 * 64.0  # rows and columns, 1 byte each
    assert written["experts_down_quantize"] == 2.0 * 1000.0 * 32.0
    backward = expert_kernels(experts_of("fp8_block"), Part.INPUT_GRADIENT)
    quantized = [one.name for one in backward if one.name.endswith("gradient_quantize")]
    assert quantized == ["experts_up_gradient_quantize", "experts_down_gradient_quantize"]


def test_fused_products_activate_and_quantize() -> None:
    names = [one.name for one in expert_kernels(experts_of("fp8_block"), Part.FORWARD, fused=True)]
    assert names == ["experts_up", "experts_down", "experts_permute", "experts_unpermute"]
    backward = expert_kernels(experts_of("fp8_block"), Part.INPUT_GRADIENT, fused=True)
    assert not [one for one in backward if "quantize" in one.name or "activation" in one.name]


def test_alltoall_sorts_and_biases_run_as_kernels() -> None:
    forward = expert_kernels(experts_of("bf16"), Part.FORWARD, sorted_again=True, biases=True)
    moved = {
        one.name: float((one.read_bytes + one.write_bytes)[0])
        for one in forward
        if isinstance(one, Streaming)
    }
    assert moved["experts_sort"] == moved["experts_unsort"] == 1000.0 * 64.0 * 4.0
    assert moved["experts_biases"] == 1000.0 * 64.0 * 28.0


@pytest.mark.parametrize(
    ("format_name", "recipe", "rows"),
    [
        ("fp8_dynamic", "", 256.0),  # 250 rows, a multiple of 16
        ("fp8_dynamic", "mxfp8", 256.0),  # of 32
        ("nvfp4", "", 256.0),  # of 64
        ("bf16", "", 250.0),
    ],
)
def test_quantized_rows_are_padded(format_name: str, recipe: str, rows: float) -> None:
    up, *_ = expert_kernels(experts_of(format_name), Part.FORWARD, recipe=recipe)
    assert isinstance(up, Gemm)
    assert up.m[0] == rows


@pytest.mark.parametrize(("recipe", "rows"), [("", 16.0), ("mxfp8", 32.0), ("nvfp4", 64.0)])
def test_few_rows_are_padded_by_the_asked_format(recipe: str, rows: float) -> None:
    experts = with_fields(experts_of("fp8_dynamic"), tokens=4.0 * np.ones(1))  # a row per expert
    up, *_ = expert_kernels(experts, Part.FORWARD, recipe=recipe)
    assert isinstance(up, Gemm)
    assert up.m[0] == rows
