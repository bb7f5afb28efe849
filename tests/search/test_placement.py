"""Plans that a search recommends can be placed on the nodes that were asked."""

from __future__ import annotations

import random
from typing import Any

import pytest

from perfatlas.hardware import resolve_system
from perfatlas.scenario.resolution import planned_scenario, read_scenario
from perfatlas.studies.deployments import crossing_of
from perfatlas.verbs.estimate import estimate
from perfatlas.verbs.search import search
from tests.parallelism.packing import holds

SIZES = ("tp", "pp", "cp", "attention_dp")
MODELS = ("meta-llama/Llama-3.1-8B", "Qwen/Qwen3-30B-A3B", "Qwen/Qwen3-235B-A22B")


def workers_of(plan: dict[str, Any]) -> tuple[int, ...]:
    found: list[int] = []
    pooled = "prefill_workers" in plan
    for role in ("prefill_", "decode_") if pooled else ("",):
        each = 1
        for name in SIZES:
            each *= plan.get(f"{role}{name}", 1)
        found += [each] * plan[f"{role}workers" if pooled else "dp"]
    return tuple(found)


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.study) for seed in range(1, 12))]
)
def test_recommended_plans_fit_on_the_nodes(seed: int) -> None:
    draw = random.Random(seed)  # noqa: S311 - a test
    system, model = draw.choice(("h100_sxm", "b200_sxm", "gb200")), draw.choice(MODELS)
    mode = draw.choice(("aggregated", "disaggregated", "disaggregated"))
    asked: dict[str, Any] = {"model": model, "system": system, "mode": mode, "isl": 2000}
    numbers = (16, 20, 24) if model == MODELS[-1] else (6, 10, 12, 20)
    size: dict[str, Any] = {draw.choice(("gpus", "max_gpus")): draw.choice(numbers)}
    found = search(**asked, **size, num_simulated=0, num_plans=20, osl=200)
    hardware = resolve_system(system)
    per_node = max(hardware.device.scale_up.domain_size, hardware.node.devices)
    (gpus,) = size.values()
    for plan in found.results["plans"]:
        assert holds(workers_of(plan), gpus, per_node), plan


def test_what_crosses_nodes_is_in_the_answer() -> None:
    asked: dict[str, Any] = {"model": "deepseek-ai/DeepSeek-R1", "system": "h100_sxm", "gpus": 16}
    for plan in search(**asked, num_simulated=0).results["plans"]:
        assert plan["placement"].startswith("2 nodes of 8 GPUs, crossed by ")
        assert ("pp" in plan["placement"].split("by ")[1].split(", ")) == (plan["pp"] > 1)
        assert plan["placement"].endswith(f"crossed by {'; '.join(crossing_of(plan))}")


def test_many_workers_are_placed_at_once_and_counted_in_groups_of_digits() -> None:
    pools: dict[str, Any] = {"prefill_tp": 1, "prefill_pp": 5, "decode_tp": 4, "decode_workers": 4}
    asked: dict[str, Any] = {"model": "meta-llama/Llama-3.1-70B", "system": "h200_sxm"}
    asked |= {"engine": "sglang", "mode": "disaggregated", "method": "formula"}
    asked |= {"isl": 4000, "osl": 500}
    found = estimate(**asked, **pools, prefill_workers=1_000_000_000, decode_batch=128)
    told = "take 1,000,000,002 nodes of 8 GPUs and leave 3,000,000,000 GPUs idle"
    assert any(told in one for one in found.warnings)


def test_the_default_plan_fits_on_nodes() -> None:
    # 141 GB of weights and a long context: two replicas of 12 GPUs would take four nodes
    for gpus in (6, 12, 20, 24, 40):
        fields = {"model": "meta-llama/Llama-3.1-405B", "system": "h200_sxm", "gpus": gpus}
        plan = planned_scenario(read_scenario({**fields, "format": "fp8"}))
        each = (plan.tp or 1) * plan.pp
        assert holds((each,) * (plan.dp or 1), gpus, 8), plan
