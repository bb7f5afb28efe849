from __future__ import annotations

import numpy as np
import pytest

from perfatlas.operators import Gemm, Streaming
from perfatlas.scenario.fields import Scenario
from perfatlas.scenario.resolution import resolve_scenarios
from perfatlas.step import StepCost, decode_step

LLAMA = "meta-llama/Llama-3.1-70B-Instruct"
LAYERS = 80


def decode(
    engine: str,
    *,
    tp: int = 8,
    batch: int = 8,
    format_name: str = "fp8",
    model: str = LLAMA,
    system: str = "h200_sxm",
    tier: str = "bound",
) -> StepCost:
    scenario = Scenario.read(
        {
            "model": model,
            "system": system,
            "engine": engine,
            "tp": tp,
            "batch": batch,
            "format": format_name,
            "tier": tier,
        }
    )
    question, problems = resolve_scenarios([scenario])
    assert question is not None, problems
    return decode_step(question.context(), question.load.sequences, question.load.isl)


def kernels(cost: StepCost, stream: str) -> dict[str, float]:
    """Return the number of executions of streaming kernels of one kind."""
    return {
        op.name: float(op.count[0])
        for op in cost.operators
        if isinstance(op, Streaming) and op.stream == stream and op.count[0]
    }


def quantizing(cost: StepCost) -> set[str]:
    """Return the matrix products that quantize their input."""
    return {op.name for op in cost.operators if isinstance(op, Gemm) and np.any(op.quantizes_input)}


NORMS = {"input_norm": LAYERS, "ffn_norm": LAYERS, "final_norm": 1}
BEFORE_NORM = {"qkv_projection", "gate_up_projection"}
OTHERS = {"output_projection", "down_projection"}


@pytest.mark.parametrize("engine", ["vllm", "sglang", "trtllm", "ideal"])
def test_norms_run_on_one_gpu(engine: str) -> None:
    assert kernels(decode(engine, tp=1), "norm") == NORMS


@pytest.mark.parametrize("engine", ["vllm", "trtllm"])
def test_the_all_reduce_of_a_small_batch_takes_the_norms(engine: str) -> None:
    # 8 x 8192 x 2 bytes = 128 KiB, below 0.5 MiB of tp 8 on Hopper
    assert kernels(decode(engine), "norm") == {}
    # 64 rows are 1 MiB: too large at tp 8, small enough at tp 4 (2 MiB)
    assert kernels(decode(engine, batch=64), "norm") == NORMS
    assert kernels(decode(engine, batch=64, tp=4), "norm") == {}
    # no fused kernel on Ampere
    ampere = decode(engine, system="a100_sxm", format_name="bf16")
    assert kernels(ampere, "norm") == NORMS


def test_an_engine_without_the_fused_kernel_keeps_its_norms() -> None:
    assert kernels(decode("sglang"), "norm") == NORMS


@pytest.mark.parametrize("tp", [2, 8, 16])
def test_the_ideal_engine_fuses_at_every_size(tp: int) -> None:
    assert kernels(decode("ideal", batch=64, tp=tp), "norm") == {}


def test_dynamic_scales_ride_with_a_norm_that_runs_in_vllm() -> None:
    # with the norm as a kernel of its own it also quantizes; the reducing kernel cannot
    assert quantizing(decode("vllm", tp=1)) == OTHERS
    assert quantizing(decode("vllm", tp=8)) == BEFORE_NORM | OTHERS
    assert quantizing(decode("vllm", tp=8, batch=64)) == OTHERS
    assert kernels(decode("vllm"), "quantize") == {}


def test_static_scales_are_kernels_of_their_own_unless_fused() -> None:
    for tp in (1, 8):
        static = decode("vllm", tp=tp, format_name="fp8_static")
        assert kernels(static, "quantize") == {"output_projection_quantize": LAYERS}
        assert kernels(decode("trtllm", tp=tp), "quantize") == {}
        sglang = kernels(decode("sglang", tp=tp, format_name="fp8_static"), "quantize")
        assert sglang == {f"{name}_quantize": LAYERS for name in BEFORE_NORM | OTHERS}


def test_every_quantization_of_sglang_is_dynamic_and_its_own() -> None:
    assert quantizing(decode("sglang")) == BEFORE_NORM | OTHERS


def test_a_model_whose_code_calls_plain_norms_keeps_them() -> None:
    dense = decode("trtllm", model="Qwen/Qwen3-32B")
    assert kernels(dense, "norm")["input_norm"] == 64
    assert kernels(dense, "quantize")["qkv_projection_quantize"] == 64


def test_sixteen_bit_weights_quantize_nothing() -> None:
    for engine in ("vllm", "sglang", "trtllm"):
        cost = decode(engine, format_name="bf16")
        assert kernels(cost, "quantize") == {}
        assert quantizing(cost) == set()


def test_a_fused_operator_costs_nothing() -> None:
    cost = decode("vllm")
    fused = [i for i, op in enumerate(cost.operators) if op.name == "input_norm"]
    assert float((cost.count_CO * cost.prices.time_s_CO)[:, fused].sum()) == 0.0


@pytest.mark.parametrize(("engine", "largest"), [("vllm", 256), ("sglang", 512), ("trtllm", 2048)])
def test_shared_experts_hide_beside_the_routed_ones(engine: str, largest: int) -> None:
    def shared_s(batch: int) -> float:
        cost = decode(engine, model="deepseek-ai/DeepSeek-V3", batch=batch, format_name="fp8_block")
        names = [op.name for op in cost.operators]
        shared = [i for i, name in enumerate(names) if name.startswith("shared_expert_")]
        return float((cost.count_CO * cost.prices.time_s_CO)[0, shared].sum())

    assert shared_s(largest) == 0.0
    assert shared_s(largest + 1) > 0.0


def test_a_release_runs_as_many_kernels_as_its_code_has() -> None:
    old, patched, new = (
        decode(engine, model="deepseek-ai/DeepSeek-V3", format_name="fp8_block", batch=4)
        for engine in ("vllm@0.11", "vllm@0.11.1", "vllm@0.24")
    )
    # of the 61 layers, the 58 with experts
    for cost, routing, norms in ((old, 5, 2), (patched, 2, 2), (new, 1, 1)):
        assert kernels(cost, "routing") == {"routing": 58 * routing}
        assert kernels(cost, "latent_norm") == {"latent_norm": 58 * norms}
    # the kernels of an operator share its bytes: 256 logits of two bytes for each of four tokens
    for cost in (old, new):
        router = next(op for op in cost.operators if op.name == "routing")
        assert isinstance(router, Streaming)
        assert router.count[0] * router.read_bytes[0] == pytest.approx(58 * 4 * 256 * 2)
    # a model without grouped top-k is routed by one kernel
    qwen = decode("vllm@0.11", model="Qwen/Qwen3-30B-A3B", tp=1, format_name="bf16")
    assert kernels(qwen, "routing") == {"routing": 48}


def test_shared_experts_have_a_stream_of_their_own_since_0_11_1() -> None:
    # vllm-project/vllm PR 26440: 23.35 ms before and 22.09 ms after on eight B200 with 32 sequences
    old, patched = (
        decode(
            engine,
            model="deepseek-ai/DeepSeek-R1-0528",
            system="b200_sxm",
            batch=32,
            format_name="fp8_block",
            tier="physics",
        )
        for engine in ("vllm@0.11", "vllm@0.11.1")
    )
    hidden_s = [float((cost.hidden_s_CO * cost.count_CO)[0].sum()) for cost in (old, patched)]
    assert hidden_s == [0.0, pytest.approx(1.26e-3, rel=0.2)]
