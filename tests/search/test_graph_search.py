"""Searches of graphs of operators: static batches, copies and divided denoisers."""

from __future__ import annotations

from typing import Any

import pytest

from perfatlas import estimate, search
from perfatlas.quantities import InfeasibleError

ASKED: dict[str, Any] = {"model": "resnet-50", "system": "h100_sxm", "gpus": 8}


def test_a_plan_is_the_estimate_of_its_batch() -> None:
    found = search(**ASKED, engine="tensorrt", slo_request_latency_s=0.01)
    (plan,) = found.answer.results["plans"]
    own = estimate(**ASKED, engine="tensorrt", batch=plan["batch"]).results
    assert plan["request_latency_s"] == pytest.approx(own["latency_s"], rel=1e-12)
    for name in ("throughput_per_s_per_gpu", "energy_per_item_j", "usd_per_million_items"):
        assert plan[name] == pytest.approx(own[name], rel=1e-12)
    assert plan["request_latency_s"] < 0.01
    assert plan["binding_constraint"] == "slo_request_latency_s"
    assert {row["phase"] for row in found.answer.breakdown} == {"pass"}
    assert not [name for name in plan if "token" in name or "ttft" in name]
    assert found.columns["throughput_per_s_per_gpu"] == [plan["throughput_per_s_per_gpu"]]


def test_the_frontier_is_of_latency_and_throughput() -> None:
    points = search(**ASKED).answer.results["frontier"]
    latencies = [point["request_latency_s"] for point in points]
    rates = [point["throughput_per_s_per_gpu"] for point in points]
    assert latencies == sorted(latencies)
    assert rates == sorted(rates)
    assert latencies[0] == pytest.approx(estimate(**ASKED, batch=1).results["latency_s"])


def test_engines_formats_and_systems_are_ranked_together() -> None:
    results = search(
        **ASKED | {"gpus": None},
        max_gpus=16,
        systems=["h200_sxm"],
        formats=["bf16", "int8"],
        choices=["engine=inductor:tensorrt"],
        request_rate=50_000,
        objective="usd_per_million_items",
        num_plans=20,
    ).answer.results
    plans = {(one["system"], one["engine"], one["gemm_format"]) for one in results["plans"]}
    assert len(plans) == 6  # inductor does not run int8
    costs = [one["usd_per_million_items"] for one in results["plans"]]
    assert costs == sorted(costs)
    rates = [one["throughput_per_s_per_gpu"] * one["gpus"] for one in results["plans"]]
    assert min(rates) >= 50_000
    assert results["rejected"]["supported_by_system_and_engine"] == 2


def test_the_engine_is_that_of_the_device() -> None:
    found = search(model="resnet-50", system="tpu_v5e", gpus=8).answer
    assert found.scenario["engine"] == "xla@0.10"
    (plan,) = found.results["plans"]
    own = estimate(model="resnet-50", system="tpu_v5e", gpus=8, batch=plan["batch"]).results
    assert plan["request_latency_s"] == pytest.approx(own["latency_s"], rel=1e-12)


def test_denoisers_are_divided() -> None:
    found = search(
        model="flux.1-dev", system="h100_sxm", gpus=8, objective="request_latency_s", num_plans=9
    )
    plans = found.answer.results["plans"]
    assert [(one["cp"], one["dp"]) for one in plans] == [(8, 1), (4, 2), (2, 4), (1, 8)]
    assert found.answer.scenario["objective"] == "request_latency_s"
    assert "of a batch from its start" in " ".join(found.answer.evidence.assumptions)


def test_the_scenario_of_an_answer_gives_it_again() -> None:
    asked = {**ASKED, "model": "sdxl", "gpus": 4, "prefix": 0, "speculative_depth": 0}
    found = search(**asked, objective="usd_per_million_items").answer
    again = search(**found.scenario).answer
    assert (again.scenario, again.results) == (found.scenario, found.results)
    (plan,) = found.results["plans"]
    assert plan["why"].startswith("the next larger batch searched does not fit in memory")


def test_a_load_is_stated_per_replica() -> None:
    asked = {**ASKED, "model": "sdxl", "gpus": 4}
    with pytest.raises(InfeasibleError, match="dp 4, 64 requests"):
        search(**asked, request_rate=10_000)
    (plan,) = search(**asked, slo_request_latency_s=10).answer.results["plans"]
    assert plan["batch"] == 4
    assert "at 5 requests in flight per replica, latency is within 10.0 s" in plan["why"]


@pytest.mark.parametrize(("system", "other"), [("h100_sxm", "tpu_v6e"), ("tpu_v6e", "h100_sxm")])
def test_each_system_is_searched_with_its_own_engine(system: str, other: str) -> None:
    answer = search(model="resnet-50", system=system, systems=other, gpus=1).answer
    results = answer.results
    assert "engine" not in answer.scenario
    found = {(plan["system"], plan["engine"]) for plan in results["plans"]}
    assert found == {("h100_sxm", "inductor@2.13"), ("tpu_v6e", "xla@0.10")}
    assert results["rejected"] == {}
