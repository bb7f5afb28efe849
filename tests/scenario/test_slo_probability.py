"""Probability that a deployment meets its SLOs, and that its load is stable."""

from __future__ import annotations

from typing import Any

import pytest

from perfatlas.sampling import normal_quantile
from perfatlas.scenario.deployments import StepScale, prices_at
from perfatlas.scenario.resolution import split_fields
from perfatlas.studies.traffic import WatchedRuns, slo_probability, smallest_size
from perfatlas.studies.traffic.judged_sizes import HIGHEST, SizeSearch, load_on_one
from perfatlas.verbs.simulate import required_replicas, simulate

ASKED: dict[str, Any] = {
    "model": "meta-llama/Llama-3.1-8B-Instruct",
    "system": "h200_sxm",
    "isl": 1024,
    "osl": 16,
    "request_rate": 150,
    "slo_ttft_s": 0.08,
}
ENDS = {"low": (StepScale(0.8, 0.8),), "high": (StepScale(1.5, 1.3, 1.2),)}


def _search() -> SizeSearch:
    traffic, scenario = split_fields(ASKED)
    search = SizeSearch(scenario=scenario, traffic=traffic, known={}, runs=WatchedRuns())
    search.each = load_on_one(search)
    return search


def test_the_probability_grows_with_replicas_from_one_half_to_the_slow_end() -> None:
    search = _search()
    at = {p: smallest_size(search.at_prices(prices_at(ENDS, p))) for p in (0.5, 0.8, 0.95)}
    assert at[0.5] == smallest_size(search)
    assert at[0.95] == smallest_size(search.at_prices(ENDS["high"]))
    assert at[0.5] < at[0.8] < at[0.95]
    found = {size: slo_probability(search, size, ENDS) for size in at.values()}
    assert sorted(found.values()) == list(found.values())
    assert 0.5 <= found[at[0.5]] < 0.8 <= found[at[0.8]] < 0.95 <= found[at[0.95]] <= HIGHEST


def test_the_answer_has_the_probability_of_its_number_and_the_number_of_80_percent() -> None:
    results = required_replicas(**ASKED).answer.results
    numbers = [results[f"required_replicas{end}"] for end in ("_low", "", "_p80", "_high")]
    assert sorted(numbers) == numbers
    assert (results["slo_probability"] >= 0.8) == (numbers[1] == numbers[2])


@pytest.mark.study
def test_two_pools_have_the_numbers_of_both() -> None:
    results = required_replicas(**(ASKED | {"mode": "disaggregated"})).answer.results
    for pool in ("prefill", "decode"):
        assert results[f"required_{pool}_workers_p80"] >= 1
    assert 0.5 <= results["slo_probability"] <= HIGHEST


def test_near_the_capacity_the_load_is_stable_with_a_probability() -> None:
    served = {name: value for name, value in ASKED.items() if name not in ("dp", "slo_ttft_s")}
    capacity = simulate(**served | {"request_rate": 10}).answer.results["capacity_requests_per_s"]
    near, calm = (
        simulate(**served | {"request_rate": share * capacity}).answer for share in (0.85, 0.1)
    )
    assert 0.5 < near.results["stable_probability"] < 0.95
    assert near.results["tpot_s_high"]["mean"] is None
    assert any("no upper limits of latencies" in text for text in near.warnings)
    assert "stable_probability" not in calm.results
    assert calm.results["tpot_s_high"]["mean"] > calm.results["tpot_s"]["mean"]


def test_step_times_by_probability_are_lognormal() -> None:
    (scale,) = prices_at(ENDS, 0.8)
    assert scale.decode == pytest.approx(1.5 ** (normal_quantile(0.8) / normal_quantile(0.95)))
    assert prices_at(ENDS, 0.95)[0] == pytest.approx(ENDS["high"][0])
