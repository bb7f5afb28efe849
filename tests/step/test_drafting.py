"""Speculative decoding: operators that verification and drafting add to a step."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from perfatlas.operators import Attention, Gemm, LatentAttention
from perfatlas.scenario.fields import Scenario
from perfatlas.scenario.resolution import resolve_scenarios
from perfatlas.step import StepContext, decode_step, decode_work
from perfatlas.verbs.estimate import estimate
from perfatlas.verbs.simulate import simulate

ONE = np.ones(1)
LLAMA = {"model": "meta-llama/Llama-3.1-8B", "system": "h200_sxm"}
LAYER = (4096 + 2 * 1024) * 4096 + 4096 * 4096 + 3 * 4096 * 14336
HEAD = 128256 * 4096


def context(drafts: int, **fields: object) -> StepContext:
    drafted = {"speculative_depth": drafts, "speculative_acceptance": 0.5} if drafts else {}
    given = {"engine": "ideal", "tier": "bound", **LLAMA, **drafted, **fields}
    question, problems = resolve_scenarios([Scenario.read(given)])
    assert question is not None, problems
    return question.context()


def drafted(**fields: object) -> dict[str, float]:
    given = {**LLAMA, "batch": 8, "isl": 1024, "osl": 256, "engine": "ideal", **fields}
    return dict(estimate(**given).results)


@pytest.mark.parametrize("drafts", [1, 2, 5])
def test_weights_of_a_drafter_by_hand(drafts: int) -> None:
    # each pass reads a layer, the projection of 2 x 4096 to 4096 and the head once more
    step = decode_step(context(drafts), ONE, np.full(1, 1024.0))
    weights = sum(
        float((count * op.n * op.k * 2)[0])
        for op, count in zip(step.operators, step.count_CO.T, strict=True)
        if isinstance(op, Gemm)
    )
    once = LAYER + 2 * 4096 * 4096 + HEAD
    assert weights == 2 * (32 * LAYER + HEAD + drafts * once)


def test_queries_of_a_sequence_read_its_cache_once() -> None:
    plain, verifies = (
        next(op for op in decode_work(context(d), 4 * ONE, 1000 * ONE).operators
             if isinstance(op, Attention))
        for d in (0, 3)
    )  # fmt: skip
    assert verifies.num_heads[0] == 4 * plain.num_heads[0] == 128
    assert verifies.batch[0] == plain.batch[0] == 4
    assert verifies.num_kv_heads[0] == plain.num_kv_heads[0] == 8


def test_queries_that_choose_their_keys_read_their_own() -> None:
    fields = {"model": "deepseek-ai/DeepSeek-V3.2", "tp": 8}
    found = decode_work(context(1, **fields), 4 * ONE, 9000 * ONE).operators
    latent = [op for op in found if isinstance(op, LatentAttention)]
    assert [float(op.batch[0]) for op in latent if not op.name.startswith("draft_")] == [8.0, 8.0]


def test_a_drafter_of_experts_is_a_layer_of_experts() -> None:
    fields = {"model": "deepseek-ai/DeepSeek-V3", "tp": 8}
    found = {op.name: op for op in decode_work(context(1, **fields), ONE, 1000 * ONE).operators}
    experts = [name for name in found if name.startswith("draft_") and "expert" in name]
    assert experts
    assert all(found[name].count[0] <= 2 for name in found if name.startswith("draft_"))


def test_drafts_that_are_never_accepted_only_cost() -> None:
    plain, rejected = drafted(), drafted(speculative_depth=3, speculative_acceptance=0.0)
    assert rejected["tpot_s"] > plain["tpot_s"]
    assert rejected["ttft_s"] > plain["ttft_s"]


@pytest.mark.parametrize("mode", ["static", "aggregated"])
def test_tokens_of_a_step_are_a_geometric_sum(mode: str) -> None:
    asked: dict[str, object] = {"mode": mode, "method": "formula"}
    if mode == "aggregated":  # one request: no prefill interference
        asked |= {"concurrency": 1, "batch": None}
    never = drafted(speculative_depth=2, speculative_acceptance=0.0, **asked)
    half = drafted(speculative_depth=2, speculative_acceptance=0.5, **asked, osl=60_001)
    never_long = drafted(speculative_depth=2, speculative_acceptance=0.0, **asked, osl=60_001)
    always = drafted(speculative_depth=2, speculative_acceptance=1.0, **asked)
    assert never_long["tpot_s"] / half["tpot_s"] == pytest.approx(1.75, rel=1e-4)
    assert never["tpot_s"] / always["tpot_s"] == pytest.approx(3.0)
    assert never["ttft_s"] == pytest.approx(always["ttft_s"])


@pytest.mark.parametrize(("osl", "acceptance"), [(2, 1.0), (6, 1.0), (8, 0.7), (129, 0.7)])
def test_the_last_step_produces_the_remaining_tokens(osl: int, acceptance: float) -> None:
    asked: dict[str, Any] = {**LLAMA, "concurrency": 1, "isl": 100, "osl": osl}
    asked |= {"mode": "aggregated"}
    drafts: dict[str, Any] = {"speculative_depth": 3, "speculative_acceptance": acceptance}
    closed = estimate(**asked, **drafts, method="formula").results["tpot_s"]
    runs = [
        simulate(**asked, **drafts, num_requests=400, seed=seed).answer.results["tpot_s"]["mean"]
        for seed in range(2)
    ]
    assert sum(runs) / 2 == pytest.approx(closed, rel=0.02)


@pytest.mark.parametrize("acceptance", [0.0, 0.6, 1.0])
def test_the_simulation_is_near_the_closed_form(acceptance: float) -> None:
    asked = {**LLAMA, "mode": "aggregated", "concurrency": 24, "isl": 512, "osl": 512}
    drafts = {"speculative_depth": 2, "speculative_acceptance": acceptance}
    closed = estimate(**asked, **drafts, method="formula").results
    found = estimate(**asked, **drafts, method="simulate").results
    assert found["tpot_s"] == pytest.approx(closed["tpot_s"], rel=0.03)
    assert closed["ttft_s"] < found["ttft_s"] < 4 * closed["ttft_s"]


def test_memory_holds_the_drafter() -> None:
    plain, more = (
        estimate(**LLAMA, **fields).results["memory"]
        for fields in ({}, {"speculative_depth": 1, "speculative_acceptance": 0.5})
    )
    # its weights and two norms in bf16; its cache is a 33rd of all
    assert more["weights_bytes"] - plain["weights_bytes"] == 2 * (LAYER + 2 * 4096)
    tokens = more["kv_capacity_tokens"] / plain["kv_capacity_tokens"]
    assert tokens == pytest.approx(32 / 33, rel=0.005)
