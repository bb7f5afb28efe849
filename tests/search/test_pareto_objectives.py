"""Searches for the Pareto set of several objectives against exhaustive ones."""

from __future__ import annotations

from functools import cache
from itertools import combinations
from typing import Any, Final

import numpy as np
import pytest

import perfatlas
from perfatlas.studies.deployments.groups import OBJECTIVES
from perfatlas.verbs.search import search
from tests.examples import few

MAX_OBJECTIVES: Final = 4
RATE: Final = 30.0
SMALL: Final[dict[str, Any]] = {
    "model": "meta-llama/Llama-3.1-8B",
    "system": "h200_sxm",
    "max_gpus": MAX_OBJECTIVES,
    "pp": 1,
    "isl": 1024,
    "osl": 128,
    "request_rate": RATE,
    "slo_tpot_s": 0.02,
    "usd_per_gpu_hour": 3.0,
    "max_num_batched_tokens": 8192,
    "min_slo_probability": 0.5,
    "num_simulated": 0,
}
# one format has one accuracy: tests/scenario/test_accuracy.py searches several
PRICED: Final = tuple(name for name in OBJECTIVES if name != "accuracy_delta")
SETS: Final = [",".join(names) for count in (2, 3) for names in combinations(PRICED, count)]


@cache
def _all_rows() -> list[dict[str, float]]:
    """Return the deployments that meet all limits, priced one by one without the search."""
    loads = [1, 2, 3, *(n << k for k in range(9) for n in (4, 5, 6, 7))]
    sizes = [(tp, load) for tp in (1, 2, 4) for load in loads]
    shared = {n: SMALL[n] for n in ("model", "system", "isl", "osl", "max_num_batched_tokens")}
    table = {name: [value] * len(sizes) for name, value in shared.items()}
    table |= {"mode": ["aggregated"] * len(sizes), "method": ["formula"] * len(sizes)}
    table |= {"tp": [tp for tp, _ in sizes], "concurrency": [load for _, load in sizes]}
    columns = perfatlas.estimate_table(table).columns
    rows = []
    for place, (tp, _) in enumerate(sizes):
        row = {name: cells[place] for name, cells in columns.items()}
        if row["error"] or "run concurrently" in row["warnings"]:
            continue
        rate = row["output_tokens_per_s_per_gpu"] * tp / SMALL["osl"]
        replicas = np.ceil(RATE / rate * (1.0 - 1e-12))
        if row["tpot_s"] > SMALL["slo_tpot_s"] or replicas > MAX_OBJECTIVES // tp:
            continue
        row["gpus"] = tp * replicas
        row["usd_per_million_output_tokens"] = 3.0 / 3600 / row["output_tokens_per_s_per_gpu"] * 1e6
        rows.append(row)
    return rows


def _signed(row: dict[str, float], objectives: str) -> tuple[float, ...]:
    """Return the objectives of a row, larger is better."""
    names = objectives.split(",")
    return tuple(row[n] if n == "output_tokens_per_s_per_gpu" else -row[n] for n in names)


@pytest.mark.parametrize("objectives", few(SETS, every=3))
def test_the_frontier_and_the_best_plan_are_those_of_an_exhaustive_search(objectives: str) -> None:
    results = search(**SMALL, objective=objectives).results
    points = {_signed(row, objectives) for row in _all_rows()}
    expected = sorted(
        one
        for one in points
        if not any(all(a >= b for a, b in zip(other, one, strict=True)) for other in points - {one})
    )
    told = sorted(_signed(row, objectives) for row in results["frontier"])
    assert np.array(told) == pytest.approx(np.array(expected), rel=1e-9)
    balanced = max(sum(np.sign(x) * np.log(abs(x)) for x in one) for one in points)
    best = _signed(results["plans"][0], objectives)
    assert sum(np.sign(x) * np.log(abs(x)) for x in best) == pytest.approx(balanced, abs=1e-9)


def test_plans_are_distinct_points_of_the_frontier_with_what_they_give_up() -> None:
    answer = search(**SMALL, objective="output_tokens_per_s_per_gpu,request_latency_s")
    plans, frontier = answer.results["plans"], answer.results["frontier"]
    points = [_signed(row, answer.inputs.objective) for row in frontier]
    assert all(_signed(plan, answer.inputs.objective) in points for plan in plans)
    assert len({(plan["tp"], plan["dp"]) for plan in plans}) == len(plans) >= 3
    lowest = min(row["request_latency_s"] for row in frontier)
    ratio = plans[0]["request_latency_s"] / lowest
    assert f"latency {ratio:.2f}x the lowest" in plans[0]["why"]
    first, second = (
        np.log(p["output_tokens_per_s_per_gpu"] / p["request_latency_s"]) for p in plans[:2]
    )
    assert plans[0]["runner_up_deficit"] == pytest.approx(1.0 - np.exp((second - first) / 2))


def test_a_system_without_the_objective_is_a_candidate_and_no_plan() -> None:
    unknown = "h200_sxm{device.architecture=other}"
    asked = {"model": SMALL["model"], "system": unknown, "systems": "h200_sxm", "gpus": 1}
    asked |= {"isl": 64, "osl": 16, "num_simulated": 0, "tier": "bound"}
    answer = search(**asked, objective="energy_per_output_token_j")
    assert set(answer.columns["system"]) == {unknown, "h200_sxm"}
    assert {plan["system"] for plan in answer.results["plans"]} == {"h200_sxm"}
