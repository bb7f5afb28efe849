"""Attention on one machine, feed-forward networks on another: parts, composition and refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import perfatlas
from perfatlas.inference.split_layers import passed_s
from perfatlas.networks import resolve_model
from perfatlas.quantities import InvalidSpecError, UnsupportedError
from perfatlas.report.text import headline

SPLIT: dict[str, Any] = {
    "model": "meta-llama/Llama-3.1-8B",
    "system": "h200_sxm",
    "engine": "ideal",
    "batch": 16,
    "feed_forward_system": "h200_sxm",
}
EXPERTS: dict[str, Any] = {
    "model": "Qwen/Qwen3-30B-A3B",
    "system": "h200_sxm",
    "format": "fp8",
    "dp": 2,
    "batch": 64,
    "feed_forward_system": "groq_3_lpu",
    "feed_forward_engine": "ideal",
    "feed_forward_tp": 64,
    "feed_forward_ep": 32,
    "feed_forward_pp": 2,
}


def test_parts_share_the_parameters() -> None:
    for name in ("meta-llama/Llama-3.1-8B", "deepseek-ai/DeepSeek-V3", "google/gemma-2-9b"):
        whole = resolve_model(name).network
        attention, feed_forward = (part.parameters() for part in whole.split())
        final_norm = whole.hidden_size  # counted by both
        both = attention.total + feed_forward.total - final_norm
        assert both == pytest.approx(whole.parameters().total, rel=1e-6)
        assert feed_forward.embedding == feed_forward.lm_head == attention.expert == 0


def test_alternation_by_hand() -> None:
    # 5 ms of attention, 2 of experts, 1 of each transfer: 9 ms pass the layers, 2 x 5 keep
    # attention busy, and 3 x 5
    one = np.ones(1)
    times = [float(passed_s(5 * one, 2 * one, one, m * one)[0]) for m in (1, 2, 3)]
    assert times == [9.0, 10.0, 15.0]


@given(
    attention=st.floats(1e-6, 1.0), rest=st.floats(1e-6, 1.0), link=st.floats(0, 1.0),
    parts=st.integers(1, 8),
)  # fmt: skip
def test_micro_batches_neither_idle_nor_overtake(
    attention: float, rest: float, link: float, parts: int
) -> None:
    one = np.ones(1)
    found = float(passed_s(attention * one, rest * one, link * one, parts * one)[0])
    assert found >= parts * max(attention, rest, link)
    assert found <= parts * (attention + rest + 2.0 * link) * (1.0 + 1e-12)


def test_one_micro_batch_takes_both_parts_and_the_links() -> None:
    whole = perfatlas.estimate(**{n: v for n, v in SPLIT.items() if "forward" not in n})
    split = perfatlas.estimate(**SPLIT)
    rows = sum(row["time_s"] for row in split.breakdown)
    links_s = split.results["tpot_s"] - rows
    # 32 layers x 2 x (16 x 4096 x 2 bytes over 50 GB/s, and the latency of the fabric)
    assert links_s == pytest.approx(64 * (16 * 4096 * 2 / 50e9 + 5e-6), rel=0.5)
    assert rows == pytest.approx(whole.results["tpot_s"], rel=0.02)
    assert split.results["gpus"] == 2
    busy = split.results["attention_busy"] + split.results["feed_forward_busy"]
    assert busy == pytest.approx(rows / split.results["tpot_s"])


def test_experts_on_a_scheduled_machine_have_no_upper_end() -> None:
    answer = perfatlas.estimate(**EXPERTS)
    found = answer.results
    assert found["gpus"] == 2 + 128
    assert found["tpot_s_high"] is None
    assert 0.0 < found["tpot_s_low"] <= found["tpot_s"]
    assert found["power_w"] is None
    assert found["feed_forward_memory"]["kv_bytes"] == 0.0
    assert any("not validated" in text for text in answer.warnings)
    assert perfatlas.estimate(**answer.scenario).results == found
    busy = perfatlas.estimate(**EXPERTS, micro_batches=2).results
    assert busy["attention_busy"] > found["attention_busy"]


def test_a_frontier_and_a_network_without_both_parts_are_refused() -> None:
    without_batch = {n: v for n, v in SPLIT.items() if n != "batch"}
    with pytest.raises(InvalidSpecError, match="sweeps one machine"):
        perfatlas.frontier(**without_batch)
    _, feed_forward = resolve_model("meta-llama/Llama-3.1-8B").network.split()
    with pytest.raises(UnsupportedError, match="cannot be split"):
        feed_forward.split()


def test_attention_on_a_slice_takes_the_chips_of_its_plan() -> None:
    fields = SPLIT | {"system": "v5p-16", "engine": "vllm_tpu", "tp": 8, "feed_forward_tp": 8}
    fields |= {"feed_forward_engine": "vllm"}
    answer = perfatlas.compare(**fields, systems=["v6e-8"])
    assert [row["label"] for row in answer.results["rows"]] == ["v5p-16", "v6e-8"]
    assert perfatlas.estimate(**fields).results["gpus"] == 16


@pytest.mark.parametrize("parts", [1, 2, 3])
def test_simulated_batch_takes_the_steps_of_the_closed_form(parts: int) -> None:
    # 24 short prompts that begin together, then decode steps of 2 x 12 sequences alone
    asked = EXPERTS | {"isl": 16, "osl": 400, "micro_batches": parts, "engine": "ideal"}
    asked |= {"feed_forward_system": "h200_sxm", "feed_forward_tp": 4, "feed_forward_ep": 4}
    asked |= {"feed_forward_pp": 1}
    closed = perfatlas.estimate(**asked | {"batch": 12}).results
    traffic = asked | {"concurrency": 24, "num_requests": 24, "batch": None}
    found = perfatlas.simulate(**traffic)
    assert found.answer.results["tpot_s"]["p50"] == pytest.approx(closed["tpot_s"], rel=0.01)
    assert found.answer.results["gpus"] == closed["gpus"] == 6


def test_simulated_requests_share_the_machine_of_feed_forward_networks() -> None:
    asked = {name: value for name, value in EXPERTS.items() if name not in ("batch", "dp")}
    asked |= {"isl": 256, "osl": 64, "num_requests": 200, "request_rate": 40}
    drafts: dict[str, Any] = {"speculative_depth": 2, "speculative_acceptance": 0.7}
    pools: dict[str, Any] = {"mode": "disaggregated", "decode_workers": 2}
    for more in ({"dp": 2}, drafts, pools, {"max_replicas": 2, "autoscale_target": 8}):
        found = perfatlas.simulate(**asked, **more).answer
        assert found.results["requests_completed"] == 200
        assert found.scenario["feed_forward_tp"] == 64
        assert "energy_j" not in found.results or found.results["energy_j"] is None
    with pytest.raises(InvalidSpecError, match="set pp and cp to 1, and feed_forward_pp"):
        perfatlas.simulate(**asked, pp=2)


def test_machines_of_feed_forward_networks_cost_and_count_where_replicas_scale() -> None:
    asked = {name: value for name, value in EXPERTS.items() if name not in ("batch", "dp")}
    asked |= {"isl": 2048, "osl": 64, "num_requests": 300, "request_rate": 20}
    asked |= {"feed_forward_system": "h200_sxm", "feed_forward_tp": 1, "feed_forward_ep": 1}
    asked |= {"feed_forward_pp": 1, "usd_per_gpu_hour": 3.0}
    scaled: dict[str, Any] = {"min_replicas": 2, "max_replicas": 3, "autoscale_target": 8}
    found = perfatlas.simulate(**asked, **scaled).answer
    assert found.results["gpus"] == 6
    served = found.results["output_tokens_per_s"] / found.results["replicas_on_average"] / 2
    assert found.results["output_tokens_per_s_per_gpu"] == pytest.approx(served, rel=0.02)
    assert " on 3 x h200_sxm and 3 x h200_sxm, " in headline(found.to_dict())
    one = perfatlas.simulate(**asked).answer
    assert one.results["usd_per_hour"] == pytest.approx(6.0)
    assert one.results["usd_per_million_input_tokens"] > 0
    assert one.results["power_w"] is None
    assert one.results["feed_forward_memory"]["kv_bytes"] == 0.0
    assert one.results["memory"]["kv_bytes"] > 0.0
    with pytest.raises(UnsupportedError, match="the power of split layers is not predicted"):
        perfatlas.simulate(**asked, node_power_cap_w=3000)
    with pytest.raises(InvalidSpecError, match="replicas of attention \\(dp\\) share one machine"):
        perfatlas.required_replicas(**asked, slo_ttft_s=1)
    with pytest.raises(InvalidSpecError, match="feed_forward_tp = 1, feed_forward_ep = 2, of the"):
        perfatlas.simulate(**asked | {"feed_forward_ep": 2})
