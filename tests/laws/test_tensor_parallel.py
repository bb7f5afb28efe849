"""Tensor parallelism: with free communication it is never slower; what it divides is exact."""

from __future__ import annotations

from functools import cache

import pytest
from hypothesis import given, settings, strategies as st

from perfatlas.hardware import resolve_system
from perfatlas.networks import resolve_model
from perfatlas.parallelism import plan_problems
from perfatlas.scenario.fields import Scenario
from perfatlas.scenario.resolution import resolve_scenarios
from perfatlas.step import Candidates, candidate_memory
from perfatlas.verbs.estimate import estimate
from tests.examples import scaled_examples
from tests.laws.support import (
    distinct_models,
    evaluated_on,
    free_communication,
    question_of,
    rises_not,
)

SIZES = (1, 2, 4, 8, 16, 32)


@cache
def legal(model: str) -> list[int]:
    """Return the tensor-parallel sizes a model can be divided by."""
    return [
        tp
        for tp in SIZES
        if plan_problems(
            resolve_model(model).network, question_of(model=model, system="b300_sxm", tp=tp).plan
        )
        == [None]
    ]


def question(model: str, batch: int, isl: int, **shared: str) -> Candidates:
    """Return one question with a column for every legal size of a model."""
    fields: dict[str, object] = {"model": model, "system": "b300_sxm", "tier": "bound", **shared}
    fields |= {"batch": batch, "isl": isl, "osl": 64}
    sizes = legal(model)
    found, problems = resolve_scenarios([Scenario.read({**fields, "tp": tp}) for tp in sizes])
    assert found is not None
    assert problems == [None] * len(sizes)
    return found


@given(
    model=st.sampled_from(distinct_models()),
    batch=st.integers(1, 512),
    isl=st.integers(1, 16384),
    # vLLM and TensorRT-LLM fuse norms into the all-reduce at some tp and not at others
    engine=st.sampled_from(["sglang", "ideal"]),
)
@settings(max_examples=scaled_examples(1.2))
def test_never_slower_with_free_communication(
    model: str, batch: int, isl: int, engine: str
) -> None:
    asked = question(model, batch, isl, engine=engine)
    (system,) = asked.placement.systems
    latencies = evaluated_on(asked, free_communication(system)).latencies
    assert latencies.tpot_s.size == len(legal(model))
    assert rises_not(latencies.ttft_s)
    assert rises_not(latencies.tpot_s)


@given(model=st.sampled_from(distinct_models()), batch=st.integers(1, 64))
@settings(max_examples=scaled_examples(0.8))
def test_memory_of_a_rank_never_grows(model: str, batch: int) -> None:
    memory = candidate_memory(question(model, batch, 512))
    assert memory.weights_bytes.size == len(legal(model))
    assert rises_not(memory.weights_bytes)
    assert rises_not(memory.kv_bytes)
    assert rises_not(memory.activation_bytes)


@pytest.mark.parametrize("system", ["a100_sxm", "h200_sxm", "gb200"])
def test_fast_links_by_override_leave_only_the_compute_stream(system: str) -> None:
    fields = {"model": "meta-llama/Llama-3.1-70B", "engine": "ideal", "tier": "bound", "tp": 8}
    free = estimate(
        **fields, system=f"{system}{{device.scale_up.bandwidth=1e18 B/s}}", batch=8, isl=512
    )
    network = sum(r["time_s"] for r in free.breakdown if r["stream"] == "communication")
    compute = sum(r["time_s"] for r in free.breakdown if r["stream"] == "compute")
    assert network < 1e-5 * compute


def test_dense_work_divides_exactly() -> None:
    # Llama-3.1-70B weights per layer: (8192 + 2 x 1024) x 8192 + 8192 x 8192 + 3 x 8192 x 28672
    per_layer = (10240 + 8192 + 3 * 28672) * 8192
    bandwidth = resolve_system("b300_sxm").device.memory_bandwidth
    fields = {"model": "meta-llama/Llama-3.1-70B", "system": "b300_sxm", "tier": "bound"}
    for tp in (1, 2, 4, 8):
        rows = estimate(**fields, tp=tp, batch=1, isl=1, engine="ideal").breakdown
        products = sum(
            r["time_s"]
            for r in rows
            if r["phase"] == "decode"
            and r["name"].endswith("projection")
            and r["stream"] == "compute"
        )
        assert products == pytest.approx(80 * per_layer * 2 / tp / bandwidth, rel=1e-3)
