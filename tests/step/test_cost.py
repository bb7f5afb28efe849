from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from perfatlas.engines import resolve_engine
from perfatlas.hardware import resolve_system
from perfatlas.networks import StepTokens
from perfatlas.operators import Phase
from perfatlas.scenario.fields import Scenario
from perfatlas.scenario.resolution import resolve_scenarios
from perfatlas.step import StepContext, decode_step, prefill_step, prefill_work, rank_operators
from perfatlas.verbs.collective import collective
from perfatlas.verbs.estimate import estimate

# Llama-3.1-8B: 32 layers of 4096, 32 query and 8 key-value heads of 128, 14336 wide, vocabulary
# of 128256
LINEAR = 32 * ((4096 + 2 * 1024) * 4096 + 4096 * 4096 + 3 * 4096 * 14336)
HEAD = 128256 * 4096
KV_ROW = 32 * 2 * 8 * 128 * 2


def context(engine: str = "ideal", **fields: object) -> StepContext:
    given = {"model": "meta-llama/Llama-3.1-8B", "system": "h200_sxm", "tier": "bound"}
    question, problems = resolve_scenarios([Scenario.read({**given, "engine": engine, **fields})])
    assert question is not None, problems
    return question.context()


def test_a_decode_step_by_hand() -> None:
    # one sequence: weights, the cache of 1023 earlier tokens, 65 norm weights, one embedding row
    cold = (LINEAR + HEAD) * 2 + 1023 * KV_ROW + 65 * 4096 * 2 + 4096 * 2
    step = decode_step(context(), np.ones(1), np.full(1, 1024.0))
    assert step.total_s()[0] == pytest.approx(cold / 4.8e12, rel=2e-4)  # and norms in L2
    assert step.low_s() == step.high_s() == step.total_s()


