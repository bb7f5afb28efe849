"""Plans of a number of GPUs: the smallest that fits inside a scale-up domain, and replicas."""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from perfatlas.quantities import InfeasibleError, InvalidSpecError
from perfatlas.scenario.fields import Scenario
from perfatlas.scenario.resolution import planned_scenario, resolve_scenarios, split_fields
from perfatlas.step import candidate_memory
from perfatlas.verbs.compare import compare
from perfatlas.verbs.estimate import estimate, estimate_table, frontier
from perfatlas.verbs.simulate import simulate
from tests.examples import few

PLAN = ("tp", "pp", "cp", "attention_dp", "dp")
SMALL = "meta-llama/Llama-3.1-8B"
LARGE = "meta-llama/Llama-3.1-70B"
R1 = "deepseek-ai/DeepSeek-R1"


def sizes(**fields: Any) -> tuple[int, ...]:  # noqa: ANN401 - of a scenario
    question, problems = resolve_scenarios([Scenario.read(fields)])
    assert question is not None, problems
    plan = question.plan
    return tuple(int(column[0]) for column in (plan.tp, plan.pp, plan.dp))


@pytest.mark.parametrize(
    ("model", "system", "load", "plan"),
    [
        (SMALL, "h100_sxm", {"concurrency": 64}, (1, 1, 16)),
        # 141 GB of weights: two GPUs hold them and 12 sequences of 2,300 tokens, four hold more
        (LARGE, "h100_sxm", {"concurrency": 64}, (2, 1, 8)),
        (LARGE, "h100_sxm", {"concurrency": 256}, (4, 1, 4)),
        (LARGE, "h200_sxm", {"concurrency": 64}, (2, 1, 8)),
        (LARGE, "b200_sxm", {"concurrency": 64}, (1, 1, 16)),
        (R1, "h100_sxm", {"concurrency": 64}, (8, 2, 1)),
        (R1, "b200_sxm", {"concurrency": 64}, (4, 1, 4)),
    ],
)
def test_sixteen_gpus(model: str, system: str, load: dict[str, Any], plan: tuple[int, ...]) -> None:
    asked: dict[str, Any] = {
        "model": model,
        "system": system,
        "isl": 2000,
        "osl": 300,
        "mode": "aggregated",
    }
    assert sizes(**asked, gpus=16, **load) == plan


