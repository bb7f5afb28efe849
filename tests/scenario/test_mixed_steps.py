"""A prompt beside decodes: closed form of mixed steps."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from perfatlas.engines import resolve_engine, tokenizing
from perfatlas.verbs.estimate import estimate, estimate_table

DENSE = {
    "model": "meta-llama/Llama-3.1-8B",
    "system": "h200_sxm",
    "mode": "aggregated",
    "method": "formula",
}


def operators(answer: Any, phase: str) -> dict[str, dict[str, Any]]:  # noqa: ANN401
    return {row["name"]: row for row in answer.breakdown if row["phase"] == phase}


def test_a_mixed_step_by_hand() -> None:
    # 32 requests in flight of 1,000 tokens in and 500 out: a prompt meets 31 decodes
    answer = estimate(**DENSE, engine="vllm", concurrency=32, isl=1000, osl=500)
    mixed, decode = operators(answer, "prefill"), operators(answer, "decode")
    step_s = {
        phase: sum(row["time_s"] for row in rows.values())
        for phase, rows in (("mixed", mixed), ("decode", decode))
    }
    attention_s = decode["attention"]["time_s"]
    added_s = step_s["mixed"] + attention_s - step_s["decode"]
    tpot_s = step_s["decode"] + 31 / 500 * added_s
    assert answer.results["tpot_s"] == pytest.approx(tpot_s, rel=2e-3)
    # half of the step in flight and the one decided already, and the way to the client
    front = resolve_engine("vllm").front
    read_s = tokenizing(128256, "natural").token_s * 1000
    late_s = front.request_s + read_s + front.token_s + 1.5 * step_s["decode"]
    late_s += front.token_s * 31 / 2  # behind the tokens of the others, on average
    assert answer.results["ttft_s"] == pytest.approx(
        step_s["mixed"] + attention_s + late_s, rel=2e-3
    )


def test_linear_layers_see_both_and_attention_its_own() -> None:
    alone = estimate(**DENSE, engine="vllm", concurrency=1, isl=1000, osl=500)
    shared = estimate(**DENSE, engine="vllm", concurrency=256, isl=1000, osl=500)
    before, after = operators(alone, "prefill"), operators(shared, "prefill")
    assert after["gate_up_projection"]["time_s"] > before["gate_up_projection"]["time_s"]
    assert after["attention"]["time_s"] == before["attention"]["time_s"]


def test_an_engine_that_does_not_mix_pays_the_whole_prefill() -> None:
    alone = estimate(**DENSE, engine="sglang", concurrency=1, isl=1000, osl=500)
    shared = estimate(**DENSE, engine="sglang", concurrency=256, isl=1000, osl=500)
    before, after = operators(alone, "prefill"), operators(shared, "prefill")
    assert {name: row["time_s"] for name, row in after.items()} == {
        name: row["time_s"] for name, row in before.items()
    }


@pytest.mark.parametrize("engine", ["vllm", "sglang", "trtllm"])
@pytest.mark.parametrize(
    ("isl", "osl", "budget"), [(1024, 128, 512), (4096, 2, 8192), (64, 64, 64)]
)
def test_a_step_is_never_asked_for_more_tokens_than_it_holds(
    engine: str, isl: int, osl: int, budget: int
) -> None:
    concurrency = [1, 2, 4, 8, 16, 57, 64, 128, 256, 400, 500, 512, 1000]
    size = len(concurrency)
    shared = {**DENSE, "engine": engine, "isl": isl, "osl": osl, "max_num_batched_tokens": budget}
    columns = estimate_table(
        {name: [value] * size for name, value in shared.items()} | {"concurrency": concurrency}
    ).columns
    if engine == "trtllm" and isl > budget:  # it does not split prompts
        assert set(columns["error_code"]) == {"infeasible"}
        return
    tpot_s = columns["tpot_s"]
    assert all(after >= before * 0.99 for before, after in pairwise(tpot_s))
    if engine != "sglang":
        # B sequences bring B isl/osl prompt tokens a step: more than budget osl/(isl + osl) wait
        fed = 1 + budget * osl // (isl + osl)
        most = estimate(**shared, concurrency=max(fed, 1)).results["tpot_s"]
        assert tpot_s[-1] == pytest.approx(most)
