"""Searches that are too large end with an answer or with what narrows them, before any price."""

from __future__ import annotations

from typing import Any

from perfatlas.networks import resolve_model
from perfatlas.studies.deployments.question import read_search
from perfatlas.studies.deployments.space import all_plans
from perfatlas.verbs.search import search

ASKED: dict[str, Any] = {
    "model": "deepseek-ai/DeepSeek-V3",
    "system": "h200_sxm",
    "isl": 1024,
    "osl": 128,
}


def _plans(gpus: int) -> int:
    inputs = read_search({**ASKED, "gpus": gpus})
    return int(all_plans(inputs, resolve_model(ASKED["model"]).network).tp.size)


def test_plans_of_very_many_gpus_are_listed_by_their_divisors() -> None:
    # tp x pp x attention_dp divides 2^17, so that their exponents leave the rest to dp; tp x
    # attention_dp = 2^n has n + 1 divisions into ep and moe_tp, and n + 1 into tp and attention_dp
    assert _plans(gpus=1 << 17) == sum((n + 1) ** 2 * (18 - n) for n in range(18))


def test_a_deployment_with_many_requests_in_flight_is_ranked_without_simulation() -> None:
    asked = {**ASKED, "model": "meta-llama/Llama-3.1-8B", "gpus": 4096, "tp": 1, "pp": 1}
    ranking = search(**asked, num_simulated=1).results["ranking"]
    assert any("a search simulates at most 65,536 requests" in note for note in ranking)
