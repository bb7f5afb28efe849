"""Engine limits that are not given: what the engines' documentation recommends."""

from __future__ import annotations

from typing import Any

import pytest

from perfatlas.engines import resolve_engine
from perfatlas.quantities import InfeasibleError
from perfatlas.scenario.fields import Scenario
from perfatlas.scenario.resolution import resolve_scenarios
from perfatlas.verbs.estimate import estimate, estimate_table
from perfatlas.verbs.simulate import simulate
from tests.examples import few

LLAMA = "meta-llama/Llama-3.1-8B"
R1 = "deepseek-ai/DeepSeek-R1"
LOADED: dict[str, Any] = {"model": LLAMA, "system": "h100_sxm", "mode": "aggregated", "osl": 128}


def limits(
    longest: int = 0,
    *,
    pooled: bool = False,
    **fields: Any,  # noqa: ANN401 - of a scenario
) -> dict[str, float]:
    question, problems = resolve_scenarios(
        [Scenario.read({"model": LLAMA, **fields})], longest, pooled=pooled
    )
    assert question is not None, problems
    return {name: float(values[0]) for name, values in vars(question.limits).items()}


@pytest.mark.parametrize(
    ("engine", "system", "seqs", "tokens"),
    [
        ("vllm", "l40s", 256, 2048),
        ("vllm", "a100_sxm", 256, 2048),
        ("vllm", "h100_sxm", 1024, 8192),
        ("sglang", "rtx_4090", 2048, 2048),
        ("sglang", "l40s", 2048, 4096),
        ("sglang", "h200_sxm", 2048, 8192),
        ("sglang", "b200_sxm", 2048, 16384),
    ],
)
def test_limits_follow_the_memory_of_the_device(
    engine: str, system: str, seqs: int, tokens: int
) -> None:
    found = limits(engine=engine, system=system)
    assert (found["max_num_seqs"], found["max_num_batched_tokens"]) == (seqs, tokens)


def test_ranks_of_attention_share_the_chunk_of_sglang() -> None:
    plan: dict[str, Any] = {"tp": 1, "attention_dp": 8, "ep": 8}
    found = limits(model=R1, system="b300_sxm", engine="sglang", **plan)
    assert found["max_num_batched_tokens"] == 32768 / 8  # of the recipe
    assert found["max_num_seqs"] == 2048  # of SGLang, not a share of the recipe's 128
    found = limits(model="deepseek-ai/DeepSeek-V2", system="b200_sxm", engine="sglang", **plan)
    assert found["max_num_batched_tokens"] == 16384 / 8  # by default


def test_a_step_of_tensorrt_llm_holds_a_prompt_and_the_decodes() -> None:
    asked: dict[str, Any] = {"system": "h100_sxm", "engine": "trtllm", "mode": "aggregated"}
    assert limits(**asked, isl=100)["max_num_batched_tokens"] == 8192
    assert limits(**asked, isl=8192)["max_num_batched_tokens"] == 8192 + 2048
    assert limits(**asked, isl=8192, max_num_seqs=64)["max_num_batched_tokens"] == 8192 + 64
    assert limits(20_000, **asked, isl=100)["max_num_batched_tokens"] == 20_000 + 2048
    assert limits(**asked, isl=100, max_num_batched_tokens=512)["max_num_batched_tokens"] == 512


def test_recipes_set_what_is_not_given() -> None:
    asked: dict[str, Any] = {"model": R1, "system": "b200_sxm", "engine": "trtllm", "tp": 8}
    asked |= {"mode": "aggregated", "isl": 8192, "concurrency": 64}
    found = limits(**asked)
    # 8,192 + 64 + 64 is 130 x 64
    assert found["max_num_batched_tokens"] == 8320
    assert (found["gpu_memory_utilization"], found["stream_interval"]) == (0.8, 10)
    given = limits(**asked, stream_interval=1, gpu_memory_utilization=0.9)
    assert (given["gpu_memory_utilization"], given["stream_interval"]) == (0.9, 1)
    del asked["concurrency"]  # as many as the engine admits
    open_loop = limits(**{**asked, "isl": 1024}, max_num_seqs=512)
    assert open_loop["max_num_batched_tokens"] == 1024 + 512 + 64
    gpt = limits(model="openai/gpt-oss-120b", system="h200_sxm", engine="trtllm", isl=30_000)
    assert gpt["max_num_batched_tokens"] == 30_000 + 2048  # 20,000 would reject every prompt


