"""Decode context parallelism: cached keys striped over tensor-parallel ranks."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pytest
from hypothesis import given, strategies as st

import perfatlas
from perfatlas import networks, parallelism
from perfatlas.operators import Attention, Collective, LatentAttention, Operator, Phase
from tests.parallelism.examples import BF16, DEEPSEEK_V3, LLAMA_70B, column, model_of, plan_of

DEEPSEEK: Final[dict[str, Any]] = {
    "model": "deepseek-ai/DeepSeek-V3",
    "system": "b200_sxm",
    "format": "nvfp4",
    "engine": "vllm",
    "tp": 8,
    "isl": 16000,
    "osl": 64,
}


def _rank(
    model: networks.Network, phase: Phase, *, q_len: float = 1, kv_len: float = 4096, **sizes: float
) -> dict[str, Operator]:
    plan = plan_of(**sizes)
    tokens = networks.StepTokens(
        batch=column(4), q_len=column(q_len), kv_len=column(kv_len), head_ranks=plan.tp
    )
    whole = model.step_operators(BF16, phase, tokens)
    return {op.name: op for op in parallelism.shard_operators(whole, plan, model)}


def _bytes(operators: dict[str, Operator], name: str) -> float:
    found = operators[name]
    assert isinstance(found, Collective)
    return float(found.bytes[0])


def test_a_decode_step_of_latent_attention_by_hand() -> None:
    step = _rank(DEEPSEEK_V3, Phase.DECODE, tp=8, ep=8, dcp=4)
    attention = step["latent_attention"]
    assert isinstance(attention, LatentAttention)
    # 128 / 8 heads of each of 4 ranks, over a quarter of 4,096 keys
    assert (attention.num_heads[0], attention.kv_len[0]) == (64.0, 1024.0)
    # 4 sequences x 64 heads x (512 + 64) absorbed elements of 2 bytes; outputs of 512
    assert _bytes(step, "latent_attention_query_all_gather") == 4 * 64 * 576 * 2
    assert _bytes(step, "latent_attention_output_reduce_scatter") == 4 * 64 * 512 * 2
    # a 32-bit statistic of each of 4 ranks for 4 x 64 rows
    assert _bytes(step, "latent_attention_lse_all_gather") == 4 * 4 * 64 * 4
    assert step["latent_attention_query_all_gather"].stride[0] == 1.0  # type: ignore[attr-defined]


def test_a_prompt_of_latent_attention_gathers_the_cached_rows_by_hand() -> None:
    step = _rank(DEEPSEEK_V3, Phase.PREFILL, tp=8, ep=8, dcp=4, q_len=1024, kv_len=5120)
    attention = step["latent_attention"]
    assert isinstance(attention, LatentAttention)
    assert (attention.num_heads[0], attention.kv_len[0]) == (16.0, 5120.0)
    # 4 sequences x 4,096 cached rows of 512 + 64 elements of 2 bytes
    assert _bytes(step, "latent_attention_context_all_gather") == 4 * 4096 * 576 * 2
    first = _rank(DEEPSEEK_V3, Phase.PREFILL, tp=8, ep=8, dcp=4, q_len=1024, kv_len=1024)
    assert "latent_attention_context_all_gather" not in first


def test_grouped_queries_share_the_keys_of_their_copies() -> None:
    step = _rank(LLAMA_70B, Phase.DECODE, tp=32, dcp=4)  # 8 key-value heads, each on 4 ranks
    attention = step["attention"]
    assert isinstance(attention, Attention)
    assert (attention.num_heads[0], attention.num_kv_heads[0]) == (8.0, 1.0)
    assert attention.kv_len[0] == 1024.0
    prompt = _rank(LLAMA_70B, Phase.PREFILL, tp=32, dcp=4, q_len=512, kv_len=1024)
    # 4 x 512 queries of 2 heads of each of 4 ranks, 128 wide, of 2 bytes
    assert _bytes(prompt, "attention_context_query_all_gather") == 4 * 512 * 8 * 128 * 2


@given(dcp=st.sampled_from([1, 2, 4, 8]), kv_len=st.integers(64, 100_000))
def test_ranks_of_a_group_do_the_work_of_one(dcp: int, kv_len: int) -> None:
    plain, striped = (
        _rank(DEEPSEEK_V3, Phase.DECODE, tp=8, ep=8, dcp=d, kv_len=kv_len)["latent_attention"]
        for d in (1, dcp)
    )
    # 1/d of the keys for d times the heads
    assert striped.work().flop[0] == pytest.approx(plain.work().flop[0], rel=dcp / kv_len)
    assert striped.work().cold_bytes[0] <= plain.work().cold_bytes[0] / dcp + 1.0
    plan = plan_of(tp=8, dcp=dcp)
    held = parallelism.kv_bytes_per_sequence(DEEPSEEK_V3, "bf16", plan, column(kv_len))
    whole = parallelism.kv_bytes_per_sequence(DEEPSEEK_V3, "bf16", plan_of(tp=8), column(kv_len))
    assert held[0] * dcp == pytest.approx(whole[0])


def test_keys_of_an_index_and_windows_are_not_striped() -> None:
    sparse = networks.resolve_model("deepseek-ai/DeepSeek-V3.2").network
    windowed = networks.resolve_model("openai/gpt-oss-20b").network
    for network, tokens in ((sparse, 4096.0), (windowed, 4096.0)):
        plain, striped = (
            parallelism.kv_bytes_per_sequence(network, "bf16", plan_of(tp=8, dcp=d), column(tokens))
            for d in (1, 8)
        )
        assert plain[0] / 8 < striped[0] < plain[0]
    layouts = {layout.kind: layout.striped for layout in sparse.cache_layouts(2.0)}
    assert layouts == {"latent": True, "index": False}


def test_the_cache_of_a_replica_grows_by_the_ranks_of_a_group() -> None:
    plain, striped = (
        perfatlas.estimate(**DEEPSEEK, batch=8, dcp=d).results["memory"]["kv_capacity_tokens"]
        for d in (1, 8)
    )
    assert striped == pytest.approx(8 * plain, rel=1e-4)


def test_states_cannot_be_striped() -> None:
    mixer = networks.Mamba2(num_heads=128, head_dim=64, state_size=128, num_groups=8, conv_kernel=4)
    model = model_of(mixer, networks.DenseFfn(intermediate_size=1024))
    (problem,) = parallelism.plan_problems(model, plan_of(tp=2, dcp=2))
    assert problem is not None
    assert "no layer caches keys of all tokens" in problem


def test_helix_runs_in_decode_pools() -> None:
    pools = {n: v for n, v in DEEPSEEK.items() if n != "tp"} | {"engine": "trtllm", "batch": None}
    pools |= {"mode": "disaggregated", "prefill_tp": 8, "decode_tp": 8, "concurrency": 8}
    striped = perfatlas.estimate(**pools, decode_dcp=8)
    assert any("striped over 8" in text for text in striped.evidence.assumptions)
    assert {row["phase"] for row in striped.breakdown if "query_all_gather" in row["name"]} == {
        "decode"
    }


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"speculative_depth": 3, "speculative_acceptance": 0.7},
        {"engine": "sglang"},
        {"tp": 4, "attention_dp": 2, "ep": 8},
        {"tp": 4, "pp": 2},
        {"prefix_caching": True, "shared_prefix": 8000, "host_cache_bytes": 1e12},
    ],
)
def test_simulations_hold_more_sequences(more: dict[str, Any]) -> None:
    asked = {**DEEPSEEK, "isl": 8000, "request_rate": 4, "num_requests": 30, **more}
    plain, striped = (perfatlas.simulate(**asked, dcp=d).results for d in (1, 4))
    assert striped["kv_capacity_tokens"] > 3.5 * plain["kv_capacity_tokens"]
    assert striped["requests_completed"] == plain["requests_completed"] == 30


def test_long_decodes_gain_and_short_ones_lose() -> None:
    def tpot_s(isl: int, batch: int, dcp: int) -> float:
        asked = {**DEEPSEEK, "isl": isl, "batch": batch, "dcp": dcp}
        return float(perfatlas.estimate(**asked).results["tpot_s"])

    assert tpot_s(64_000, 24, 8) < tpot_s(64_000, 24, 1)
    assert tpot_s(1_000, 1, 8) > tpot_s(1_000, 1, 1)


def test_searches_list_sizes_and_launch_them() -> None:
    query = {n: DEEPSEEK[n] for n in ("model", "system", "format", "engine", "tp", "isl", "osl")}
    answer = perfatlas.search(
        **query, gpus=8, concurrency=16, choices=("dcp=1:8",), emit="vllm", num_plans=4
    )
    plans = answer.results["plans"]
    assert {plan["dcp"] for plan in plans} == {1, 8}
    best = np.argmax([plan["output_tokens_per_s_per_gpu"] for plan in plans])
    flag = "--decode-context-parallel-size 8"
    assert (flag in str(answer.results["launch"])) == (plans[best]["dcp"] == 8)
