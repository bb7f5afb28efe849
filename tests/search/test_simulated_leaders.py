"""The best plans of a search, scored again by simulation."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pytest

import perfatlas
from perfatlas.studies import value_exceeded
from perfatlas.studies.deployments.leaders import Leader
from perfatlas.studies.deployments.limits import ENDS
from perfatlas.studies.deployments.rows import estimate_fields
from perfatlas.verbs.search import search

ASKED: Final[dict[str, Any]] = {
    "model": "meta-llama/Llama-3.1-8B",
    "system": "h200_sxm",
    "gpus": 2,
    "isl": 1024,
    "osl": 64,
    "max_num_batched_tokens": 8192,
    "slo_ttft_s": 0.1,
    "slo_tpot_s": 0.03,
}


def test_simulated_plans_have_the_numbers_of_an_estimate_and_meet_the_limits() -> None:
    answer = search(**ASKED)
    plans = answer.results["plans"]
    simulated = [plan for plan in plans if plan["method"] == "simulate"]
    assert {(plan["tp"], plan["pp"]) for plan in simulated} == {(1, 1), (2, 1), (1, 2)}
    for plan in simulated:
        assert plan["slo_probability"] >= answer.inputs.min_slo_probability
        fields = {**estimate_fields(answer.found, plan, 0, answer.inputs), "method": "simulate"}
        estimate = perfatlas.estimate(**fields).results
        for name in ("ttft_s", "tpot_s", "tpot_s_high", "output_tokens_per_s_per_gpu"):
            assert plan[name] == pytest.approx(estimate[name], rel=1e-12), name
    rates = [plan["output_tokens_per_s_per_gpu"] for plan in plans]
    assert rates == sorted(rates, reverse=True)


@pytest.mark.study
def test_simulated_pools_have_the_numbers_of_an_estimate_and_meet_the_limits() -> None:
    asked = {**ASKED, "mode": "disaggregated", "gpus": 3, "pp": 1, "num_simulated": 4}
    answer = search(**asked)
    closed = search(**{**asked, "num_simulated": 0}).results["plans"]
    plans = answer.results["plans"]
    assert [plan["method"] for plan in plans] == ["simulate"] * len(plans)
    assert len(plans) > 1
    for plan in plans:
        assert plan["slo_probability"] >= answer.inputs.min_slo_probability
        place = next(
            place
            for place in range(answer.found.size)
            if all(
                answer.found.candidates[name][place] == plan[name]
                for name in ("prefill_tp", "decode_tp", "prefill_workers", "decode_workers")
            )
        )
        fields = {**estimate_fields(answer.found, plan, place, answer.inputs), "method": "simulate"}
        assert fields["concurrency"] == plan["concurrency"]
        estimate = perfatlas.estimate(**fields).results
        for name in ("ttft_s", "tpot_s", "tpot_s_high", "output_tokens_per_s_per_gpu"):
            assert plan[name] == pytest.approx(estimate[name], rel=1e-12), name
    fastest = closed[0]["output_tokens_per_s_per_gpu"]  # no pool exceeds its rate without a queue
    assert all(plan["output_tokens_per_s_per_gpu"] <= fastest * 1.02 for plan in plans)


def test_a_percentile_of_pools_is_simulated() -> None:
    asked = {**ASKED, "mode": "disaggregated", "gpus": 2, "slo_percentile": 99.0}
    plan = search(**asked).results["plans"][0]
    assert plan["tpot_percentile_s"] >= plan["tpot_s"]
    assert plan["ttft_percentile_s"] <= asked["slo_ttft_s"]


def _leader(rank: int, score: float, **changes: Any) -> Leader:  # noqa: ANN401 - fields of a leader
    row = {"method": "simulate", "gpus": 1, "request_latency_s": 1.0}
    fields: dict[str, Any] = {"index": 0, "row": row, "rank": rank, "score": score}
    return Leader(**{**fields, "probability": 1.0, "excess": 0.5, **changes})


def test_leaders_that_miss_a_limit_come_last() -> None:
    missing = _leader(1, 9.0, probability=0.1)
    order = sorted([missing, _leader(2, 1.0), _leader(3, 2.0)], key=lambda one: one.order(0.8))
    assert [one.rank for one in order] == [3, 2, 1]


def test_replicas_are_counted_again_where_the_simulated_rate_is_lower() -> None:
    asked = {n: v for n, v in ASKED.items() if n != "gpus"}
    asked |= {"max_gpus": 6, "tp": 1, "pp": 1, "objective": "gpus", "num_plans": 1}
    (plan,) = search(**asked, request_rate=60, num_simulated=0).results["plans"]
    ends = [np.array([plan[f"output_tokens_per_s_per_gpu{end}"] / 64]) for end in ENDS]
    served = float(value_exceeded(ends[0], ends[1], ends[2], 0.8)[0])
    rate = served * plan["dp"] * (1.0 - 1e-6)  # as much as these replicas serve by closed forms
    (closed,) = search(**asked, request_rate=rate, num_simulated=0).results["plans"]
    (found,) = search(**asked, request_rate=rate).results["plans"]
    assert closed["dp"] == plan["dp"]
    assert found["slo_probability"] >= 0.8
    ends = [np.array([found[f"output_tokens_per_s_per_gpu{end}"] / 64]) for end in ENDS]
    assert float(value_exceeded(ends[0], ends[1], ends[2], 0.8)[0]) * found["dp"] >= rate
    assert found["dp"] == closed["dp"] + 1
