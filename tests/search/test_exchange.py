"""A search over plans with a setting of the exchange between attention data-parallel ranks."""

from __future__ import annotations

from typing import Any

import pytest

from perfatlas import estimate, search
from perfatlas.quantities import UnsupportedError
from perfatlas.studies.deployments.rows import estimate_fields, plan_row
from perfatlas.verbs.search import search as find_plans


@pytest.mark.study
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
    found = search(**asked, gpus=16, concurrency=1024, num_simulated=0)
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
    # vLLM has no backend that runs other kernels in each phase of one deployment
    asked |= {"gpus": 16, "concurrency": 1024, "num_simulated": 0, "emit": "vllm"}
    with pytest.raises(UnsupportedError, match="deepep_normal or deepep_low_latency"):
        search(**asked)
    commands = search(**{**asked, "expert_exchange": "deepep_low_latency"}).results["launch"]
    assert len(commands) == 2  # of the first node and of the other one
    assert all("deepep_low_latency --enable-dbo" in command for command in commands)


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


@pytest.mark.parametrize(("ranks", "exchange"), [(32, None), (32, "deepep"), (8, None)])
def test_gathering_the_tokens_of_many_ranks_is_said(ranks: int, exchange: str | None) -> None:
    asked: dict[str, Any] = {} if exchange is None else {"expert_exchange": exchange}
    found = estimate(
        model="deepseek-ai/DeepSeek-V3",
        system="gb200",
        engine="sglang",
        attention_dp=ranks,
        ep=ranks,
        batch=64 * ranks,
        isl=4000,
        **asked,
    )
    texts = [one for one in found.warnings if "--expert-exchange deepep" in one]
    if (ranks, exchange) != (32, None):
        assert texts == []
        return
    start = "expert_exchange = all_gather_reduce_scatter gathers the tokens of all 32 attention-DP"
    assert texts[0].startswith(start)
    decode = [row for row in found.breakdown if row["phase"] == "decode"]
    moved_s = sum(row["time_s"] for row in decode if row["name"].endswith(("dispatch", "combine")))
    assert f"{moved_s / sum(row['time_s'] for row in decode):.0%} of the decode step" in texts[0]
