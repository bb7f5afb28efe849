"""Models and plans of a kind that no measured run has: a wider interval, and a warning."""

from __future__ import annotations

import math
from typing import Any

import pytest

from perfatlas.answer import Answer
from perfatlas.engines import unseen_kinds
from perfatlas.inference import step_tails
from perfatlas.networks import resolve_model
from perfatlas.scenario.resolution import resolve
from perfatlas.verbs.estimate import estimate, estimate_table
from perfatlas.verbs.search import search
from perfatlas.verbs.simulate import simulate

HYBRID = "Qwen/Qwen3.5-27B"
PLAIN = "meta-llama/Llama-3.1-8B"
LOAD: dict[str, Any] = {"isl": 512, "osl": 64, "system": "h200_sxm"}
WORDS = "too few measured runs"


def warned(answer: Answer) -> list[str]:
    return [text for text in answer.warnings if WORDS in text]


def static(model: str, **fields: Any) -> Answer:  # noqa: ANN401
    return estimate(**{"model": model, "mode": "static", "batch": 8, **LOAD, **fields})


@pytest.mark.parametrize(
    ("model", "kinds"),
    [
        (PLAIN, ()),
        (HYBRID, ("gated delta nets",)),
        ("openai/gpt-oss-20b", ("attention sinks",)),
        ("nvidia/NVIDIA-Nemotron-Nano-9B-v2", ("Mamba-2 layers",)),
        ("zai-org/GLM-5", ("latent attention", "sparse attention")),
    ],
)
def test_kinds_are_what_layers_have_beside_full_attention(
    model: str, kinds: tuple[str, ...]
) -> None:
    assert resolve_model(model).network.kinds == kinds


def test_steps_of_an_unseen_kind_take_up_to_the_slowest_known_kind() -> None:
    """By hand: exp(1.843) = 6.32 times as long, or exp(-0.44) = 0.64 times."""
    assert (unseen_kinds().low, unseen_kinds().high) == (-0.44, 1.843)
    results = static(HYBRID, engine="vllm").results
    assert results["tpot_s_high"] == pytest.approx(6.3155 * results["tpot_s"], rel=1e-3)
    assert results["ttft_s_high"] == pytest.approx(6.3155 * results["ttft_s"], rel=2e-2)
    assert results["tpot_s_low"] < 0.70 * results["tpot_s"]  # 0.64, or its roofline


@pytest.mark.parametrize(
    ("model", "fields"),
    [
        (HYBRID, {"engine": "vllm"}),
        (HYBRID, {"engine": "trtllm"}),
        ("openai/gpt-oss-20b", {"engine": "sglang"}),
        (PLAIN, {"engine": "vllm", "tp": 16}),
        ("nvidia/NVIDIA-Nemotron-Nano-9B-v2", {"engine": "vllm", "system": "b200_sxm"}),  # 12 runs
        ("openai/gpt-oss-20b", {"engine": "vllm", "system": "a100_sxm"}),  # seen on Hopper
    ],
)
def test_every_answer_of_an_unseen_kind_contains_its_limits(
    model: str, fields: dict[str, Any]
) -> None:
    answer, unseen = static(model, **fields), unseen_kinds()
    results = answer.results
    for name, sign in (("tpot_s", 1.0), ("output_tokens_per_s_per_gpu", -1.0)):
        slow, fast = ("_high", "_low") if sign > 0.0 else ("_low", "_high")
        logs = {end: sign * math.log(results[name + end] / results[name]) for end in (slow, fast)}
        assert logs[slow] >= unseen.high - 0.01
        assert logs[fast] < 0.0
    costs = (results[f"usd_per_million_output_tokens{end}"] for end in ("", "_high"))
    assert math.log(1.0 / next(costs) * next(costs)) >= unseen.high - 0.01
    (text,) = warned(answer)
    assert fields.get("engine", "vllm") in text


@pytest.mark.parametrize(
    ("model", "fields"),
    [
        (PLAIN, {"engine": "vllm"}),
        (HYBRID, {"engine": "sglang"}),
        ("openai/gpt-oss-20b", {"engine": "vllm"}),
        (HYBRID, {"engine": "ideal"}),
        (HYBRID, {"engine": "vllm", "tier": "bound"}),
    ],
)
def test_a_seen_kind_has_the_interval_of_before(model: str, fields: dict[str, Any]) -> None:
    assert not warned(static(model, **fields))
    asked = {"model": model, "mode": "static", "batch": 8, **LOAD, **fields}
    (group,) = resolve({name: [value] for name, value in asked.items()}).groups
    pool = group.pools[0]
    assert pool is not None
    tails = step_tails(pool[1])
    assert (tails.unseen_low, tails.unseen_high) == (0.0, 0.0)  # at least 0, as every interval


def test_warnings_name_the_kind_once_in_every_verb() -> None:
    name = "gated delta nets under vllm on hopper"
    load = {"model": HYBRID, "engine": "vllm", **LOAD}
    answers = [
        estimate(**load, mode="aggregated", concurrency=4),
        estimate(**load, mode="disaggregated", prefill_workers=1, decode_workers=1, concurrency=4),
        simulate(**load, concurrency=2, num_requests=4).answer,
        search(**load, mode="aggregated", gpus=1, concurrency=4).answer,
    ]
    for answer in answers:
        (text,) = warned(answer)
        assert name in text
    table = {field: [value] * 2 for field, value in load.items()} | {"model": [HYBRID, PLAIN]}
    texts = estimate_table(table).columns["warnings"]
    assert [text.count(WORDS) for text in texts] == [1, 0]


def test_tensor_parallelism_across_nodes_is_a_kind_of_each_plan() -> None:
    inside, across = (static(PLAIN, engine="vllm", tp=tp) for tp in (8, 16))
    assert not warned(inside)
    assert "tensor parallelism across nodes" in warned(across)[0]
    # Source: tt-inference-server#356: DeepSeek-R1 on 16 H100 takes 23.1 or 31.2 ms per token
    asked = {"system": "h100_sxm", "tp": 16, "batch": 1, "isl": 128, "osl": 128}
    published = static("deepseek-ai/DeepSeek-R1-0528", engine="sglang", **asked).results
    for measured_s in (23.1e-3, 31.2e-3):
        assert published["tpot_s_low"] < measured_s < published["tpot_s_high"]