@pytest.mark.parametrize("gpus", [2, 4, 8, 24, 32])
def test_the_next_smaller_tensor_parallelism_lacks_room(gpus: int) -> None:
    asked: dict[str, Any] = {
        "model": LARGE,
        "system": "h100_sxm",
        "isl": 4000,
        "osl": 500,
        "mode": "aggregated",
    }
    asked |= {"concurrency": 4 * gpus}
    tp, pp, dp = sizes(**asked, gpus=gpus)
    assert tp * pp * dp == gpus
    assert tp <= 8
    if tp == 1:
        return
    question, _ = resolve_scenarios([Scenario.read({**asked, "tp": tp // 2, "dp": 2 * dp})])
    assert question is not None
    memory = candidate_memory(question)
    room = np.where(memory.fits, memory.max_sequences, 0.0)
    assert tp == gpus or room[0] < question.load.sequences[0]


def test_sizes_that_are_given_stay() -> None:
    asked: dict[str, Any] = {"model": SMALL, "system": "h100_sxm", "gpus": 8}
    assert sizes(**asked, tp=4) == (4, 1, 2)
    assert sizes(**asked, dp=2) == (4, 1, 2)
    assert sizes(**asked, pp=2) == (1, 2, 4)
    question, _ = resolve_scenarios(
        [Scenario.read({"model": "Qwen/Qwen3-30B-A3B", "system": "h100_sxm", "gpus": 8, "ep": 4})]
    )
    assert question is not None
    assert (question.plan.tp[0], question.plan.ep[0], question.plan.dp[0]) == (4, 4, 2)


@pytest.mark.parametrize(
    ("model", "system", "stated", "plan"),
    [
        (SMALL, "h100_sxm", {"gpus": 16, "dp": 1}, (8, 2, 1)),
        (LARGE, "h100_sxm", {"gpus": 24, "dp": 1}, (8, 3, 1)),
        (LARGE, "h100_sxm", {"gpus": 64, "dp": 2}, (8, 4, 2)),
        (LARGE, "gb200", {"gpus": 16, "dp": 1}, (16, 1, 1)),
        (SMALL, "h100_sxm", {"gpus": 16, "tp": 16}, (16, 1, 1)),
        (R1, "h200_sxm", {"gpus": 32, "attention_dp": 16, "dp": 1}, (2, 1, 1)),
    ],
)
def test_tensor_parallelism_leaves_a_domain_only_where_it_is_stated(
    model: str, system: str, stated: dict[str, Any], plan: tuple[int, ...]
) -> None:
    assert sizes(model=model, system=system, **stated) == plan


def test_sizes_that_leave_no_plan_inside_domains_are_refused_with_the_call_to_make() -> None:
    stated: dict[str, Any] = {"model": SMALL, "system": "h100_sxm", "gpus": 16, "dp": 1}
    with pytest.raises(InvalidSpecError, match=r"leaves only tp = 16, across .* set tp = 16 to"):
        estimate(**stated, pp=1)
    assert estimate(**stated, pp=1, tp=16).scenario["tp"] == 16
    rows = {name: [value] * 2 for name, value in stated.items()} | {"pp": [1, 2]}
    found = estimate_table(rows).columns
    assert found["error_code"] == ["invalid", ""]
    with pytest.raises(InvalidSpecError, match="gpus = 10, but"):
        estimate(model=SMALL, system="h100_sxm", gpus=10, dp=3)


def test_simulated_traffic_has_the_same_plan() -> None:
    fields: dict[str, Any] = {"model": LARGE, "system": "h100_sxm", "gpus": 16, "request_rate": 4.0}
    _, scenario = split_fields(fields)
    # the load is not known: room for 32 sequences of the default lengths
    assert (scenario.tp, scenario.dp) == (4, 4)
    plain = Scenario.read({"model": SMALL, "system": "h100_sxm", "tp": 2})
    assert planned_scenario(plain) is plain


def test_the_refusal_names_the_fewest_gpus() -> None:
    with pytest.raises(InfeasibleError) as refused:
        estimate(model=LARGE, system="h100_sxm")
    assert "gpus = 2" in refused.value.advice[0]
    with pytest.raises(InfeasibleError) as refused:
        estimate(model=R1, system="h100_sxm")
    assert "gpus = 16" in refused.value.advice[0]
    assert "pp = 2" in refused.value.advice[0]
    estimate(model=R1, system="h100_sxm", gpus=16)


def of(scenario: Mapping[str, Any]) -> tuple[int, ...]:
    return tuple(scenario.get(name) or 1 for name in PLAN)


@pytest.mark.parametrize("seed", few(range(8), every=2))
def test_all_verbs_choose_the_same_plan(seed: int) -> None:
    draw = random.Random(seed)  # noqa: S311 - a test
    asked: dict[str, Any] = {
        "model": draw.choice((SMALL, LARGE, "Qwen/Qwen3-30B-A3B", "openai/gpt-oss-120b")),
        "gpus": draw.choice((2, 4, 8, 16, 24)),
        "isl": draw.choice((256, 2048, 6000)),
        "osl": 16,
    }
    systems = draw.sample(("h100_sxm", "h200_sxm", "b200_sxm", "mi300x", "a100_sxm"), 2)
    load = {"concurrency": draw.choice((1, 16, 200, 1500)), "mode": "aggregated"}
    fields = {**asked, "system": systems[0], **load, "format": "bf16"}
    found = estimate(**fields, method="formula")
    plan = of(found.scenario)
    assert np.prod(plan) == asked["gpus"]
    simulated = simulate(**fields, num_requests=2)
    assert of(simulated.scenario) == plan
    compared = compare(**fields, method="formula", systems=systems[1:]).scenario["scenarios"]
    if compared[1].get("tp"):  # it fits on the other system too
        other = estimate(**{**fields, "system": systems[1]}, method="formula")
        assert {*map(of, compared)} <= {plan, of(other.scenario)}
    else:
        assert of(compared[0]) == plan
    row = {name: [value] for name, value in fields.items()} | {"method": ["formula"]}
    assert estimate_table(row).columns["tpot_s"][0] == pytest.approx(found.results["tpot_s"])


@pytest.mark.parametrize(
    ("model", "gpus", "mode"),
    [(LARGE, 8, "static"), (LARGE, 16, "aggregated"), (SMALL, 4, "static")],
)
def test_a_frontier_is_of_one_plan(model: str, gpus: int, mode: str) -> None:
    asked: dict[str, Any] = {"model": model, "system": "h100_sxm", "gpus": gpus, "mode": mode}
    asked |= {"method": "formula"} if mode == "aggregated" else {}
    found = frontier(**asked)
    scenario = {name: value for name, value in found.scenario.items() if name != "gpus"}
    assert of(scenario) == of(estimate(**asked).scenario)
    load = "batch" if mode == "static" else "concurrency"
    rows = found.results["frontier"]
    for row in (rows[0], rows[len(rows) // 2], rows[-1]):
        alone = estimate(**{**scenario, load: row["batch"]})
        assert row["tpot_s"] == pytest.approx(alone.results["tpot_s"])
    if mode == "static":  # one plan: a larger batch never takes less time
        assert all(a["tpot_s"] <= b["tpot_s"] for a, b in itertools.pairwise(rows))
