"""Several processes of an API server: rate, latency and refusals."""

from __future__ import annotations

from typing import Any

import pytest

import perfatlas

LOAD: dict[str, Any] = {
    "model": "meta-llama/Llama-3.1-8B",
    "system": "b200_sxm",
    "isl": 200,
    "osl": 200,
    "concurrency": 1000,
}
TOKEN_S = 46e-6  # vLLM: one output token of one process
FASTEST_S, SLOWEST_S = 26e-6, 100e-6  # published for SGLang
REQUESTS = 300  # of each simulation


def rate(method: str, engine: str, **fields: int) -> float:
    """Return output tokens/s."""
    given: dict[str, Any] = dict(fields)
    if method == "simulate":
        load = LOAD | {"engine": engine, "num_requests": REQUESTS, "concurrency": REQUESTS}
        return float(perfatlas.simulate(**load, **given).results["output_tokens_per_s"])
    asked = LOAD | {"engine": engine, "mode": "aggregated", "method": method}
    return float(perfatlas.estimate(**asked, **given).results["output_tokens_per_s_per_gpu"])


def test_one_process_sends_a_token_at_a_time_and_two_send_twice_as_many() -> None:
    assert rate("formula", "vllm") == pytest.approx(1.0 / TOKEN_S)
    assert rate("formula", "vllm", server_processes=1) == rate("formula", "vllm")
    both = rate("formula", "vllm", server_processes=2)
    assert 1.0 / TOKEN_S < both <= 2.0 / TOKEN_S  # now the engine limits it


def test_a_simulation_with_two_processes_is_faster_where_one_holds_it_back() -> None:
    one, two = (rate("simulate", "vllm", server_processes=count) for count in (1, 2))
    assert one <= 1.0 / TOKEN_S
    assert one < two <= 2.0 / TOKEN_S


def test_assumed_times_of_a_front_end_limit_no_rate() -> None:
    assert rate("formula", "trtllm") > 1.0 / TOKEN_S


@pytest.mark.parametrize("method", ["formula", "simulate"])
def test_a_limited_rate_of_sglang_reaches_from_the_slowest_to_the_fastest_front_end(
    method: str,
) -> None:
    load = LOAD | {"engine": "sglang"}
    if method == "simulate":
        load |= {"num_requests": REQUESTS, "concurrency": REQUESTS}
        results, name = perfatlas.simulate(**load).results, "output_tokens_per_s"
    else:
        results = perfatlas.estimate(**load, mode="aggregated", method="formula").results
        name = "output_tokens_per_s_per_gpu"  # on one GPU
    low, value, high = (results[f"{name}{end}"] for end in ("_low", "", "_high"))
    assert value <= 1.0 / TOKEN_S
    assert low <= 1.0 / SLOWEST_S < value < high <= 1.0 / FASTEST_S


def test_the_front_end_of_trtllm_takes_what_its_own_metrics_leave_of_the_clients() -> None:
    # ai-dynamo/aisimulate issue 288: server to executor, first token to response, client - server
    published_ms = 2.6915 + 2.0356 + 5.2418
    answer = perfatlas.estimate(
        model="openai/gpt-oss-120b",
        system="b200_sxm",
        engine="trtllm@1.3",
        tp=2,
        isl=922,
        osl=922,
        concurrency=4,
        mode="aggregated",
        method="formula",
    )
    (note,) = (said for said in answer.evidence.assumptions if "TTFT includes" in said)
    late_ms = float(note.partition("TTFT includes ")[2].partition(" ms")[0])
    assert late_ms == pytest.approx(published_ms, rel=0.01)


@pytest.mark.parametrize("method", ["formula", "simulate"])
def test_the_interval_of_ttft_reaches_from_the_fastest_to_the_slowest_front_end(
    method: str,
) -> None:
    load = LOAD | {"engine": "trtllm", "concurrency": 1}
    if method == "simulate":
        results = perfatlas.simulate(**load, num_requests=20).results
        low, value, high = (results[f"ttft_s{end}"]["mean"] for end in ("_low", "", "_high"))
        assert high - value > 15.563e-3 - 8e-3
    else:
        results = perfatlas.estimate(**load, mode="aggregated", method="formula").results
        low, value = results["ttft_s_low"], results["ttft_s"]
    assert value - low > 8e-3 - 0.7e-3


def test_the_interval_of_ttft_of_pools_contains_the_front_end() -> None:
    load = LOAD | {"concurrency": 1, "mode": "disaggregated", "gpus": 2, "method": "formula"}
    vllm, trtllm = (perfatlas.estimate(**load, engine=e).results for e in ("vllm", "trtllm"))
    assert trtllm["ttft_s"] - trtllm["ttft_s_low"] > 8e-3 - 0.7e-3
    assert vllm["ttft_s"] - vllm["ttft_s_low"] < 8e-3 - 0.7e-3  # one front end is known


def test_each_rank_of_vllm_has_a_process_unless_their_number_is_given() -> None:
    ranks = {
        **LOAD,
        "model": "Qwen/Qwen3-30B-A3B",
        "attention_dp": 4,
        "ep": 4,
        "mode": "aggregated",
        "method": "formula",
    }
    given: list[dict[str, Any]] = [{}, {"server_processes": 4}, {"server_processes": 1}]
    rates = [perfatlas.estimate(**ranks, **fields).results["ttft_s"] for fields in given]
    assert rates[0] == rates[1] < rates[2]
