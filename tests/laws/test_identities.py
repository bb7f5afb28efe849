"""Invariants of every answer: intervals in order, throughputs from times, sums from parts."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import example, given, settings, strategies as st

from perfatlas.answer import Answer
from perfatlas.quantities import InfeasibleError, InvalidSpecError
from perfatlas.verbs.estimate import estimate
from perfatlas.verbs.kernel import kernel_attention, kernel_gemm, kernel_moe
from tests.examples import scaled_examples
from tests.laws.support import ENGINES, MODELS

METRICS = (
    "ttft_s",
    "tpot_s",
    "request_latency_s",
    "output_tokens_per_s_per_gpu",
    "output_tokens_per_s_per_user",
)
SCENARIOS = st.fixed_dictionaries(
    {
        "model": st.sampled_from(MODELS),
        "system": st.sampled_from(["h200_sxm", "b300_sxm", "gb200", "gh200", "mi300x"]),
        "engine": st.sampled_from(ENGINES),
        "tp": st.sampled_from([4, 8]),
        "mode": st.sampled_from(["static", "aggregated", "disaggregated"]),
        "isl": st.integers(1, 20_000),
        "osl": st.integers(1, 2_000),
    },
    optional={
        "batch": st.integers(1, 256),
        "pp": st.sampled_from([1, 2, 3]),
        "dp": st.sampled_from([1, 3]),
        "tier": st.sampled_from(["bound", "auto"]),
        "max_num_batched_tokens": st.sampled_from([512, 8192]),
        "decode_workers": st.integers(1, 4),
    },
)


def answered(fields: dict[str, Any]) -> Answer | None:
    if (fields["system"], fields["engine"]) == ("mi300x", "trtllm"):
        return None  # it runs on GPUs of NVIDIA
    if fields["mode"] != "static":
        fields = {("concurrency" if k == "batch" else k): v for k, v in fields.items()}
    unread = "dp" if fields["mode"] == "disaggregated" else "decode_workers"
    fields = {k: v for k, v in fields.items() if k != unread}
    refused = ""
    try:
        return estimate(**fields)
    except InfeasibleError:
        return None
    except InvalidSpecError as error:
        refused = str(error)
    assert "must be divisible" in refused  # a plan drawn at random
    return None


def _intervals_hold_their_value(fields: dict[str, Any], answer: Answer) -> None:
    for name in METRICS:
        low, value, high = (answer.results[name + end] for end in ("_low", "", "_high"))
        if value is None:  # one token has no time between tokens
            assert fields["osl"] == 1
            assert low is high is None
            continue
        assert value > 0
        assert low is None or 0 < low <= value, name
        assert high is None or value <= high < math.inf, name
    if answer.evidence.tier == "bound":
        # a lower limit on time has no upper end
        assert answer.results["ttft_s_high"] is None
        assert answer.results["output_tokens_per_s_per_gpu_low"] is None
    json.dumps(answer.to_dict(), allow_nan=False)


def _metrics_keep_their_definitions(fields: dict[str, Any], answer: Answer) -> None:
    results, osl = answer.results, fields["osl"]
    for end, other in (("", ""), ("_low", "_high"), ("_high", "_low")):
        ttft, tpot = results[f"ttft_s{end}"], results[f"tpot_s{end}"]
        if ttft is None or tpot is None:
            continue
        latency, added = results[f"request_latency_s{end}"], ttft + tpot * (osl - 1)
        # an answer says where its ends come from clients in different phases: together they are
        # further out than the end of the latency
        if end and any("different phases" in text for text in answer.evidence.assumptions):
            outer, inner = (added, latency) if end == "_low" else (latency, added)
            assert outer <= inner * (1.0 + 1e-9)
        else:
            assert latency == pytest.approx(added)
        assert results[f"output_tokens_per_s_per_user{other}"] == pytest.approx(1 / tpot)
    if fields["mode"] != "static":
        return
    gpus = fields["tp"] * fields.get("pp", 1)
    rate = fields.get("batch", 1) * osl / results["request_latency_s"]
    if "batch" in fields:
        assert results["output_tokens_per_s_per_gpu"] == pytest.approx(rate / gpus)
    assert results["gpus"] == gpus * fields.get("dp", 1)


def _memory_is_the_sum_of_its_parts_and_fits(answer: Answer) -> None:
    memory = answer.results["memory"]
    parts = ("weights_bytes", "kv_bytes", "activation_bytes", "other_bytes")
    assert memory["total_bytes"] == pytest.approx(sum(memory[part] for part in parts))
    assert memory["fits"]
    assert memory["total_bytes"] <= memory["capacity_bytes"]
    assert all(memory[part] >= 0 for part in parts)


def _breakdown_explains_the_step(fields: dict[str, Any], answer: Answer) -> None:
    for phase in ("prefill", "decode"):
        rows = [row for row in answer.breakdown if row["phase"] == phase]
        assert sum(row["share"] for row in rows) == pytest.approx(1.0)
        assert all(row["time_s"] >= row["bound_time_s"] * (1 - 1e-9) for row in rows)
        assert len({row["name"] for row in rows}) == len(rows)
        names = {row["bound"] for row in rows}
        assert names <= {"compute", "memory", "network", "latency", "host"}
    step_s = sum(row["time_s"] for row in answer.breakdown if row["phase"] == "decode")
    if fields["mode"] == "static" and fields.get("pp", 1) == 1:
        assert fields["osl"] == 1 or step_s == pytest.approx(answer.results["tpot_s"])


# a state-space model has a lower limit only; with faster steps its clients wait longer for the host
@example(
    fields={
        "model": "ai21labs/Jamba-v0.1", "system": "h200_sxm", "engine": "vllm", "tp": 4,
        "mode": "aggregated", "isl": 1, "osl": 3, "batch": 34,
    }
)  # fmt: skip
@given(fields=SCENARIOS)
@settings(max_examples=scaled_examples(2))
def test_metrics_intervals_memory_and_breakdown_hold_together(fields: dict[str, Any]) -> None:
    answer = answered(fields)
    if answer is None:
        return
    _metrics_keep_their_definitions(fields, answer)
    _intervals_hold_their_value(fields, answer)
    _memory_is_the_sum_of_its_parts_and_fits(answer)
    _breakdown_explains_the_step(fields, answer)


@pytest.mark.parametrize("pp", [1, 2, 4])
def test_one_chunk_and_one_batch_are_the_step(pp: int) -> None:
    answer = estimate(
        model="meta-llama/Llama-3.1-8B", system="h200_sxm", pp=pp, batch=1, isl=100, osl=2
    )
    chunk_s = sum(row["time_s"] for row in answer.breakdown if row["phase"] == "prefill")
    assert answer.results["ttft_s"] == pytest.approx(chunk_s)


@given(m=st.integers(1, 10**6), n=st.integers(1, 10**5), k=st.integers(1, 10**5))
def test_a_product_costs_what_its_breakdown_says(m: int, n: int, k: int) -> None:
    answer = kernel_gemm(system="h200_sxm", m=m, n=n, k=k)
    results = answer.results
    assert results["flop"] == 2.0 * m * n * k
    assert results["cold_bytes"] == 2.0 * n * k
    assert results["time_s_low"] <= results["time_s"] <= results["time_s_high"]
    assert results["bound_time_s"] <= results["time_s_low"]
    assert answer.breakdown[0]["time_s"] == results["time_s"]


@given(
    kv_len=st.integers(1, 10**6), batch=st.integers(1, 512), kind=st.sampled_from(["gqa", "mla"])
)
def test_decode_attention_reads_its_cache(kv_len: int, batch: int, kind: str) -> None:
    row = 2 * 8 * 128 * 2 if kind == "gqa" else (512 + 64) * 2
    results = kernel_attention(
        system="h200_sxm",
        kind=kind,
        batch=batch,
        kv_len=kv_len,
        num_heads=64,
        num_kv_heads=8 if kind == "gqa" else None,
        head_dim=128,
    ).results
    assert results["cold_bytes"] == batch * (kv_len - 1) * row
    assert results["bound_time_s"] <= results["time_s_low"] <= results["time_s_high"]


@given(tokens=st.integers(1, 10**5), ep=st.sampled_from([1, 2, 8]))
def test_experts_touch_no_more_weights_than_there_are(tokens: int, ep: int) -> None:
    results = kernel_moe(
        system="h200_sxm", tokens=tokens, hidden=2048, intermediate=768, experts=128, top_k=8, ep=ep
    ).results
    assert results["cold_bytes"] <= 3 * 128 / ep * 2048 * 768 * 2
    assert results["flop"] == pytest.approx(2 * 3 * tokens * 8 / ep * 2048 * 768)


def test_prompts_that_are_not_split_and_do_not_fit_together_go_one_by_one() -> None:
    """A step of 8,192 tokens holds one prompt of 5,000 and 3,192 more tokens."""
    asked = {"model": MODELS[0], "system": "h200_sxm", "engine": "trtllm", "isl": 5000, "osl": 2}
    one, three = (estimate(**asked, batch=batch).results["ttft_s"] for batch in (1, 3))
    assert three == pytest.approx(3.0 * one, rel=1e-12)
