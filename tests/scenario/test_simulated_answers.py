"""Simulation results: utilization, seeds, its interval, steps and rejected requests."""

from __future__ import annotations

from typing import Any

import pytest

from perfatlas.scenario.deployments import containing_predictions
from perfatlas.verbs.simulate import simulate

DEPLOYED: dict[str, Any] = {"model": "meta-llama/Llama-3.1-8B-Instruct", "system": "h200_sxm"}
SMALL: dict[str, Any] = {**DEPLOYED, "isl": 512, "osl": 32, "num_requests": 60}


def answer_of(**fields: object) -> Any:  # noqa: ANN401 - an answer
    return simulate(**{**SMALL, **fields}).answer


def test_utilization_is_the_time_an_engine_runs() -> None:
    done = simulate(**SMALL, request_rate=2, engine="ideal", measured_at="engine")
    results = done.answer.results
    busy_s = float(done.outcome.busy_F[0]) / 1e12
    assert results["utilization"] == pytest.approx(busy_s / results["makespan_s"])
    assert 0.0 < results["utilization"] < 1.0
    # one request after the other and nothing between: an engine that never waits
    alone = answer_of(concurrency=1, measured_at="engine", engine="ideal").results
    assert alone["utilization"] == pytest.approx(1.0, rel=1e-3)
    two = answer_of(concurrency=1, measured_at="engine", engine="ideal", dp=2).results
    assert two["utilization"] == pytest.approx(0.5, rel=1e-2)


def test_utilization_of_replicas_that_vary_is_a_share() -> None:
    out = [{"replica": 0, "fails_at_s": 0.5, "back_at_s": 2, "kind": "drain"}]
    failing = answer_of(request_rate=20, dp=2, replica_events=out).results
    scaled = answer_of(request_rate=20, max_replicas=3, autoscale_target=2).results
    assert 0.0 < failing["utilization"] <= 1.0
    assert 0.0 < scaled["utilization"] <= 1.0
    kinds = answer_of(request_rate=20, replica_kinds=[{"dp": 1}, {"system": "a100_sxm"}]).results
    mean = (kinds["kind_1"]["utilization"] + kinds["kind_2"]["utilization"]) / 2
    assert kinds["utilization"] == pytest.approx(mean)
    pools = answer_of(request_rate=20, mode="disaggregated").results
    assert "utilization" not in pools
    assert 0.0 < pools["prefill_utilization"] < 1.0


def test_throughput_and_goodput_have_half_widths_over_seeds() -> None:
    apart = [answer_of(request_rate=20, slo_ttft_s=0.05, seed=seed).results for seed in (7, 8, 9)]
    found = answer_of(request_rate=20, slo_ttft_s=0.05, seed=7, num_seeds=3).results
    for name in (
        *("output_tokens_per_s", "requests_per_s", "goodput_requests_per_s", "slo_attainment"),
        *("makespan_s", "output_tokens_per_s_per_gpu", "utilization"),
    ):
        values = [one[name] for one in apart]
        mean = sum(values) / 3
        assert found[name] == pytest.approx(mean)
        spread = (sum((value - mean) ** 2 for value in values) / 2) ** 0.5
        # t of 2 degrees of freedom at 95 %: 2.92; 3 seeds
        wanted = 2.92 * spread / 3**0.5
        assert found[f"{name}_seed_half_width"] == pytest.approx(wanted, rel=1e-3)
    assert found["seeds_simulated"] == 3
    assert not [n for n in found if n.endswith(("_low_seed_half_width", "_high_seed_half_width"))]
    assert "kv_capacity_tokens_seed_half_width" not in found


def test_an_interval_contains_its_value() -> None:
    held = containing_predictions(
        {
            "ttft_s": {"mean": 2.0, "p99": None},
            "ttft_s_low": {"mean": 1.0, "p99": None},
            "ttft_s_high": {"mean": 1.5, "p99": None},
            "requests_per_s": 3.0,
            "requests_per_s_low": 2.0,
            "requests_per_s_high": 2.9,
        }
    )
    assert held["ttft_s_high"] == {"mean": 2.0, "p99": None}
    assert held["ttft_s_low"] == {"mean": 1.0, "p99": None}
    assert (held["requests_per_s_low"], held["requests_per_s_high"]) == (2.0, 3.0)


def test_an_interval_of_one_end_contains_its_value() -> None:
    assert containing_predictions({"makespan_s": 5.0, "makespan_s_low": 5.1}) == {
        "makespan_s": 5.0,
        "makespan_s_low": 5.0,
    }


def test_the_interval_of_what_a_search_finds_contains_it() -> None:
    held = containing_predictions(
        {"required_replicas": 3, "required_replicas_low": 4, "required_replicas_high": None}
    )
    assert (held["required_replicas_low"], held["required_replicas_high"]) == (3, None)


def test_outages_match_the_events() -> None:
    out = [{"replica": 0, "fails_at_s": 0.5, "down_for_s": 1}]
    done = simulate(**SMALL, request_rate=20, dp=2, replica_events=out)
    assert done.out_of_service() == [{"replica": 0, "from_s": 0.5, "to_s": 1.5, "kind": "crash"}]
    forever = [{"replica": 0, "fails_at_s": 0.5}]
    done = simulate(**SMALL, request_rate=20, dp=2, replica_events=forever)
    assert done.out_of_service()[0]["to_s"] is None
