from __future__ import annotations

from typing import Any

import pytest

from perfatlas.engines import resolve_engine, tokenizing
from perfatlas.quantities import InvalidSpecError
from perfatlas.verbs.estimate import estimate, estimate_table
from tests.examples import few

ASKED: dict[str, Any] = {
    "model": "meta-llama/Llama-3.1-8B-Instruct",
    "system": "h200_sxm",
    "mode": "aggregated",
    "isl": 2048,
    "osl": 256,
}


def test_alone_nothing_waits() -> None:
    static = estimate(**{**ASKED, "mode": "static"})
    simulated = estimate(**ASKED, method="simulate").results
    # HTTP, tokenizing and streaming are in one of the two
    late_s = 0.015563 + 46e-6 + 1.2e-6 * ASKED["isl"]
    assert simulated["ttft_s"] == pytest.approx(static.results["ttft_s"] + late_s, rel=2e-3)
    assert simulated["tpot_s"] == pytest.approx(static.results["tpot_s"], rel=2e-3)
    assert any("tokenization and detokenization" in t for t in static.evidence.assumptions)


@pytest.mark.parametrize("engine", ["vllm", "sglang", "trtllm", "ideal"])
def test_ttft_is_measured_at_the_client_by_both_methods(engine: str) -> None:
    asked = {**ASKED, "engine": engine, "concurrency": 1}
    formula, simulated = (estimate(**asked, method=m) for m in ("formula", "simulate"))
    # alone nothing waits: what is left is that tables of prices interpolate
    for name in ("ttft_s", "tpot_s", "request_latency_s", "output_tokens_per_s_per_gpu"):
        assert simulated.results[name] == pytest.approx(formula.results[name], rel=5e-3), name
    front = resolve_engine(engine).front
    read_s = tokenizing(128256, "natural").token_s * ASKED["isl"] if front.tokenizes else 0.0
    late = f"TTFT includes {1e3 * (front.request_s + read_s + front.token_s):.1f} ms of HTTP"
    for answer in (formula, simulated):
        assert sum(late in text for text in answer.evidence.assumptions) == 1


@pytest.mark.parametrize("engine", ["vllm", "sglang", "trtllm"])
def test_auto_is_continuous_at_the_change_of_method(engine: str) -> None:
    asked = {**ASKED, "engine": engine, "isl": 1024, "osl": 128}
    before, after = (estimate(**asked, concurrency=n).results for n in (2, 3))
    assert (before["method"], after["method"]) == ("formula", "simulate")
    # a phase of the loop is at most a step off
    assert after["ttft_s"] == pytest.approx(before["ttft_s"], abs=before["tpot_s"])


@pytest.mark.parametrize("engine", ["vllm", "sglang", "trtllm", "ideal"])
@pytest.mark.parametrize("concurrency", few([1, 2, 4, 16], every=2))
def test_a_request_waits_only_for_running_steps(engine: str, concurrency: int) -> None:
    asked = {**ASKED, "engine": engine, "osl": 512, "concurrency": concurrency}
    formula, simulated = (estimate(**asked, method=m).results for m in ("formula", "simulate"))
    # at one nothing runs; else a loop of equal requests settles to one phase of its steps, of
    # which the closed form takes the mean: half a step off, and a little for steps with prompts
    step_s = formula["tpot_s"]
    off_s = 2e-3 * formula["ttft_s"] if concurrency == 1 else 0.6 * step_s
    assert simulated["ttft_s"] == pytest.approx(formula["ttft_s"], abs=off_s)


def test_at_high_concurrency_prompts_queue_and_throughput_stays() -> None:
    asked = {**ASKED, "concurrency": 64}
    formula, simulated = (estimate(**asked, method=m).results for m in ("formula", "simulate"))
    assert simulated["ttft_s"] > 1.05 * formula["ttft_s"]
    rate = "output_tokens_per_s_per_gpu"
    assert simulated[rate] == pytest.approx(formula[rate], rel=0.1)
    assert simulated["ttft_s_low"] <= simulated["ttft_s"] <= simulated["ttft_s_high"]
    assert simulated["ttft_s_low"] < simulated["ttft_s_high"]
    assert simulated[f"{rate}_low"] < simulated[rate] < simulated[f"{rate}_high"]


def test_auto_simulates_if_queueing_matters() -> None:
    alone, crowd = (estimate(**ASKED, concurrency=n) for n in (1, 64))
    assert (alone.results["method"], crowd.results["method"]) == ("formula", "simulate")
    assert any("method simulate" in text for text in crowd.evidence.assumptions)
    assert not any("method formula" in text for text in crowd.evidence.assumptions)
    assert crowd.results == estimate(**ASKED, concurrency=64, method="simulate").results


def test_a_table_simulates_the_rows_that_ask_for_it() -> None:
    methods = ["formula", "simulate", "auto", "simulate"]
    table = {name: [value] * 4 for name, value in ASKED.items()}
    table |= {
        "pp": [1, 1, 1, 2],
        "concurrency": [16] * 4,
        "method": methods,
        "engine": ["vllm"] * 4,
    }
    columns = estimate_table(table).columns
    assert columns["error_code"] == [""] * 4
    ttft = columns["ttft_s"]
    assert ttft[0] != ttft[1] == ttft[2]
    piped = estimate(**{**ASKED, "pp": 2}, concurrency=16, method="simulate").results
    assert ttft[3] == piped["ttft_s"]
    assert ttft[1] == estimate(**ASKED, concurrency=16, method="simulate").results["ttft_s"]


@pytest.mark.parametrize("engine", ["vllm", "sglang", "trtllm"])
def test_a_pipeline_with_draft_tokens_is_simulated(engine: str) -> None:
    piped = {**ASKED, "engine": engine, "pp": 2, "concurrency": 64}
    drafts = {"speculative_depth": 2, "speculative_acceptance": 0.7}
    plain, drafted = estimate(**piped), estimate(**piped, **drafts)
    assert plain.results["method"] == drafted.results["method"] == "simulate"
    assert drafted.results["tpot_s"] < plain.results["tpot_s"]


@pytest.mark.parametrize("engine", ["vllm", "sglang", "trtllm", "ideal"])
def test_every_engine_has_its_scheduler(engine: str) -> None:
    asked = {**ASKED, "engine": engine, "concurrency": 48}
    found = estimate(**asked, method="simulate")
    rate = "output_tokens_per_s_per_gpu"
    formula = estimate(**asked, method="formula").results
    assert found.results[rate] == pytest.approx(formula[rate], rel=0.25)


def test_too_many_requests_in_flight_use_closed_forms() -> None:
    assert estimate(**ASKED, concurrency=10**9).results["method"] == "formula"
    with pytest.raises(InvalidSpecError, match="method = formula"):
        estimate(**ASKED, concurrency=10**9, method="simulate")


def test_too_many_engines_use_closed_forms() -> None:
    many = {**ASKED, "dp": 10**9}
    assert estimate(**many).results["method"] == "formula"
    with pytest.raises(InvalidSpecError, match="method = formula"):
        estimate(**many, method="simulate")
    pools = {**ASKED, "mode": "disaggregated", "concurrency": 64}
    for role in ("prefill_workers", "decode_workers"):
        assert estimate(**pools, **{role: 10**9}).results["method"] == "formula"
        with pytest.raises(InvalidSpecError, match=role):
            estimate(**pools, **{role: 10**9}, method="simulate")
