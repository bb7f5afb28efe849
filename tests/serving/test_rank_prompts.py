"""Prompts of attention-data-parallel ranks in a step, in closed form and simulated."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given, strategies as st

import perfatlas
from perfatlas.inference.running_load import held_prompts, rank_prompts, spread_prompts
from tests.examples import few

ONE = np.ones(1)
MODEL: dict[str, Any] = {"model": "Qwen/Qwen3-30B-A3B", "system": "h200_sxm", "mode": "aggregated"}


@pytest.mark.parametrize(("starting", "slots", "ranks"), [(0.3, 4, 8), (2.0, 5, 4), (10, 800, 16)])
def test_the_busiest_rank_is_that_of_drawn_steps(starting: float, slots: int, ranks: int) -> None:
    draw = np.random.default_rng(1)
    prompts_SR = draw.binomial(slots, starting / slots, (100_000, ranks))
    most_S = prompts_SR.max(axis=1)
    some = most_S > 0
    found = rank_prompts(starting * ONE, slots * ONE, ranks * ONE, alternates=False)
    assert found.most[0] == pytest.approx(most_S[some].mean(), rel=0.01)
    assert found.most[0] * found.ranks[0] == pytest.approx(
        prompts_SR[some].sum(axis=1).mean(), rel=0.01
    )
    assert found.rank_share[0] == pytest.approx((prompts_SR[some, 0] > 0).mean(), rel=0.01)


@pytest.mark.parametrize(
    ("rate", "iters", "ranks", "share"), [(0.1, 60, 8, 1.0), (0.4, 20, 4, 0.6)]
)
def test_held_prompts_are_those_of_drawn_arrivals(
    rate: float, iters: int, ranks: int, share: float
) -> None:
    draw = np.random.default_rng(3)
    arrivals_SK = draw.exponential(1.0 / rate, (100_000, ranks)).cumsum(axis=1)
    ends_SK = draw.random((100_000, ranks)) >= share
    ends_SK[:, -1] = True
    last_S = arrivals_SK[np.arange(100_000), ends_SK.argmax(axis=1)]
    end_S = np.maximum(np.minimum(last_S, iters), arrivals_SK[:, 0])
    waits_SK = end_S[:, None] - arrivals_SK
    found = held_prompts(rate * ONE, iters * ONE, ranks * ONE, share * ONE)
    run_SK = waits_SK >= 0.0
    assert found.number[0] == pytest.approx(run_SK.sum(axis=1).mean(), rel=0.01)
    assert found.wait_steps[0] == pytest.approx(waits_SK[run_SK].mean(), rel=0.02)


def test_prompts_that_are_not_held_do_not_wait() -> None:
    for iters, share in ((0.0, 1.0), (60.0, 0.0)):
        found = held_prompts(0.3 * ONE, iters * ONE, 8.0 * ONE, share * ONE)
        assert found.number[0] == pytest.approx(1.0)
        assert found.wait_steps[0] == 0.0
    waits = held_prompts(np.full(4, 0.1), np.array([5.0, 20.0, 60.0, 200.0]), np.full(4, 8.0), ONE)
    assert (np.diff(waits.wait_steps) > 0.0).all()


@given(
    starting=st.floats(1e-6, 40.0),
    slots=st.integers(1, 50),
    ranks=st.integers(1, 64),
    alternates=st.booleans(),
)
def test_a_step_has_no_more_than_all_ranks_have(
    starting: float, slots: int, ranks: int, *, alternates: bool
) -> None:
    columns = (min(starting, slots) * ONE, slots * ONE, ranks * ONE)
    for how in (rank_prompts, spread_prompts):
        found = how(*columns, alternates=alternates)
        assert 1.0 <= found.most[0] <= slots + 1e-9
        assert 1.0 <= found.ranks[0] <= ranks
        assert 0.0 < found.rank_share[0] <= 1.0


def test_more_ranks_have_a_busier_one() -> None:
    ranks = np.arange(1.0, 65.0)
    found = rank_prompts(np.full(64, 0.5), np.full(64, 8.0), ranks, alternates=False)
    assert (np.diff(found.most) > 0.0).all()
    assert (np.diff(found.most * found.ranks) > 0.0).all()


def test_full_ranks_are_equal() -> None:
    for how in (rank_prompts, spread_prompts):
        found = how(3.0 * ONE, 3.0 * ONE, 8.0 * ONE, alternates=False)
        assert (found.most[0], found.ranks[0], found.rank_share[0]) == (3.0, 8.0, 1.0)


@pytest.mark.parametrize(
    ("engine", "ranks", "load"),
    few(
        [
            ("vllm", 2, (64, 1000, 300)),
            ("vllm@0.14", 4, (64, 1000, 300)),
            ("sglang", 4, (128, 3000, 300)),
            ("trtllm", 8, (256, 2000, 500)),
            ("trtllm", 8, (8, 2000, 200)),
        ],
        every=2,
    ),
)
def test_the_formula_agrees_with_the_simulation(
    engine: str, ranks: int, load: tuple[int, int, int]
) -> None:
    concurrency, isl, osl = load
    plan: dict[str, Any] = {"engine": engine, "attention_dp": ranks, "ep": ranks, "gpus": ranks}
    traffic: dict[str, Any] = {"concurrency": concurrency, "isl": isl, "osl": osl}
    methods: tuple[Literal["formula"], Literal["simulate"]] = ("formula", "simulate")
    formula, simulated = (
        perfatlas.estimate(method=method, **MODEL, **plan, **traffic).results for method in methods
    )
    for name in ("tpot_s", "output_tokens_per_s_per_gpu"):
        assert formula[name] == pytest.approx(simulated[name], rel=0.1), name
    # the first prompts of equal requests wait until their ranks start together
    held = engine == "trtllm" and concurrency > ranks
    assert held or formula["ttft_s"] == pytest.approx(simulated["ttft_s"], rel=0.15)
    assert formula["ttft_s"] < 1.15 * simulated["ttft_s"]


@pytest.mark.parametrize(
    ("ranks", "concurrency", "osl"),
    [
        pytest.param(
            *(8, 10, 200),
            marks=pytest.mark.xfail(
                reason="formula 17% above: with hardly more clients than ranks, whole steps decide",
                strict=True,
            ),
        ),
        *((8, 16, 500), (8, 64, 500), (16, 32, 500)),
    ],
)
def test_held_prompts_wait_as_in_the_simulation(ranks: int, concurrency: int, osl: int) -> None:
    plan: dict[str, Any] = {"engine": "trtllm", "attention_dp": ranks, "ep": ranks, "gpus": ranks}
    load: dict[str, Any] = {"concurrency": concurrency, "isl": 2000, "osl": osl}
    spread: dict[str, Any] = {"length_distribution": "uniform", "length_spread": 0.4}
    formula = perfatlas.estimate(method="formula", **MODEL, **plan, **load).results
    run = perfatlas.simulate(**MODEL, **plan, **load, **spread, num_requests=20 * concurrency)
    for name in ("ttft_s", "tpot_s"):
        assert formula[name] == pytest.approx(run.answer.results[name]["mean"], rel=0.1), name
    at_once = perfatlas.estimate(method="formula", **MODEL, **plan, **load, rank_balance_iters=0)
    assert formula["ttft_s"] > 1.5 * at_once.results["ttft_s"]


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_ranks_of_other_rows_do_not_matter(engine: str) -> None:
    ranks = [1, 2, 4, 8]
    fields: dict[str, Any] = {**MODEL, "engine": engine, "gpus": 8, "isl": 3000, "osl": 200}
    fields["concurrency"] = 112
    plans: list[dict[str, Any]] = [{"attention_dp": n, "tp": 8 // n, "ep": 1} for n in ranks]
    rows = {name: [plan[name] for plan in plans] for name in plans[0]}
    table = perfatlas.estimate_table(
        {name: [value] * len(ranks) for name, value in fields.items()} | rows
    ).columns
    for place, plan in enumerate(plans):
        alone = perfatlas.estimate(**fields, **plan).results
        for name in ("ttft_s", "tpot_s", "energy_per_output_token_j"):
            assert table[name][place] == pytest.approx(alone[name], rel=1e-9), (name, plan)
