"""Tier bound: more work never takes less time."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from numpy.typing import NDArray

from perfatlas.collectives import OPS, CollectiveShapes, price_collectives
from perfatlas.engines import resolve_engine
from perfatlas.hardware import resolve_system
from perfatlas.machines.gpu.tiers.bound import price_at_bound
from perfatlas.operators import FloatArray, Operator, Phase
from perfatlas.scenario.fields import Scenario
from perfatlas.scenario.resolution import resolve_scenarios
from tests.examples import few, scaled_examples
from tests.laws.support import (
    ENGINES,
    MODELS,
    answered,
    attention,
    column,
    experts,
    latent_attention,
    on,
    scan,
    streaming,
)

ROUNDING = 1e-12
LARGE = "b300_sxm{device.memory.capacity=1 PB}"  # everything fits
RISING = st.lists(st.integers(1, 4096), min_size=2, max_size=8, unique=True).map(sorted)
MODEL = st.sampled_from(MODELS)
ENGINE = st.sampled_from(ENGINES)
DEPLOYMENT = {"system": LARGE, "tp": 8, "tier": "bound"}


TILE_FIT = 0.03


def rises(values: FloatArray, slack: float = ROUNDING) -> bool:
    return bool((np.diff(values) >= -slack * values[:-1]).all())


def sweep(field: str, values: list[int], **shared: Any) -> dict[str, FloatArray]:  # noqa: ANN401
    return answered([{field: value} for value in values], **{**DEPLOYMENT, **shared})


def steps_alike(field: str, values: list[int], **shared: Any) -> list[NDArray[np.bool_]]:  # noqa: ANN401
    """Return which scenarios have steps of equally many whole prompts, all if prompts are split.

    Steps of TensorRT-LLM hold whole prompts, and its recipes raise the limit with prompt and batch:
    where a step holds one prompt more, there are fewer steps, each of which reads the weights.
    """
    if resolve_engine(shared["engine"]).scheduler.chunked_prefill:
        return [np.ones(len(values), np.bool_)]
    rows = [Scenario.read({**DEPLOYMENT, **shared, field: value}) for value in values]
    question, problems = resolve_scenarios(rows)
    assert question is not None, problems
    together_N = np.floor(question.limits.max_num_batched_tokens / question.load.isl)
    return [together_N == together for together in np.unique(together_N)]


@given(batches=RISING, model=MODEL, engine=ENGINE, isl=st.integers(1, 4096))
def test_batch(batches: list[int], model: str, engine: str, isl: int) -> None:
    shared = {"model": model, "engine": engine, "isl": isl, "osl": 16}
    columns = sweep("batch", batches, **shared)
    assert rises(columns["tpot_s"])
    for alike_N in steps_alike("batch", batches, **shared):
        assert rises(columns["ttft_s"][alike_N])
        assert rises(columns["request_latency_s"][alike_N])


@given(lengths=RISING, model=MODEL, engine=ENGINE, batch=st.integers(1, 64))
def test_input_tokens(lengths: list[int], model: str, engine: str, batch: int) -> None:
    shared = {"model": model, "engine": engine, "batch": batch, "osl": 16}
    columns = sweep("isl", lengths, **shared)
    assert rises(columns["tpot_s"])
    for alike_N in steps_alike("isl", lengths, **shared):
        # a sequence cut at the border of two chunks counts as two parts of one
        assert rises(columns["ttft_s"][alike_N], slack=1e-5)


def test_steps_of_whole_prompts() -> None:
    # NVIDIA's max_num_tokens for DeepSeek on Blackwell: isl + batch + 64 in multiples of 64, here
    # 192 up to 100 tokens and then 256; 28 prompts take 14 steps in pairs and 28 alone
    shared = {"model": "deepseek-ai/DeepSeek-V3", "engine": "trtllm", "osl": 16}
    lengths = [92, 100, 101, 128, 129, 385, 400, 421]
    alone_N, pairs_N = steps_alike("isl", lengths, **shared, batch=28)
    assert pairs_N.tolist() == [True, False, True, True, False, False, False, False]
    assert (alone_N == ~pairs_N).all()
    ttft_s = sweep("isl", lengths, **shared, batch=28)["ttft_s"]
    assert rises(ttft_s[alone_N])
    assert rises(ttft_s[pairs_N])
    # every step reads most experts, so that half of the steps take little more than half the time
    assert 0.5 * ttft_s[1] < ttft_s[2] < 0.55 * ttft_s[1]
    ttft_s = sweep("batch", [28, 29], **shared, isl=100)["ttft_s"]  # likewise: 15 steps
    assert 0.5 * ttft_s[0] < ttft_s[1] < 0.6 * ttft_s[0]


@given(
    lengths=st.lists(st.integers(1, 100_000), min_size=2, max_size=8, unique=True).map(sorted),
    model=MODEL,
    # TensorRT-LLM rejects prompts longer than a step: chunked prefill is off by default
    engine=st.sampled_from([engine for engine in ENGINES if engine != "trtllm"]),
    tokens=st.sampled_from([512, 2048, 8192, 16384]),
)
def test_input_tokens_over_chunks(lengths: list[int], model: str, engine: str, tokens: int) -> None:
    load = {"max_num_batched_tokens": tokens, "batch": 1, "osl": 16}
    columns = sweep("isl", lengths, model=model, engine=engine, **load)
    assert rises(columns["ttft_s"])
    assert rises(columns["tpot_s"])


@pytest.mark.parametrize("device", ["h200_sxm", "b300_sxm", "l40s", "mi300x"])
@pytest.mark.parametrize(
    "model",
    few(
        [
            "meta-llama/Llama-3.1-8B",
            "openai/gpt-oss-20b",
            "Qwen/Qwen2.5-0.5B",
            "deepseek-ai/DeepSeek-V3.2",
            "ai21labs/Jamba-v0.1",
        ],
        every=2,
    ),
)
def test_one_token_more_than_whole_chunks(model: str, device: str) -> None:
    # a chunk boundary adds a step; the work of the others must not shrink below what it was
    large = f"{device}{{device.memory.capacity=1 PB}}"
    loads = [*product((512, 2048, 8192), ("ideal", "vllm"), (1, 3))]
    rows = [
        {"max_num_batched_tokens": tokens, "engine": engine, "batch": batch}
        | {"isl": chunks * tokens + more}
        for tokens, engine, batch in loads
        for chunks in (1, 2, 3, 4)
        for more in (-1, 0, 1)
    ]
    shared = {**DEPLOYMENT, "model": model, "system": large, "osl": 16, "tp": 1}
    ttft_s = answered(rows, **shared)["ttft_s"]
    for load, rising_s in zip(loads, ttft_s.reshape(len(loads), -1), strict=True):
        assert rises(rising_s), load


@given(lengths=RISING, model=MODEL, engine=ENGINE, batch=st.integers(1, 64))
def test_output_tokens(lengths: list[int], model: str, engine: str, batch: int) -> None:
    columns = sweep("osl", lengths, model=model, engine=engine, batch=batch, isl=256)
    assert rises(np.array([t for t in columns["tpot_s"] if t is not None], dtype=np.float64))
    assert rises(columns["request_latency_s"])
    assert np.ptp(columns["ttft_s"]) == 0


@given(concurrency=RISING, model=MODEL, engine=ENGINE)
@settings(max_examples=scaled_examples(0.6))
def test_concurrency(concurrency: list[int], model: str, engine: str) -> None:
    load = {"mode": "aggregated", "method": "formula", "isl": 512, "osl": 128}
    columns = sweep("concurrency", concurrency, model=model, engine=engine, **load)
    # more tokens in a mixed step can fit tiles better, and leave the size up to which norms fuse
    assert rises(columns["tpot_s"], slack=TILE_FIT)


@given(
    prefixes=st.lists(st.integers(0, 4096), min_size=2, max_size=8, unique=True).map(sorted),
    model=MODEL,
    engine=ENGINE,
)
def test_cached_tokens_save_time(prefixes: list[int], model: str, engine: str) -> None:
    # at least 2048 new tokens, so that arithmetic and not the cache's bytes sets the time
    load = {"isl": 6144, "osl": 16, "batch": 1, "max_num_batched_tokens": 8192}
    columns = sweep("prefix", prefixes, model=model, engine=engine, **load)
    assert rises(columns["ttft_s"][::-1])
    assert np.ptp(columns["tpot_s"]) == 0


@given(
    lengths=st.lists(st.integers(1, 100_000), min_size=2, max_size=8, unique=True).map(sorted),
    batch=st.integers(1, 64),
    queries=st.integers(1, 4096),
    limit=st.sampled_from([0, 1, 128, 2048]),
    device=st.sampled_from(["a100_sxm", "h200_sxm", "l40s", "cpu"]),
)
def test_operators_over_keys(
    lengths: list[int], batch: int, queries: int, limit: int, device: str
) -> None:
    cached = column(*lengths)
    batch_C, q_len = np.full_like(cached, batch), np.full_like(cached, queries)
    for operator in (
        attention(Phase.PREFILL, batch_C, q_len, cached + q_len, limit),
        attention(Phase.DECODE, batch_C, np.ones_like(cached), cached + 1.0, limit),
        latent_attention(Phase.PREFILL, batch_C, q_len, cached + q_len, limit),
        latent_attention(Phase.DECODE, batch_C, np.ones_like(cached), cached + 1.0, limit),
    ):
        assert rises(bound_of(operator, device)), operator.kind


@given(tokens=RISING, device=st.sampled_from(["a100_sxm", "h200_sxm", "l40s", "cpu"]))
def test_operators_over_tokens(tokens: list[int], device: str) -> None:
    rows = column(*tokens)
    for operator in (
        experts(rows, (4096, 1024, 64, 4), 4, "balanced"),
        experts(rows, (4096, 1024, 64, 4), 1, "power_law_1.2"),
        streaming("norm", rows, 16384.0),
        scan(np.ones_like(rows), rows),
        scan(rows, rows),
        attention(Phase.PREFILL, rows, np.full_like(rows, 8.0), np.full_like(rows, 64.0)),
        latent_attention(Phase.DECODE, rows, np.ones_like(rows), np.full_like(rows, 64.0)),
    ):
        assert rises(bound_of(operator, device)), operator.kind


@pytest.mark.parametrize("op", OPS)
@given(
    sizes=st.lists(st.integers(1, 2**34), min_size=2, max_size=8, unique=True).map(sorted),
    ranks=st.sampled_from([2, 4, 8, 16, 64]),
    system=st.sampled_from(["a100_sxm", "h200_sxm", "gb200", "l40s", "mi300x"]),
)
@settings(max_examples=scaled_examples(0.4))
def test_collectives_over_bytes(op: str, sizes: list[int], ranks: int, system: str) -> None:
    bytes_U = column(*sizes)
    priced = price_collectives(
        CollectiveShapes(
            op=op, bytes=bytes_U, ranks=np.full_like(bytes_U, ranks), stride=np.ones_like(bytes_U)
        ),
        systems=[resolve_system(system)],
        system_index_U=np.zeros(len(sizes), np.int64),
        tier="bound",
    )
    assert rises(priced.prices.time_s_CO[:, 0])


def bound_of(operator: Operator, device: str) -> FloatArray:
    devices = on(resolve_system(device).device, operator.count.shape[0])
    return price_at_bound([operator], devices).time_s_CO[:, 0]


@given(window=RISING, queries=st.integers(1, 512))
def test_a_wider_window_never_saves_time(window: list[int], queries: int) -> None:
    one = np.ones(len(window))
    operator = attention(Phase.PREFILL, one, queries * one, 100_000 * one)
    wider = replace(operator, window=column(*window))
    assert rises(bound_of(wider, "h200_sxm"))
    unlimited = replace(operator, window=0.0 * one)
    assert (bound_of(unlimited, "h200_sxm") >= bound_of(wider, "h200_sxm")).all()
