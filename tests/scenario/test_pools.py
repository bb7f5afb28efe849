"""Traffic through a prefill and a decode pool: equivalences and refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from perfatlas.engines import resolve_engine
from perfatlas.inference import FIRST_TOKEN, cache_link_s
from perfatlas.quantities import InvalidSpecError
from perfatlas.scenario.deployments import resolve_traffic, run_traffic, service
from perfatlas.scenario.resolution import split_fields
from perfatlas.serving.config import Control
from perfatlas.serving.requests import TICKS_PER_SECOND
from perfatlas.verbs.estimate import estimate, estimate_table
from perfatlas.verbs.simulate import simulate
from tests.examples import few

DEPLOYED: dict[str, Any] = {
    "model": "meta-llama/Llama-3.1-8B-Instruct",
    "system": "h200_sxm",
    "mode": "disaggregated",
}
SMALL: dict[str, Any] = {**DEPLOYED, "isl": 512, "osl": 32, "num_requests": 60}
ENGINES = ("ideal", "vllm", "sglang", "trtllm")


def results_of(**fields: object) -> dict[str, Any]:
    return dict(simulate(**{**SMALL, **fields}).answer.results)


@pytest.mark.parametrize("engine", ["ideal", "trtllm", "sglang"])
def test_one_request_at_a_time_takes_prompt_transfer_and_output(engine: str) -> None:
    asked = {**SMALL, "engine": engine, "isl": 3000, "osl": 200}
    found = simulate(**asked, concurrency=1, measured_at="engine").answer.results
    static = estimate(
        **{name: asked[name] for name in ("model", "system", "engine", "isl", "osl")}
    ).results
    transfer_s = estimate(
        **{name: asked[name] for name in (*DEPLOYED, "engine", "isl", "osl")}
    ).results["kv_transfer_s"]
    assert found["kv_transfer_s"]["p50"] == pytest.approx(transfer_s, rel=1e-6)
    # whose first token is seen when its prompt ends does not wait for its cache to come
    late = 0.0 if resolve_engine(engine).disaggregation.first_from == "prefill" else transfer_s
    assert found["ttft_s"]["p50"] == pytest.approx(static["ttft_s"] + late, rel=2e-3)
    assert found["tpot_s"]["mean"] == pytest.approx(
        static["tpot_s"] + (transfer_s - late) / 199, rel=2e-3
    )


def test_vllm_computes_the_last_token_of_a_prompt_again() -> None:
    asked: dict[str, Any] = {"engine": "vllm", "concurrency": 1, "measured_at": "engine"}
    found = results_of(**asked)
    prompt_s = results_of(**asked, mode="aggregated", osl=1)["ttft_s"]["p50"]
    again_s = found["ttft_s"]["p50"] - prompt_s - found["kv_transfer_s"]["p50"]
    assert again_s == pytest.approx(found["tpot_s"]["mean"], rel=0.02)  # a decode step


def test_without_a_way_between_them_ttft_is_that_of_an_engine_that_only_prefills() -> None:
    asked: dict[str, Any] = {"engine": "ideal", "request_rate": 60, "num_requests": 300}
    pools = results_of(**asked)
    prompts = results_of(**asked, mode="aggregated", osl=1)
    for statistic in ("mean", "p50", "p99"):
        assert pools["ttft_s"][statistic] == pytest.approx(prompts["ttft_s"][statistic], rel=1e-9)
    assert pools["queue_s"]["p99"] > 0.0


@pytest.mark.parametrize("engine", few(ENGINES, every=2))
def test_results_of_pools_are_consistent(engine: str) -> None:
    done = simulate(
        **SMALL,
        engine=engine,
        request_rate=30,
        prefill_workers=2,
        decode_workers=3,
        decode_tp=2,
        slo_ttft_s=1.0,
    )
    found = done.answer.results
    assert found["gpus"] == 2 * 1 + 3 * 2
    assert found["requests_completed"] == 60
    for role in ("prefill", "decode"):
        assert 0.0 < found[f"{role}_utilization"] <= 1.0
    assert found["memory"]["fits"]
    assert found["prefill_memory"]["weights_bytes"] > found["memory"]["weights_bytes"]
    assert found["kv_capacity_tokens"] > found["prefill_kv_capacity_tokens"]
    for name in ("ttft_s", "request_latency_s"):
        parts = found[f"tail_{name}"]
        assert min(parts.values()) >= 0.0
        slowest = max(value for value in done.per_request()[name])
        assert sum(parts.values()) == pytest.approx(slowest)  # one of 60 is the tail
        low, high = (
            (found[f"{name}_{end}"] for end in ("low", "high"))
            if engine != "ideal"
            else (found[name], found[name])
        )
        assert low["mean"] <= found[name]["mean"] <= high["mean"]
    told = " ".join(done.answer.evidence.assumptions)
    assert resolve_engine(engine).disaggregation.source in told
    assert "NICs" in told


def test_every_request_has_both_of_its_workers() -> None:
    rows = simulate(**SMALL, request_rate=30, prefill_workers=2, decode_workers=2).per_request()
    assert set(rows["replica"]) == {0, 1}
    assert set(rows["decode_replica"]) == {2, 3}
    for prefilled, transfer, ttft in zip(
        rows["prefilled_s"], rows["kv_transfer_s"], rows["ttft_s"], strict=True
    ):
        assert 0.0 < prefilled < prefilled + transfer < ttft


def test_a_batch_of_a_worker_is_a_limit_of_its_schedulers() -> None:
    asked = {"concurrency": 24, "prefill_workers": 2, "osl": 64}
    free, tight = (results_of(**asked, **more) for more in ({}, {"decode_batch": 2}))
    assert tight["tpot_s"]["mean"] < free["tpot_s"]["mean"]
    assert tight["kv_transfer_s"]["mean"] > 5 * free["kv_transfer_s"]["mean"]
    assert tight["makespan_s"] > 2 * free["makespan_s"]
    ranks = {"model": "Qwen/Qwen3-30B-A3B", "decode_attention_dp": 2, "decode_ep": 2}
    traffic, scenario = split_fields({**SMALL, **asked, **ranks, "decode_batch": 5})
    ready = service(scenario, traffic, resolve_traffic(traffic, scenario))
    assert ready.decoding.limits.max_num_seqs == 3  # 5 over two ranks
    assert ready.decoding.replicas.ranks == 2


def test_a_decode_pool_too_small_for_a_request_rejects_it() -> None:
    done = simulate(**SMALL, request_rate=5, kv_blocks=20)  # 320 tokens, 543 are needed
    assert done.answer.results["requests_rejected"] == SMALL["num_requests"]
    assert any("320 tokens on a prefill worker" in text for text in done.answer.warnings)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("isl", "osl"), few([(512, 256), (4096, 2), (2048, 1)], every=2))
def test_closed_forms_use_the_source_of_the_first_token(engine: str, isl: int, osl: int) -> None:
    asked = {**DEPLOYED, "engine": engine, "isl": isl, "osl": osl, "concurrency": 1}
    formula = estimate(**asked, method="formula")
    found = estimate(**asked, method="simulate")
    # one request at a time never waits: the difference is the interpolation of price tables
    names = ("ttft_s", "tpot_s", "request_latency_s", "kv_transfer_s")
    for name in (*names, "output_tokens_per_s_per_gpu"):
        known = formula.results[name]
        assert known is None or found.results[name] == pytest.approx(known, rel=2e-3), name
        assert (known is None) == (found.results[name] is None), name
    assert found.results["method"] == "simulate"
    assert not any("no queueing" in text for text in found.evidence.assumptions)
    told = FIRST_TOKEN[resolve_engine(engine).disaggregation.first_from]
    for answer in (formula, found):
        assert any(told in text for text in answer.evidence.assumptions)


def test_first_tokens_differ_by_transfer_and_queueing() -> None:
    asked = {**DEPLOYED, "isl": 4096, "osl": 65, "concurrency": 1, "method": "formula"}
    pools = {e: estimate(**asked, engine=e).results for e in ("ideal", "vllm")}
    prompts = {e: estimate(**{**asked, "engine": e, "mode": "aggregated"}).results for e in pools}
    # the prefill worker's as its prompt ends: the transfer is seen in the tokens after it
    ideal = pools["ideal"]
    assert ideal["ttft_s"] == pytest.approx(prompts["ideal"]["ttft_s"], rel=1e-9)
    apart_s = ideal["tpot_s"] - prompts["ideal"]["tpot_s"]
    assert apart_s == pytest.approx(ideal["kv_transfer_s"] / 64, rel=1e-9)
    # the decode worker's, computed again: a transfer and a step later
    vllm, prompt = pools["vllm"], prompts["vllm"]
    later_s = vllm["kv_transfer_s"] + vllm["tpot_s"]
    assert vllm["ttft_s"] == pytest.approx(prompt["ttft_s"] + later_s, rel=1e-9)
    assert vllm["tpot_s"] == pytest.approx(prompt["tpot_s"], rel=1e-9)


def test_auto_simulates_pools_if_prompts_queue() -> None:
    asked = {**DEPLOYED, "isl": 4096, "osl": 64}
    assert estimate(**asked, concurrency=1).results["method"] == "formula"
    assert estimate(**asked, decode_batch=64).results["method"] == "formula"
    crowded = estimate(**asked, concurrency=64)
    assert crowded.results["method"] == "simulate"
    formula = estimate(**asked, concurrency=64, method="formula")
    assert crowded.results["ttft_s"] > 5 * formula.results["ttft_s"]
    assert any("TTFT does not include" in text for text in formula.warnings)
    assert not any("TTFT does not include" in text for text in crowded.warnings)
    assert crowded.results["ttft_s_low"] < crowded.results["ttft_s"]
    row = asked | {"concurrency": 64}
    column = estimate_table({name: [value] for name, value in row.items()})
    assert column.columns["ttft_s"][0] == pytest.approx(crowded.results["ttft_s"])


def test_a_cache_goes_over_the_slower_of_both_sides() -> None:
    # a rank of one holds all 8 heads, each of four ranks two of them
    wide = results_of(request_rate=1, prefill_tp=4, decode_tp=4, engine="trtllm")
    narrow = results_of(request_rate=1, prefill_tp=4, decode_tp=1, engine="trtllm")
    assert narrow["kv_transfer_s"]["p50"] > 3 * wide["kv_transfer_s"]["p50"]
    asked = {**DEPLOYED, "isl": 512, "prefill_tp": 4, "decode_tp": 1, "engine": "trtllm"}
    assert estimate(**asked).results["kv_transfer_s"] == pytest.approx(
        narrow["kv_transfer_s"]["p50"], rel=1e-3
    )


# windows, recurrent states, latent rows with index keys, and plain heads
@pytest.mark.parametrize(
    "model",
    [
        "openai/gpt-oss-20b",
        "google/gemma-3-12b-it",
        "Qwen/Qwen3-Next-80B-A3B-Instruct",
        "nvidia/NVIDIA-Nemotron-Nano-9B-v2",
        "deepseek-ai/DeepSeek-V3.2",
        "meta-llama/Llama-3.1-8B-Instruct",
    ],
)
def test_transfer_times_depend_on_the_length(model: str) -> None:
    traffic, scenario = split_fields(
        {**SMALL, "model": model, "request_rate": 1, "tp": 8, "engine": "sglang"}
    )
    ready = service(scenario, traffic, resolve_traffic(traffic, scenario))
    lengths = np.array([0, 1, 2, 127, 128, 129, 1023, 1024, 1025, 4096, 4097, 100_000])
    for pool, link in zip(ready.pools, ready.handover.links, strict=True):
        exact_s = cache_link_s(pool.question, lengths.astype(np.float64))
        for length, seconds in zip(lengths.tolist(), exact_s.tolist(), strict=True):
            # whole picoseconds: half of one for the border, and for every token beyond it
            ticks = seconds * TICKS_PER_SECOND
            assert link.time(length) == pytest.approx(ticks, rel=1e-12, abs=0.5 * (length + 2))


def test_short_prompts_have_their_own_price(tmp_path: Any) -> None:  # noqa: ANN401
    # gpt-oss-20b keeps 128 tokens of every other layer: the mean of these is far above that
    path = tmp_path / "requests.csv"
    path.write_text("arrival_s,isl,osl\n0,100,5\n10,20000,5\n")
    asked = {**DEPLOYED, "model": "openai/gpt-oss-20b"}
    found = simulate(**asked, requests=str(path)).per_request()["kv_transfer_s"]
    alone = [
        estimate(**asked, isl=isl, osl=5, method="formula").results["kv_transfer_s"]
        for isl in (100, 20000)
    ]
    assert found == pytest.approx(alone, rel=1e-9)


def test_pools_of_different_systems_keep_their_own_limits() -> None:
    traffic, scenario = split_fields(
        {**SMALL, "request_rate": 5, "prefill_system": "a100_sxm", "decode_system": "h200_sxm"}
    )
    came = resolve_traffic(traffic, scenario)
    ready = service(scenario, traffic, came)
    tokens = [pool.limits.max_num_batched_tokens for pool in ready.pools]
    assert tokens == [2048, 8192]
    assert (run_traffic(ready, came, Control()).finished_N >= 0).all()
    told = simulate(
        **SMALL, request_rate=5, prefill_system="a100_sxm", decode_system="h200_sxm"
    ).answer.scenario
    assert "max_num_batched_tokens" not in told  # no one value gives this answer again


@pytest.mark.parametrize("concurrency", [1, 2, 3, 5, 7, 9])
def test_closed_forms_of_pools_keep_littles_law(concurrency: int) -> None:
    found = estimate(
        model="meta-llama/Llama-3.1-8B",
        system="h100_sxm",
        mode="disaggregated",
        method="formula",
        concurrency=concurrency,
        isl=1000,
        osl=100,
        prefill_workers=2,
        decode_workers=2,
    ).results
    response_s = resolve_engine("vllm").front.response_s
    rate = found["output_tokens_per_s_per_gpu"] * found["gpus"] / 100
    assert rate * (found["request_latency_s"] + response_s) == pytest.approx(concurrency)


def test_transfer_buffers_take_memory_from_the_cache() -> None:
    asked: dict[str, Any] = {"model": "deepseek-ai/DeepSeek-V3", "system": "b200_sxm"}
    asked |= {"format": "nvfp4", "mode": "disaggregated", "prefill_tp": 4, "decode_tp": 4}
    without, beside = (
        estimate(**asked, transfer_buffer_bytes=size).results["memory"] for size in (None, "1GiB")
    )
    assert beside["other_bytes"] - without["other_bytes"] == pytest.approx(2**30)
    # a row of 61 layers: 512 + 64 latent elements of 2 bytes
    lost = without["kv_capacity_tokens"] - beside["kv_capacity_tokens"]
    assert lost == pytest.approx(2**30 / (61 * 576 * 2), abs=16)
    with pytest.raises(InvalidSpecError, match="transfer_buffer_bytes = 1e\\+09 has no effect"):
        estimate(model="meta-llama/Llama-3.1-8B", system="h100_sxm", transfer_buffer_bytes="1GB")
