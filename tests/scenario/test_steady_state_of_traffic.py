"""Run length, warm-up and stability of simulated traffic."""

from __future__ import annotations

import math
from typing import Any, Final

import pytest

from perfatlas.verbs.simulate import required_replicas, simulate

SERVED: Final[dict[str, Any]] = {
    "model": "meta-llama/Llama-3.1-8B-Instruct",
    "system": "h200_sxm",
    "isl": 1000,
    "osl": 100,
}


@pytest.fixture(scope="module")
def capacity() -> float:
    found = simulate(**SERVED, request_rate=1, num_requests=10).answer.results
    return float(found["capacity_requests_per_s"])


@pytest.mark.parametrize(
    ("share", "stability"), [(0.5, "stable"), (1.0, "near capacity"), (1.5, "overloaded")]
)
def test_the_verdict_follows_from_rates(capacity: float, share: float, stability: str) -> None:
    # ten requests say nothing about a queue, and yet the verdict is right
    found = simulate(**SERVED, request_rate=share * capacity, num_requests=10).answer.results
    assert found["stability"] == stability
    assert found["saturated"] is (stability == "overloaded")
    assert found["offered_load"] == pytest.approx(share, rel=1e-6)


def test_a_stable_run_is_as_precise_as_asked(capacity: float) -> None:
    coarse, fine = (
        simulate(**SERVED, request_rate=0.9 * capacity, sampling_precision=asked).answer.results
        for asked in (0.2, 0.08)
    )
    for asked, found in ((0.2, coarse), (0.08, fine)):
        assert found["precision_reached"]
        width = found["ttft_s_seed_half_width"]
        assert width["mean"] <= asked * found["ttft_s"]["mean"]
        assert width["p99"] <= 2 * asked * found["ttft_s"]["p99"]
    assert fine["measured_requests"] > coarse["measured_requests"]
    assert fine["requests_per_s"] == pytest.approx(0.9 * capacity, rel=0.08)


def test_an_overloaded_run_has_no_steady_latency_but_a_throughput(capacity: float) -> None:
    found = simulate(**SERVED, request_rate=1.1 * capacity).answer
    results = found.results
    for name in ("ttft_s", "request_latency_s", "queue_s"):
        assert set(results[name].values()) == {None}
    assert results["tpot_s"]["mean"] > 0
    assert results["requests_per_s"] == pytest.approx(capacity, rel=0.05)
    assert any(text.startswith("overloaded") for text in found.warnings)


def test_a_rate_that_slower_steps_cannot_serve_has_no_upper_limit(capacity: float) -> None:
    asked = {**SERVED, "sampling_precision": 0.5}
    results = simulate(**asked, request_rate=0.9 * capacity).answer.results
    assert results["ttft_s_low"]["mean"] <= results["ttft_s"]["mean"]
    assert results["ttft_s_high"]["mean"] is None
    calm = simulate(**asked, request_rate=0.3 * capacity).answer.results
    assert calm["ttft_s_high"]["mean"] >= calm["ttft_s"]["mean"]


@pytest.mark.parametrize("dp", [2, 16, 62])
def test_replicas_multiply_the_capacity(capacity: float, dp: int) -> None:
    found = simulate(**SERVED, request_rate=1, num_requests=10, dp=dp).answer.results
    assert found["capacity_requests_per_s"] == pytest.approx(dp * capacity, rel=0.01)


def test_overloaded_replicas_complete_as_many_requests_as_their_capacity(capacity: float) -> None:
    asked = {**SERVED, "dp": 8, "request_rate": 10 * capacity, "num_requests": 40_000}
    found = simulate(**asked).answer.results
    assert found["requests_per_s"] == pytest.approx(8 * capacity, rel=0.05)


def test_equal_pairs_of_pools_multiply_the_capacity() -> None:
    asked = {**SERVED, "mode": "disaggregated", "request_rate": 1, "num_requests": 10}
    one, ten = (
        simulate(**asked, prefill_workers=n, decode_workers=2 * n).answer.results for n in (1, 10)
    )
    each = one["capacity_requests_per_s"]
    assert ten["capacity_requests_per_s"] == pytest.approx(10 * each, rel=0.01)


def test_the_slowest_kind_limits_what_round_robin_can_serve(capacity: float) -> None:
    kinds = [{"dp": 1}, {"system": "l40s", "dp": 1}]
    asked = {**SERVED, "request_rate": 1, "num_requests": 10, "replica_kinds": kinds}
    slow = simulate(**{**SERVED, "system": "l40s"}, request_rate=1, num_requests=10).answer.results
    blind = simulate(**asked, routing="round_robin").answer.results["capacity_requests_per_s"]
    seeing = simulate(**asked, routing="least_loaded").answer.results["capacity_requests_per_s"]
    own = slow["capacity_requests_per_s"]
    assert blind == pytest.approx(2 * own, rel=0.03)
    assert seeing == pytest.approx(capacity + own, rel=0.03)


def test_a_slow_rate_is_cut_by_the_longest_time_of_a_simulation() -> None:
    found = simulate(**SERVED, request_rate=0.001).answer.results
    assert found["requests_completed"] < 8000
    assert found["stability"] == "stable"


@pytest.mark.parametrize("rate", [1e-4, 2e-6])
def test_a_rate_of_few_requests_in_the_longest_time_is_answered(rate: float) -> None:
    found = simulate(**SERVED, request_rate=rate).answer.results
    assert found["requests_completed"] == pytest.approx(2.5e6 * rate)
    assert found["stability"] == "stable"


def test_a_search_at_a_rate_of_few_requests_is_answered() -> None:
    found = required_replicas(**SERVED, request_rate=1e-4, slo_ttft_s=1).answer.results
    assert found["required_replicas"] == 1


def test_a_deployment_that_keeps_up_has_the_offered_rate_as_its_throughput(capacity: float) -> None:
    slack = simulate(**SERVED, request_rate=0.3 * capacity).answer.results
    for name in ("requests_per_s", "output_tokens_per_s"):
        of_arrivals = 1.645 * math.sqrt(2.0 / slack["measured_requests"])
        for end in ("low", "high"):  # only the arrivals of as many requests move it
            away = abs(math.log(slack[f"{name}_{end}"] / slack[name]))
            assert away == pytest.approx(of_arrivals, rel=0.1)
    near = simulate(**SERVED, request_rate=0.9 * capacity).answer
    text = next(text for text in near.warnings if "slow end" in text)
    slow = float(text.partition("capacity is ")[2].partition(" ")[0])
    assert near.results["requests_per_s_low"] == pytest.approx(slow, rel=0.01)
    of_arrivals = 1.645 * math.sqrt(2.0 / near.results["measured_requests"])
    most = near.results["requests_per_s"] * math.exp(of_arrivals)
    assert near.results["requests_per_s_high"] == pytest.approx(most, rel=0.01)
