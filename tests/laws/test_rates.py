"""Twice the rates: every term that is not a latency takes half the time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from perfatlas.collectives import OPS, CollectiveShapes, Implementation, price_collectives
from perfatlas.hardware import resolve_system
from perfatlas.machines import price_operators
from perfatlas.machines.gpu.tiers.bound import price_at_bound
from perfatlas.operators import Operator, Phase
from perfatlas.verbs.estimate import estimate
from tests.examples import scaled_examples
from tests.laws.support import (
    MODELS,
    attention,
    column,
    evaluated_on,
    experts,
    gemm,
    latent_attention,
    on,
    question_of,
    scaled,
    scan,
    streaming,
)

SYSTEMS = st.sampled_from(["a100_sxm", "h200_sxm", "b200_sxm", "gb200", "l40s", "mi300x", "cpu"])
MEASURED = st.sampled_from(["a100_sxm", "h100_sxm", "h200_sxm", "b200_sxm", "gb300", "l40s"])
TOKENS = st.integers(1, 16384)


def operators(tokens: int, queries: int) -> list[Operator]:
    rows, ones = column(tokens), np.ones(1)
    q_len = queries * ones
    return [
        gemm(rows, 4096 * ones, 8192 * ones, "bf16", 2.0),
        experts(rows, (4096, 1024, 64, 4), 2, "balanced"),
        experts(rows, (4096, 1024, 64, 4), 2, "power_law_1.2"),
        attention(Phase.PREFILL, ones, q_len, q_len + rows),
        attention(Phase.DECODE, ones, ones, ones + rows, 128),
        latent_attention(Phase.PREFILL, ones, q_len, q_len + rows),
        latent_attention(Phase.DECODE, ones, ones, ones + rows),
        streaming("norm", rows, 16384.0),
        scan(ones, rows),
    ]


@given(tokens=TOKENS, queries=st.integers(1, 512), name=SYSTEMS)
def test_bound_of_operators_halves(tokens: int, queries: int, name: str) -> None:
    system = resolve_system(name)
    for operator in operators(tokens, queries):
        slow = price_at_bound([operator], on(system.device, 1)).time_s_CO[:, 0]
        fast = price_at_bound([operator], on(scaled(system, 2.0).device, 1)).time_s_CO[:, 0]
        assert fast == pytest.approx(slow / 2, rel=1e-12)


@given(tokens=TOKENS, queries=st.integers(1, 512), name=MEASURED)
def test_physics_of_operators_keeps_only_its_latency(tokens: int, queries: int, name: str) -> None:
    system = resolve_system(name)
    steps = [scaled(system, factor) for factor in (1.0, 2.0, 2.0**30, 2.0**31)]
    for operator in operators(tokens, queries):
        times = [
            price_operators([operator], on(s.device, 1), family="", tier="physics").time_s_CO[0, 0]
            for s in steps
        ]
        # from T = rate term + latency: T2 lies between T/2 and T; at last only latency is left
        assert times[0] / 2 * (1 - 1e-9) <= times[1] <= times[0] * (1 + 1e-9), operator.name
        assert times[3] == pytest.approx(times[2], rel=1e-4), operator.name


@pytest.mark.parametrize("op", OPS)
@given(size=st.integers(1, 2**34), ranks=st.sampled_from([2, 4, 8, 16, 64]), name=SYSTEMS)
@settings(max_examples=scaled_examples(0.3))
def test_collectives(op: str, size: int, ranks: int, name: str) -> None:
    system = resolve_system(name)
    shapes = CollectiveShapes(op=op, bytes=column(size), ranks=column(ranks), stride=np.ones(1))
    index = np.zeros(1, np.int64)
    slow, fast = (
        price_collectives(
            shapes,
            systems=[s],
            system_index_U=index,
            tier="auto",
            implementation=Implementation(family="vllm"),
        )
        for s in (system, scaled(system, 2.0))
    )
    assert fast.prices.bound_s_CO[:, 0] == pytest.approx(
        slow.prices.bound_s_CO[:, 0] / 2, rel=1e-12
    )
    assert (
        slow.prices.time_s_CO[:, 0] / 2 * (1 - 1e-9)
        <= fast.prices.time_s_CO[:, 0]
        <= slow.prices.time_s_CO[:, 0] * (1 + 1e-9)
    )


@given(
    model=st.sampled_from(MODELS),
    tp=st.sampled_from([1, 2, 4]),
    batch=st.integers(1, 64),
    isl=st.integers(1, 20_000),
    mode=st.sampled_from(["static", "aggregated"]),
)
@settings(max_examples=scaled_examples(0.8))
def test_whole_estimates_halve_without_host_time(
    model: str, tp: int, batch: int, isl: int, mode: str
) -> None:
    load = {"batch": batch} if mode == "static" else {"concurrency": batch}
    question = question_of(
        model=model,
        system="b300_sxm",
        engine="ideal",
        tier="bound",
        mode=mode,
        tp=tp,
        isl=isl,
        osl=64,
        **load,
    )
    system = question.placement.systems[0]
    slow = evaluated_on(question, system).latencies
    fast = evaluated_on(question, scaled(system, 2.0)).latencies
    assert fast.ttft_s == pytest.approx(slow.ttft_s / 2, rel=1e-9)
    assert fast.tpot_s == pytest.approx(slow.tpot_s / 2, rel=1e-9)
    assert fast.output_tokens_per_s == pytest.approx(slow.output_tokens_per_s * 2, rel=1e-9)


def test_host_time_is_a_latency_and_stays() -> None:
    question = question_of(
        model="Qwen/Qwen3-0.6B", system="h200_sxm", tier="bound", batch=1, isl=1, osl=2
    )
    system = question.placement.systems[0]
    host = question.profile.host
    slow, fast = (evaluated_on(question, scaled(system, f)).latencies for f in (2.0**10, 2.0**20))
    assert slow.tpot_s == fast.tpot_s == pytest.approx(host.step_s + host.per_sequence_s)


def test_twice_the_bandwidth_by_override_halves_a_memory_bound_product() -> None:
    fields = {"model": "meta-llama/Llama-3.1-8B", "engine": "ideal", "tier": "bound", "batch": 1}
    slow, fast = (
        estimate(**fields, system=f"h200_sxm{{device.memory.bandwidth={rate} TB/s}}").results
        for rate in (4.8, 9.6)
    )
    assert fast["tpot_s"] == pytest.approx(slow["tpot_s"] / 2, rel=1e-3)  # norms stay in L2


def test_a_higher_clock_helps_arithmetic_only() -> None:
    fields = {"model": "meta-llama/Llama-3.1-8B", "system": "h200_sxm", "engine": "ideal"}
    load = {"tier": "bound", "batch": 1, "isl": 8192}
    slow, fast = (estimate(**fields, **load, clock_ratio=r).results for r in (0.5, 1.0))
    assert fast["tpot_s"] == slow["tpot_s"]
    # the head reads its weights once; everything else of a long prefill is arithmetic
    assert fast["ttft_s"] == pytest.approx(slow["ttft_s"] / 2, rel=0.05)


def test_latency_of_links_is_not_a_rate() -> None:
    system = resolve_system("h200_sxm")
    device = scaled(system, 2.0).device
    assert device.scale_up.latency_s == system.device.scale_up.latency_s
    assert replace(device.scale_up, bandwidth=0.0) == replace(system.device.scale_up, bandwidth=0.0)
