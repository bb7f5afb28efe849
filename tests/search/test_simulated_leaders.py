"""The best plans of a search, scored again by simulation."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pytest

import perfatlas
from perfatlas.studies import probability_at_most, value_exceeded
from perfatlas.studies.deployments.leaders import Leader
from perfatlas.studies.deployments.limits import ENDS
from perfatlas.studies.deployments.rows import estimate_fields
from perfatlas.verbs.search import search
from perfatlas.verbs.search.text import ranking_notes

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
# pipeline stages are simulated without drafts alone
DRAFTING: Final = ASKED | {"speculative_depth": 1, "speculative_acceptance": 0.7}


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


@pytest.mark.study
def test_fewer_plans_than_asked_for_are_explained() -> None:
    known = search(**ASKED, num_simulated=1, num_plans=3).results
    assert len(known["plans"]) == 1
    assert "limits the number of ranked plans: raise it for num_plans = 3" in known["ranking"][-1]
    known = search(**ASKED, num_simulated=3, num_plans=1).results
    assert len(known["plans"]) == 1
    assert not any("num_plans" in note for note in known["ranking"])


@pytest.mark.study
def test_queueing_lowers_the_load_of_a_tight_first_token_limit() -> None:
    closed = {plan["tp"]: plan for plan in search(**ASKED, num_simulated=0).results["plans"]}
    for plan in search(**ASKED).results["plans"]:
        if plan["method"] == "simulate":
            before = closed[plan["tp"]]["concurrency"]
            assert plan["concurrency"] <= before
            lowered = plan["concurrency"] < before
            assert lowered == (plan["binding_constraint"] == "simulation")


def test_a_lowered_load_is_told_from_an_equal_one() -> None:
    at_first = {"concurrency": 64, "dp": 2}
    row = {"method": "simulate", "concurrency": 48, "dp": 2}
    assert _leader(1, 1.0, row=row, at_first=at_first).is_lowered
    assert not _leader(1, 1.0, row={**row, "concurrency": 64}, at_first=at_first).is_lowered
    assert not _leader(
        1, 1.0, row={**row, "concurrency": 96, "dp": 3}, at_first=at_first
    ).is_lowered
    assert not _leader(1, 1.0, row=row).is_lowered


def _leader(rank: int, score: float, **changes: Any) -> Leader:  # noqa: ANN401 - fields of a leader
    row = {"method": "simulate", "gpus": 1, "request_latency_s": 1.0}
    fields: dict[str, Any] = {"place": 0, "row": row, "rank": rank, "score": score}
    return Leader(**{**fields, "probability": 1.0, "excess": 0.5, **changes})


def test_the_change_of_the_ranking_is_explained() -> None:
    at_first = {"concurrency": 64, "ttft_s": 0.5, "formula_ttft_s": 0.125}
    fallen = _leader(1, 3.0, at_first=at_first)
    notes = ranking_notes([_leader(2, 4.0), fallen])
    assert notes[0].endswith("the best by closed forms falls to rank 2; 2 plans change rank")
    (note,) = notes[1:]
    assert note == (
        "at 64 requests in flight, the best by closed forms has a TTFT of 0.5 s with queueing and"
        " 0.125 s without"
    )
    (note,) = ranking_notes([_leader(1, 4.0), _leader(2, 3.0)])
    assert note.endswith("the best by closed forms stays first")
    (note,) = ranking_notes([_leader(1, 4.0)])
    assert note == "the plan is simulated: the best by closed forms stays first"
    (note,) = ranking_notes([_leader(1, 4.0, row={"method": "formula"}, note="too long")])
    assert note == "the plan is not simulated: too long"
    (note,) = ranking_notes([_leader(1, 4.0), _leader(3, 3.0), _leader(2, 2.0)])
    assert note.endswith("the best by closed forms stays first; 2 others change rank")


def test_plans_that_rank_first_without_a_simulation_are_told() -> None:
    formula = {"method": "formula", "gpus": 1, "request_latency_s": 1.0}
    leaders = [_leader(1, 4.0, row=formula), _leader(2, 3.5, row=formula), _leader(3, 3.0)]
    _, note = ranking_notes(leaders)
    assert note == (
        "the first 2 plans are ranked by closed forms, which leave out queueing and may favor them:"
        " prefer the best simulated plan, at rank 3, unless a benchmark of both confirms the order"
    )
    _, note = ranking_notes(leaders[:1] + leaders[2:])
    assert note.startswith("the first plan is ranked by closed forms")
    staged = [_leader(1, 4.0, row={**formula, "pp": 2}), leaders[2]]
    assert ranking_notes(staged)[1].endswith("set pp = 1 to search plans that can be simulated")


def test_leaders_that_miss_a_limit_come_last() -> None:
    missing = _leader(1, 9.0, probability=0.1)
    order = sorted([missing, _leader(2, 1.0), _leader(3, 2.0)], key=lambda one: one.order(0.8))
    assert [one.rank for one in order] == [3, 2, 1]


@pytest.mark.study
def test_an_inter_token_limit_is_the_limit_of_the_time_per_output_token() -> None:
    by_tpot = search(**{**ASKED, "num_simulated": 0})
    by_itl = search(**{**ASKED, "num_simulated": 0, "slo_tpot_s": None, "slo_itl_s": 0.03})
    for name, cells in by_tpot.columns.items():
        told = [str(cell).replace("slo_tpot_s", "slo_itl_s") for cell in cells]
        assert [str(cell) for cell in by_itl.columns[name]] == told, name
    tighter = search(**{**ASKED, "num_simulated": 0, "slo_itl_s": 0.01})
    assert tighter.columns["slo_probability"] != by_tpot.columns["slo_probability"]
    rows = tighter.explained().results["break_even"]
    assert {row["target"] for row in rows if row["metric"] == "tpot_s"} == {0.01}


@pytest.mark.study
def test_plans_meet_the_limits_at_the_percentile() -> None:
    answer = search(**{**ASKED, "slo_percentile": 95})
    plans = answer.results["plans"]
    assert {plan["method"] for plan in plans} == {"simulate"}
    by_means = {plan["tp"]: plan for plan in search(**ASKED).results["plans"] if plan["pp"] == 1}
    for plan in plans:
        assert plan["ttft_percentile_s"] <= ASKED["slo_ttft_s"]
        low, high = plan["ttft_percentile_s_low"], plan["ttft_percentile_s_high"]
        assert low <= plan["ttft_percentile_s"] <= high
        met = [
            _probability(plan, "ttft", ASKED["slo_ttft_s"]),
            _probability(plan, "tpot", ASKED["slo_tpot_s"]),
        ]
        assert 0.8 <= plan["slo_probability"] <= min(met) + 1e-9  # also of clients together
        assert plan["concurrency"] <= by_means[plan["tp"]]["concurrency"]
    lowered = next(plan for plan in plans if plan["binding_constraint"] == "simulation")
    assert "simulated p95 of TTFT is within 100 ms with probability" in lowered["why"]


def _probability(plan: dict[str, Any], name: str, limit: float) -> float:
    at, low, high = (np.array([plan[f"{name}_percentile_s{end}"]]) for end in ENDS)
    return float(probability_at_most(at, low, high, limit)[0])


@pytest.mark.study
def test_plans_without_percentiles_are_left_out() -> None:
    answer = search(**{**DRAFTING, "slo_percentile": 95})
    assert {plan["method"] for plan in answer.results["plans"]} == {"simulate"}
    assert answer.results["ranking"][-1].endswith("left out: closed forms have no p95")


def test_closed_forms_tell_the_best_so_far(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("perfatlas.verbs.search.answer.EVERY_S", 0.0)
    lines: list[str] = []
    answer = search(progress=lines.append, systems="h100_sxm", **{**ASKED, "num_simulated": 0})
    counts = [int(line.split(" ")[0].replace(",", "")) for line in lines]
    assert counts == sorted(counts)
    assert counts[-1] == answer.results["candidates"]
    best = answer.results["plans"][0]
    assert "best so far" in lines[-1]
    assert f"at {best['concurrency']} in flight" in lines[-1]


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