def test_recipes_of_sglang_are_for_the_gpus_they_state() -> None:
    asked: dict[str, Any] = {"model": R1, "system": "b200_sxm", "engine": "sglang"}
    eight = limits(**asked, tp=8)
    assert (eight["max_num_batched_tokens"], eight["max_num_seqs"]) == (32_768, 128)
    assert (eight["gpu_memory_utilization"], eight["stream_interval"]) == (0.82, 30)
    four = limits(**asked, tp=4)
    assert (four["max_num_batched_tokens"], four["max_num_seqs"]) == (16_384, 2048)
    fp4 = limits(**{**asked, "model": "nvidia/DeepSeek-R1-NVFP4"}, tp=4)
    assert (fp4["max_num_batched_tokens"], fp4["max_num_seqs"]) == (16_384, 256)


def test_the_sequences_of_a_recipe_are_those_of_one_server() -> None:
    asked: dict[str, Any] = {"model": R1, "system": "b300_sxm", "engine": "sglang", "tp": 8}
    server, worker = limits(**asked), limits(**asked, pooled=True)
    changed = {name for name in server if server[name] != worker[name] and server[name] > 0.0}
    assert changed == {"max_num_seqs"}
    assert (server["max_num_seqs"], worker["max_num_seqs"]) == (128, 2048)
    assert limits(**asked, pooled=True, max_num_seqs=4)["max_num_seqs"] == 4


def test_ranks_of_attention_do_not_share_the_sequences_of_a_recipe() -> None:
    asked: dict[str, Any] = {"model": R1, "system": "b200_sxm", "engine": "sglang"}
    ranks: dict[str, Any] = {**asked, "tp": 1, "attention_dp": 8, "ep": 8}
    one, eight = limits(**asked, tp=8), limits(**ranks)
    assert (one["max_num_seqs"], eight["max_num_seqs"]) == (128, 2048)
    assert one["scheduler_recv_interval"] > eight["scheduler_recv_interval"] == 1
    assert (eight["gpu_memory_utilization"], eight["stream_interval"]) == (0.82, 30)
    assert limits(**ranks, max_num_seqs=64)["max_num_seqs"] == 64


@pytest.mark.parametrize("method", ["formula", "simulate"])
def test_both_methods_reject_prompts_that_no_step_holds(method: str) -> None:
    asked: dict[str, Any] = {
        **LOADED,
        "engine": "trtllm",
        "isl": 4097,
        "max_num_batched_tokens": 4096,
    }
    with pytest.raises(InfeasibleError, match=r"4,097 tokens.*4,096") as refused:
        estimate(**asked, concurrency=2, method=method)
    assert any("6145" in advice for advice in refused.value.advice)
    table = estimate_table({name: [value] for name, value in {**asked, "method": method}.items()})
    assert table.columns["error_code"] == ["infeasible"]


@pytest.mark.parametrize("engine", few(["vllm", "sglang", "trtllm"], every=2))
def test_both_methods_have_one_cache_less_the_blocks_that_the_engine_reserves(engine: str) -> None:
    asked: dict[str, Any] = {"model": LLAMA, "system": "h100_sxm", "engine": engine, "tp": 2}
    formula = estimate(**asked, mode="aggregated", concurrency=4, method="formula")
    run = simulate(**asked, isl=500, osl=20, request_rate=2, num_requests=10).answer
    profile = resolve_engine(engine)
    reserved = profile.memory.reserved_blocks * profile.scheduler.block_size
    less = formula.results["memory"]["kv_capacity_tokens"] - run.results["kv_capacity_tokens"]
    assert less == reserved
    assert any("reserves" in text for text in run.evidence.assumptions) == (reserved > 0)