def test_a_step_leaves_groups_that_its_engine_refuses_to_the_library(tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    sizes = {"hidden_size": 1152, "intermediate_size": 3072, "num_hidden_layers": 1}
    heads = {"num_attention_heads": 18, "num_key_value_heads": 6, "vocab_size": 512}
    config.write_text(json.dumps({"model_type": "llama", **sizes, **heads}))
    load = {"model": str(config), "system": "h200_sxm", "engine": "vllm", "batch": 8, "isl": 8}
    used = {
        tp: {row["id"] for row in estimate(**load, tp=tp).evidence.calibrations} for tp in (2, 3)
    }
    assert "h200_sxm/custom_all_reduce/vllm/bf16" in used[2]
    assert "h200_sxm/custom_all_reduce/vllm/bf16" not in used[3]
    assert "h200_sxm/all_reduce/nccl/bf16" in used[3]


def test_all_reduces_of_a_step_wait_for_the_last_rank() -> None:
    # 4 us x the expected maximum of n normal draws: 1 / sqrt(pi) = 0.5642 of two, 1.4236 of eight
    for tp, wait_s in ((2, 2.257e-6), (8, 5.694e-6)):
        asked = context("vllm", tp=tp, tier="physics")
        step = decode_step(asked, np.ones(1), np.full(1, 1024.0))
        place = [op.name for op in step.operators].index("output_projection_all_reduce")
        alone = collective(
            system="h200_sxm", op="all_reduce", bytes=8192, gpus=tp, kernel_family="vllm"
        )
        found_s = step.prices.time_s_CO[0, place]
        assert found_s - alone.results["time_s"] == pytest.approx(wait_s, rel=1e-3)


def test_products_of_a_prefill_chunk_by_hand() -> None:
    rows = estimate(
        model="meta-llama/Llama-3.1-8B",
        system="h200_sxm",
        engine="ideal",
        tier="bound",
        isl=8192,
        batch=1,
    ).breakdown
    prefill = {row["name"]: row for row in rows if row["phase"] == "prefill"}
    peak = resolve_system("h200_sxm").device.peak_flop_per_s["bf16"]
    products = ("qkv_projection", "output_projection", "gate_up_projection", "down_projection")
    seconds = sum(prefill[name]["time_s"] for name in products)
    assert seconds == pytest.approx(2 * 8192 * LINEAR / peak)
    # causal: 8192 x 8193 / 2 pairs of 32 heads, two products of 128
    pairs = 8192 * 8193 / 2
    assert prefill["attention"]["time_s"] == pytest.approx(32 * 32 * pairs * 2 * 256 / peak)
    # one row of logits reads the head's weights
    assert prefill["lm_head"]["time_s"] == pytest.approx(HEAD * 2 / 4.8e12)
    assert prefill["lm_head"]["bound"] == "memory"
    assert prefill["gate_up_projection"]["bound"] == "compute"


def test_attention_reads_only_existing_caches() -> None:
    # vLLM pads 9 sequences to a graph of 16: products run 16 rows, attention 9
    operators = decode_step(context("vllm"), np.full(1, 9.0), np.full(1, 100.0)).operators
    rows = {op.name: op for op in operators}
    assert getattr(rows["qkv_projection"], "m", None) == 16
    assert getattr(rows["attention"], "batch", None) == 9


def test_hidden_host_time_shows_only_where_it_is_longer() -> None:
    host = resolve_engine("vllm").host
    rates = "device.memory.bandwidth=1 PB/s, device.l2_bytes_per_clock=1e6"
    fast = {"system": f"h200_sxm{{{rates}}}"}
    small = decode_step(context("vllm", **fast), np.ones(1), np.ones(1))
    assert small.total_s()[0] == pytest.approx(host.step_s + host.per_sequence_s)
    assert small.host_s_C[0] > 0
    large = decode_step(context("vllm"), np.ones(1), np.full(1, 1024.0))
    assert large.host_s_C[0] == 0
    ideal = decode_step(context("ideal", **fast), np.ones(1), np.ones(1))
    assert ideal.host_s_C[0] == 0
    assert ideal.total_s()[0] < small.total_s()[0]


def test_prefill_dispatches_every_layer_from_the_host() -> None:
    host = resolve_engine("vllm").host
    one = np.ones(1)
    tiny = prefill_step(context("vllm"), StepTokens(batch=one, q_len=one, kv_len=one))
    dispatch = host.step_s + host.per_sequence_s + 32 * host.per_layer_prefill_s
    assert tiny.total_s()[0] == pytest.approx(max(dispatch, (LINEAR + HEAD) * 2 / 4.8e12), rel=0.01)


def test_eager_prefill_takes_as_long_as_published() -> None:
    # SGLang before 0.5.10: sgl-project/sglang pull 12160 and wejoncy/sfllm pull 46
    for model, tp, published_s in (("deepseek-v3", 8, 82.64e-3), ("qwen3-4b", 1, 16.6e-3)):
        asked = context("sglang@0.5.9", model=model, tp=tp)
        one = np.ones(1)
        step = prefill_work(asked, StepTokens(batch=one, q_len=one, kv_len=one))
        assert step.host_s_C[0] == pytest.approx(published_s, rel=0.01)


def test_a_rank_runs_its_share_and_the_collectives() -> None:
    one = np.ones(1)
    tokens = StepTokens(batch=one, q_len=one, kv_len=100 * one)
    alone = rank_operators(context(), Phase.DECODE, tokens)
    eighth = rank_operators(context(tp=8), Phase.DECODE, tokens)
    assert not [op for op in alone if op.kind == "collective"]
    links = {op.name: op for op in eighth if op.kind == "collective"}
    assert {name: float(op.count[0]) for name, op in links.items()} == {
        "embedding_all_reduce": 1,
        "output_projection_all_reduce": 32,
        "down_projection_all_reduce": 32,
        "lm_head_all_gather": 1,
    }
    # one row of 4096 in 16 bit is reduced; 128256 logits are gathered
    assert getattr(links["output_projection_all_reduce"], "bytes", None) == 8192
    assert getattr(links["lm_head_all_gather"], "bytes", None) == 128256 * 2


def test_skewed_experts_are_passed_on() -> None:
    one = np.ones(1)
    tokens = StepTokens(batch=one, q_len=one, kv_len=one)
    skewed = context(model="openai/gpt-oss-20b", expert_distribution="power_law_1.2")
    found = {
        getattr(op, "distribution", None) for op in rank_operators(skewed, Phase.DECODE, tokens)
    }
    assert found == {None, "power_law_1.2"}


def test_columns_are_priced_as_alone() -> None:
    sizes = np.array([1.0, 9.0, 300.0])
    given = {"model": "meta-llama/Llama-3.1-8B", "system": "h200_sxm", "tier": "bound"}
    scenarios = [Scenario.read({**given, "batch": int(size)}) for size in sizes]
    question, _ = resolve_scenarios(scenarios)
    assert question is not None
    together = decode_step(question.context(), sizes, np.full(3, 512.0)).total_s()
    alone = [
        decode_step(context("vllm"), np.full(1, size), np.full(1, 512.0)).total_s()[0]
        for size in sizes
    ]
    assert together.tolist() == pytest.approx(alone, rel=1e-12)
