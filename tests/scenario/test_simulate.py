from __future__ import annotations

from typing import Any, Final

import pytest

from perfatlas.answer.repetitions import averaged, half_widths
from perfatlas.engines import resolve_engine, tokenizing
from perfatlas.verbs.estimate import estimate
from perfatlas.verbs.simulate import Simulation, simulate

DEPLOYED: dict[str, Any] = {"model": "meta-llama/Llama-3.1-8B-Instruct", "system": "h200_sxm"}
LLAMA_VOCABULARY: Final = 128256
SMALL: dict[str, Any] = {**DEPLOYED, "isl": 512, "osl": 32, "num_requests": 60}


def results_of(**fields: object) -> dict[str, Any]:
    return dict(simulate(**{**SMALL, **fields}).answer.results)


@pytest.mark.parametrize("engine", ["ideal", "vllm"])
def test_one_request_at_a_time_matches_the_estimate(engine: str) -> None:
    asked = {**SMALL, "engine": engine, "isl": 3000, "osl": 200}
    found = simulate(**asked, concurrency=1, measured_at="engine").answer.results
    static = estimate(
        **{name: asked[name] for name in (*DEPLOYED, "engine", "isl", "osl")}, mode="static"
    ).results
    assert found["ttft_s"]["p50"] == pytest.approx(static["ttft_s"], rel=2e-3)
    assert found["tpot_s"]["mean"] == pytest.approx(static["tpot_s"], rel=2e-3)
    assert found["queue_s"]["p99"] == 0.0


def test_a_client_waits_for_http_too_and_the_engine_for_the_client() -> None:
    inside, outside = (results_of(concurrency=1, measured_at=at) for at in ("engine", "client"))
    front = resolve_engine("vllm").front
    read_s = tokenizing(LLAMA_VOCABULARY, "natural").token_s * SMALL["isl"]
    late = front.request_s + front.token_s + read_s
    assert outside["ttft_s"]["p50"] == pytest.approx(inside["ttft_s"]["p50"] + late)
    assert outside["tpot_s"]["mean"] == pytest.approx(inside["tpot_s"]["mean"], rel=1e-6)
    # 60 requests one after the other, each with its way there and back
    assert outside["makespan_s"] == pytest.approx(
        inside["makespan_s"] + 60 * late + 59 * front.response_s, rel=1e-6
    )


def test_a_seed_gives_the_same_answer_and_another_one_does_not() -> None:
    first, again, other = (results_of(request_rate=20, seed=seed) for seed in (3, 3, 4))
    assert first == again
    assert first["ttft_s"]["mean"] != other["ttft_s"]["mean"]


def test_means_keep_flags_and_unknown_values() -> None:
    repeated: list[dict[str, Any]] = [
        {"saturated": False, "n": 3, "x": {"mean": 1.0, "p99": None}},
        {"saturated": True, "n": 3, "x": {"mean": 3.0, "p99": 4.0}},
    ]
    assert averaged(repeated) == {"saturated": True, "n": 3, "x": {"mean": 2.0, "p99": None}}
    # 6.314 is t of 1 degree of freedom at 95 %, the deviation of 1 and 3 is sqrt 2
    widths = half_widths(repeated)["x_seed_half_width"]
    assert isinstance(widths, dict)
    assert widths["mean"] == pytest.approx(6.314, rel=1e-3)
    assert widths["p99"] is None


def test_the_interval_holds_the_answer_and_slower_steps_hold_goodput_down() -> None:
    found = results_of(request_rate=30, slo_ttft_s=0.03)
    for name in ("ttft_s", "tpot_s", "request_latency_s"):
        ends = (found[f"{name}_low"]["mean"], found[f"{name}_high"]["mean"])
        assert ends[0] < found[name]["mean"] < ends[1]
    assert found["slo_attainment_low"] <= found["slo_attainment"] <= found["slo_attainment_high"]
    assert 0.0 < found["slo_attainment"] < 1.0
    rate = found["requests_completed"] / found["makespan_s"]
    assert found["goodput_requests_per_s"] == pytest.approx(found["slo_attainment"] * rate)


