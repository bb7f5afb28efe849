"""A search over plans with a setting of the exchange between attention data-parallel ranks."""

from __future__ import annotations

from typing import Any

import pytest

from perfatlas import estimate, search
from perfatlas.verbs.search import search as find_plans
from perfatlas.verbs.search.rows import estimate_fields, plan_row


def test_the_best_plan_with_two_batches_is_what_estimate_prices() -> None:
    asked: dict[str, Any] = {
        "model": "deepseek-ai/DeepSeek-V3",
        "system": "h200_sxm",
        "engine": "vllm",
        "isl": 1000,
        "osl": 100,
        "expert_exchange": "deepep",
        "batch_overlap": "two_batch",
    }
    found = search(**asked, gpus=16, concurrency=1024, num_simulated=0, emit="vllm")
    best = found.results["plans"][0]
    plan = {name: best[name] for name in ("tp", "pp", "attention_dp", "ep", "dp") if name in best}
    again = estimate(
        **asked,
        **plan,
        mode="aggregated",
        method="formula",
        concurrency=1024,
        max_num_batched_tokens=best["max_num_batched_tokens"],
    )
    assert best["tpot_s"] == pytest.approx(again.results["tpot_s"], rel=1e-9)
    assert any(row["hidden_time_s"] > 0.0 for row in again.breakdown)
    (command,) = found.results["launch"]
    assert "--enable-dbo" in command
    # vLLM has no backend that runs other kernels in each phase of one deployment
    assert any("leaves out expert_exchange" in one for one in found.answer.evidence.assumptions)


def test_candidates_that_are_not_split_do_not_change_those_that_are() -> None:
    found = find_plans(
        model="Qwen/Qwen3-30B-A3B",
        system="h100_sxm",
        gpus=16,
        concurrency=256,
        num_simulated=0,
        expert_exchange="deepep",
        batch_overlap="two_batch",
    )
    seen = 0
    for place in range(found.found.size):
        row = plan_row(found.found, place, found.inputs)
        if (row["tp"], row["ep"]) == (8, 16):
            fields = estimate_fields(found.found, row, place, found.inputs)
            assert row["ttft_s"] == pytest.approx(estimate(**fields).results["ttft_s"], rel=1e-9)
            seen += 1
    assert seen > 0
