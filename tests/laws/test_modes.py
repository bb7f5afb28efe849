"""How the modes relate: static, aggregated, disaggregated, and the frontier of batches."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from perfatlas.engines import resolve_engine, tokenizing
from perfatlas.networks import resolve_model
from perfatlas.verbs.estimate import estimate, estimate_table, frontier
from tests.examples import scaled_examples
from tests.laws.support import MODELS

MODEL = st.sampled_from(MODELS)
FRONT = resolve_engine("vllm").front
LATE_S = FRONT.request_s + FRONT.token_s
LARGE = {"system": "b300_sxm", "tp": 8, "tier": "bound"}


def read_s(model: str) -> float:
    return tokenizing(resolve_model(model).network.vocab_size, "natural").token_s


@given(model=MODEL, isl=st.integers(1, 8192), osl=st.integers(2, 2048))
def test_one_request_in_flight_is_one_static_sequence(model: str, isl: int, osl: int) -> None:
    load = {"model": model, "isl": isl, "osl": osl}
    static = estimate(**LARGE, **load, batch=1).results
    alone = estimate(**LARGE, **load, mode="aggregated", concurrency=1).results
    assert alone["tpot_s"] == pytest.approx(static["tpot_s"], rel=1e-9)
    # no other step is in flight; the client receives the token later
    late_s = LATE_S + read_s(model) * isl
    assert alone["ttft_s"] == pytest.approx(static["ttft_s"] + late_s, rel=1e-9)


@given(model=MODEL, concurrency=st.integers(1, 256), osl=st.integers(64, 2048))
def test_continuous_batching_is_slower_per_token_than_a_static_batch(
    model: str, concurrency: int, osl: int
) -> None:
    load = {"model": model, "isl": 1024, "osl": osl}
    static = estimate(**LARGE, **load, batch=concurrency).results
    mixed = estimate(
        **LARGE, **load, mode="aggregated", method="formula", concurrency=concurrency
    ).results
    assert mixed["tpot_s"] >= static["tpot_s"]
    # and answers the first token sooner than the end of a prefill of everybody
    if concurrency >= 8:
        behind_s = FRONT.token_s * (concurrency - 1) / 2
        assert mixed["ttft_s"] - LATE_S - read_s(model) * 1024 - behind_s <= static["ttft_s"]


def test_requests_beyond_capacity_queue_with_a_warning() -> None:
    fields = {"model": "meta-llama/Llama-3.1-8B", "system": "h200_sxm", "mode": "aggregated"}
    fields |= {"method": "formula"}
    few = estimate(**fields, concurrency=8, max_num_seqs=8)
    many = estimate(**fields, concurrency=1000, max_num_seqs=8)
    assert many.results["tpot_s"] == few.results["tpot_s"]
    assert not any("in flight" in warning for warning in few.warnings)
    assert any("of 1000 requests in flight, 8 run" in w for w in many.warnings)


def test_replicas_share_the_concurrency_and_not_the_batch() -> None:
    fields = {"model": "meta-llama/Llama-3.1-8B", "system": "h200_sxm", "tier": "bound"}
    asked = {**fields, "mode": "aggregated", "method": "formula"}
    one = estimate(**asked, concurrency=16).results
    four = estimate(**asked, concurrency=64, dp=4).results
    assert four["tpot_s"] == one["tpot_s"]
    assert four["gpus"] == 4
    assert four["output_tokens_per_s_per_gpu"] == one["output_tokens_per_s_per_gpu"]
    static = estimate(**fields, batch=16).results
    assert estimate(**fields, batch=16, gpus=4, tp=1).results["tpot_s"] == static["tpot_s"]


@given(
    model=st.sampled_from(["meta-llama/Llama-3.1-8B", "Qwen/Qwen3-30B-A3B"]),
    prefill_workers=st.integers(1, 8),
    decode_workers=st.integers(1, 8),
    decode_batch=st.integers(1, 128),
    isl=st.integers(1, 8192),
)
def test_pools_of_a_disaggregated_deployment(
    model: str, prefill_workers: int, decode_workers: int, decode_batch: int, isl: int
) -> None:
    load: dict[str, Any] = {"model": model, "isl": isl, "osl": 256, "tier": "bound"}
    pools = estimate(
        **load,
        system="h200_sxm",
        mode="disaggregated",
        prefill_tp=2,
        decode_tp=4,
        prefill_workers=prefill_workers,
        decode_workers=decode_workers,
        decode_batch=decode_batch,
    ).results
    prefill = estimate(**load, system="h200_sxm", tp=2, batch=1).results
    decode = estimate(**load, system="h200_sxm", tp=4, batch=decode_batch).results
    assert pools["gpus"] == 2 * prefill_workers + 4 * decode_workers
    assert pools["tpot_s"] == decode["tpot_s"]
    # the decode worker computes the first token again, after the steps that it has decided
    ended_s = prefill["ttft_s"] + pools["kv_transfer_s"] + LATE_S + read_s(model) * isl
    steps = (pools["ttft_s"] - ended_s) / decode["tpot_s"]
    assert 1.0 - 1e-9 <= steps <= 2.5 + 1e-9
    if decode_batch == 1:
        assert steps == pytest.approx(1.0)
    assert pools["kv_transfer_s"] > 0
    rate = pools["output_tokens_per_s_per_gpu"] * pools["gpus"]
    # no more than the decode pool holds, no more than the prefill pool feeds
    assert rate <= decode_workers * decode_batch / decode["tpot_s"] * 256 / 255 * (1 + 1e-9)
    assert rate <= prefill_workers / prefill["ttft_s"] * 256 * (1 + 1e-9)


def test_more_workers_of_the_slower_pool_raise_the_rate() -> None:
    fields: dict[str, Any] = {
        "model": "meta-llama/Llama-3.1-8B",
        "system": "h200_sxm",
        "mode": "disaggregated",
        "tier": "bound",
        "isl": 8192,
        "osl": 16,
        "decode_batch": 64,
    }
    totals = []
    for workers in (1, 2, 4):
        results = estimate(**fields, prefill_workers=workers).results
        totals.append(results["output_tokens_per_s_per_gpu"] * results["gpus"])
    assert totals[1] == pytest.approx(2 * totals[0])
    assert totals[2] == pytest.approx(4 * totals[0])


@given(
    model=MODEL,
    tp=st.sampled_from([4, 8]),
    isl=st.integers(1000, 100_000),
    mode=st.sampled_from(["static", "aggregated"]),
)
@settings(max_examples=scaled_examples(0.3))
def test_the_frontier_ends_at_the_largest_that_fits(
    model: str, tp: int, isl: int, mode: str
) -> None:
    fields: dict[str, Any] = {"model": model, "system": "h200_sxm", "tp": tp, "tier": "bound"}
    fields |= {"isl": isl, "osl": 1000, "mode": mode}
    if not _fits(fields, 1):
        return
    rows = frontier(**fields).results["frontier"]
    batches = [row["batch"] for row in rows]
    assert batches[0] == 1
    assert batches == sorted(set(batches))
    last = batches[-1]
    if mode == "static":
        assert _fits(fields, last)
        assert last >= 65536 or not _fits(fields, last + 1)
    for row in rows:
        assert row["output_tokens_per_s_per_user"] == pytest.approx(1 / row["tpot_s"])
    assert "error_code" not in rows[0]


def _fits(fields: dict[str, Any], batch: int) -> bool:
    """Return whether a static batch fits; a table does not look for what would."""
    asked = fields | {"mode": "static", "batch": batch}
    columns = estimate_table({name: [value] for name, value in asked.items()}).columns
    assert columns["error_code"] in ([""], ["infeasible"])
    return not columns["error_code"][0]