def test_a_request_larger_than_the_cache_is_rejected_as_the_engine_would() -> None:
    done = simulate(**SMALL, request_rate=5, kv_blocks=20)  # 320 tokens, 543 are needed
    assert done.answer.results["requests_rejected"] == SMALL["num_requests"]
    assert done.answer.results["ttft_s"]["mean"] is None
    assert set(done.per_request()["state"]) == {"rejected"}


def test_every_request_has_its_row() -> None:
    done = simulate(**SMALL, request_rate=20)
    rows = done.per_request()
    assert {len(column) for column in rows.values()} == {SMALL["num_requests"]}
    assert rows["isl"] == [512] * 60
    mean = sum(rows["ttft_s"]) / 60
    assert done.answer.results["ttft_s"]["mean"] == pytest.approx(mean)
    for queue, ttft, latency in zip(
        rows["queue_s"], rows["ttft_s"], rows["request_latency_s"], strict=True
    ):
        assert 0.0 <= queue < ttft < latency


def test_interrupted_runs_keep_partial_results() -> None:
    done: Simulation = simulate(
        **{**SMALL, "num_requests": 20_000}, request_rate=20, progress=lambda _share: True
    )
    assert done.outcome.interrupted
    found = done.answer.results
    assert 0 < found["requests_completed"] < 20_000
    assert "ttft_s_low" not in found
    assert any("interrupted" in text for text in done.answer.warnings)


@pytest.mark.parametrize("engine", ["vllm", "sglang", "trtllm"])
def test_the_parts_of_the_tail_sum_to_it(engine: str) -> None:
    done = simulate(**{**SMALL, "osl": 100, "num_requests": 500}, request_rate=60, engine=engine)
    rows, results = done.per_request(), done.answer.results
    for name in ("ttft_s", "request_latency_s"):
        slowest = sorted(rows[name])[-5:]  # 1 % of 500
        parts = results[f"tail_{name}"]
        assert sum(parts.values()) == pytest.approx(sum(slowest) / 5)
        assert all(value >= 0.0 for value in parts.values())
    assert results["tail_request_latency_s"]["interference"] > 0.0


def test_alone_the_tail_is_the_prompt_and_the_way_to_it() -> None:
    parts = results_of(concurrency=1)["tail_ttft_s"]
    assert parts["queue"] == 0.0
    assert parts["shared"] == pytest.approx(0.0, abs=1e-9)
    assert parts["prompt"] > 0.0


def test_preempted_requests_report_the_recomputation() -> None:
    asked = {**SMALL, "osl": 400, "num_requests": 40, "kv_blocks": 300}
    rows = simulate(**asked, request_rate="inf").per_request()
    assert sum(rows["preemptions"]) > 0
    for times, lost_s in zip(rows["preemptions"], rows["preempted_s"], strict=True):
        assert (lost_s > 0.0) == (times > 0)


def test_gaps_between_tokens_are_those_of_the_steps() -> None:
    found = results_of(concurrency=1, osl=64)
    assert found["itl_s"]["mean"] == pytest.approx(found["tpot_s"]["mean"])
    # one request at a time: every gap is nearly the same; borders are 64 to a decade
    for statistic in ("p50", "p99"):
        assert found["itl_s"][statistic] == pytest.approx(found["tpot_s"]["mean"], rel=0.04)
    crowd = results_of(request_rate=60, osl=64)
    assert crowd["itl_s"]["p99"] > 2 * crowd["itl_s"]["p50"]


def test_lengths_of_a_closed_loop_are_those_stated() -> None:
    asked = {**SMALL, "isl": 1000, "osl": 200, "num_requests": 24, "concurrency": 4}
    found = simulate(**asked)
    assert set(found.requests.osl_N.tolist()) == {200}
    assert "lengths fixed" in " ".join(found.answer.evidence.assumptions)
    spread = simulate(**asked, length_distribution="uniform", length_spread=0.1)
    assert spread.answer.scenario["length_spread"] == 0.1
    assert len(set(spread.requests.osl_N.tolist())) > 1
