"""A search says by how much it beats the plan that other verbs choose for its GPUs."""

from __future__ import annotations

from typing import Any

from perfatlas.verbs.estimate import estimate
from perfatlas.verbs.search import search

LARGE = "meta-llama/Llama-3.1-70B"
CHOSEN = "the plan that estimate chooses for"


def note_of(**fields: Any) -> str:  # noqa: ANN401 - of a search
    found = search(num_simulated=0, **fields)
    return next((one for one in found.results["ranking"] if one.startswith(CHOSEN)), "")


def test_the_deficit_of_the_default_plan_by_hand() -> None:
    asked: dict[str, Any] = {"model": LARGE, "system": "h100_sxm", "gpus": 8, "concurrency": 16}
    chosen = estimate(**asked, mode="aggregated", method="formula")
    assert (chosen.scenario["tp"], chosen.scenario["dp"]) == (2, 4)
    objective = "request_latency_s"
    best = search(**asked, objective=objective, num_simulated=0).results["plans"][0]
    worse = chosen.results[objective] / best[objective] - 1.0
    note = note_of(**asked, objective=objective)
    assert f"8 GPUs (tp 2, dp 4) is {worse:.0%} worse" in note


def test_nothing_is_said_of_the_default_plan_itself() -> None:
    asked: dict[str, Any] = {"model": LARGE, "system": "h100_sxm", "gpus": 2}
    assert not note_of(**asked)  # one plan fits
    assert not note_of(**{**asked, "gpus": 8}, tp=8)
    pooled = {"mode": "disaggregated", "gpus": 8}
    assert not note_of(**{**asked, **pooled})


def test_a_default_plan_that_misses_a_limit() -> None:
    note = note_of(model=LARGE, system="h100_sxm", gpus=8, slo_tpot_s=0.014)
    assert note == f"{CHOSEN} 8 GPUs (tp 4, dp 2) does not meet the limits"
