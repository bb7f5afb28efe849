"""Clients of a benchmark, which start together: burst, drift, and the simulation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from perfatlas.inference.opening_burst import Drift, ceil_sum, mean_progress, together_share
from perfatlas.verbs.estimate import estimate

ASKED: dict[str, Any] = {
    "model": "Qwen/Qwen3-32B",
    "system": "h100_sxm",
    "tp": 2,
    "mode": "aggregated",
}
ONE = np.ones(1)


def drift(**changes: float) -> Drift:
    fields = {"rounds": 10, "steps": 100, "deviation": 5, "stagger": 0, "window": 2, "others": 15}
    return Drift(**{name: np.full(1, float(value)) for name, value in (fields | changes).items()})


def test_equal_outputs_keep_the_clients_together() -> None:
    assert together_share(drift(deviation=0))[0] == pytest.approx(1.0, rel=1e-12)


def test_one_round_is_the_burst_alone() -> None:
    assert together_share(drift(rounds=1, deviation=30))[0] == 1.0


def test_independent_clients_meet_within_the_window_of_one_of_them() -> None:
    """Two of 2 steps in 1,000 follow or precede: 2 x 2/1000 in the rounds after the first."""
    share = together_share(drift(rounds=1_000_000, steps=1000, deviation=300, others=0.0))[0]
    assert share == pytest.approx(0.004, rel=0.01)


@given(
    st.floats(1, 100), st.floats(0, 40), st.floats(0.5, 20), st.integers(1, 500), st.integers(1, 50)
)
def test_more_rounds_and_more_spread_never_bring_clients_together(
    deviation: float, stagger: float, window: float, others: int, rounds: int
) -> None:
    fields = {"stagger": stagger, "window": window, "others": others, "steps": 500.0}
    share = together_share(drift(deviation=deviation, rounds=rounds, **fields))[0]
    later = together_share(drift(deviation=deviation, rounds=rounds + 1, **fields))[0]
    wider = together_share(drift(deviation=deviation * 1.5, rounds=rounds, **fields))[0]
    assert 1.0 / rounds <= share <= 1.0
    assert later <= share * (1.0 + 1e-9)
    assert wider <= share * (1.0 + 1e-9)


@given(st.integers(1, 60), st.integers(1, 5000), st.integers(1, 9000))
def test_the_progress_of_prompts_is_that_of_steps_counted_one_by_one(
    prompts: int, new: int, budget: int
) -> None:
    total = prompts * new
    ends = [min(-(-i * new // budget) * budget, total) / total for i in range(1, prompts + 1)]
    found = mean_progress(prompts * ONE, new * ONE, budget * ONE)[0]
    assert found == pytest.approx(sum(ends) / prompts, rel=1e-12)
    count, top, bottom = (np.array([one]) for one in (prompts, new, budget))
    assert ceil_sum(count, top, bottom)[0] == sum(
        -(-i * new // budget) for i in range(1, prompts + 1)
    )


@pytest.mark.parametrize(
    ("engine", "isl", "osl", "clients", "spread"),
    [
        ("sglang", 4096, 128, 16, 0.0),
        ("sglang", 1024, 1024, 32, 1 / 9),
        ("vllm", 2048, 256, 16, 1 / 9),
        ("trtllm", 1024, 512, 8, 1 / 9),
    ],
)
def test_formula_and_simulation_agree_for_clients_that_start_together(
    engine: str, isl: int, osl: int, clients: int, spread: float
) -> None:
    asked = {**ASKED, "engine": engine, "isl": isl, "osl": osl, "concurrency": clients}
    asked |= {"requests_per_client": 10, "osl_spread": spread}
    formula, simulated = (estimate(**asked, method=how) for how in ("formula", "simulate"))
    assert formula.results["ttft_s"] == pytest.approx(simulated.results["ttft_s"], rel=0.1)
    assert formula.results["tpot_s"] == pytest.approx(simulated.results["tpot_s"], rel=0.025)
    steady = estimate(**asked | {"requests_per_client": None, "osl_spread": None}, method="formula")
    assert formula.results["ttft_s"] > 1.3 * steady.results["ttft_s"]
    assert "start together" in " ".join(formula.evidence.assumptions)
    assert "start together" in " ".join(simulated.evidence.assumptions)


@pytest.mark.parametrize("method", ["formula", "simulate"])
def test_latency_is_ttft_and_the_gaps_between_tokens(method: str) -> None:
    asked = {**ASKED, "engine": "sglang", "isl": 2000, "osl": 100, "concurrency": 12}
    found = estimate(**asked, requests_per_client=5, method=method).results
    whole = found["ttft_s"] + 99 * found["tpot_s"]
    assert found["request_latency_s"] == pytest.approx(whole, rel=1e-9)


@pytest.mark.parametrize("method", ["formula", "simulate"])
@pytest.mark.parametrize("osl", [1, 2])
def test_a_burst_of_prompts_computes_no_faster_than_a_longer_run(method: str, osl: int) -> None:
    """The first prompts of a burst return soon, and their clients idle until the last one ends."""
    asked = {**ASKED, "engine": "sglang", "isl": 2000, "osl": osl, "concurrency": 32}
    once, often = (
        estimate(**asked, requests_per_client=rounds, method=method).results for rounds in (1, 20)
    )
    name = "output_tokens_per_s_per_gpu"
    assert once[name] == pytest.approx(often[name], rel=0.03)


def test_throughput_of_a_simulated_benchmark_counts_the_last_requests() -> None:
    asked = {**ASKED, "isl": 512, "osl": 64, "concurrency": 8, "method": "simulate"}
    even, uneven = (
        estimate(**asked, requests_per_client=1, osl_spread=spread).results for spread in (0.0, 0.9)
    )
    name = "output_tokens_per_s_per_gpu"
    assert even[name] == pytest.approx(8 * 64 / even["request_latency_s"] / 2, rel=0.05)
    assert uneven[name] < 0.8 * even[name]  # of up to 122 tokens, and few in flight at the end
