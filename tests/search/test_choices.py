"""Listed values of a search: engines, exchanges, redundant experts, prefix caching, sizes."""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import Any, Final

import numpy as np
import pytest

import perfatlas
from perfatlas.quantities import InvalidSpecError
from perfatlas.studies import probability_at_most, value_exceeded
from perfatlas.studies.deployments.question import read_search
from perfatlas.studies.deployments.rows import estimate_fields, plan_row
from perfatlas.verbs.search import SearchAnswer, search

MOE: Final[dict[str, Any]] = {
    "model": "Qwen/Qwen3-30B-A3B",
    "system": "h200_sxm",
    "gpus": 4,
    "pp": 1,
    "isl": 1024,
    "osl": 128,
    "max_num_batched_tokens": 8192,
    "num_simulated": 0,
}
LISTED: Final = (
    "engine=vllm:sglang",
    "expert_exchange=all_gather_reduce_scatter:deepep",
    "redundant_experts=0:16",
)
OBJECTIVE: Final = "output_tokens_per_s_per_gpu"


@cache
def _listed() -> SearchAnswer:
    return search(**MOE, choices=LISTED)


def test_candidates_and_refused_ones_add_up_to_all_combinations() -> None:
    found = _listed().results
    # tp x attention_dp divides 4 with ep x moe_tp on the same ranks; a combination with an exchange
    # is counted once where there is no attention data parallelism
    plans = [
        (tp, adp, ep)
        for tp in (1, 2, 4)
        for adp in (1, 2, 4)
        if tp * adp <= 4
        for ep in (1, 2, 4)
        if tp * adp % ep == 0
    ]
    exchanging = sum(adp > 1 for _, adp, _ in plans)
    combinations = 2 * 2 * (len(plans) + exchanging)
    assert found["candidates"] + sum(found["rejected"].values()) == combinations
    assert found["rejected"]["redundant_experts_with_ep"] > 0


def test_each_candidate_has_the_numbers_of_its_estimate() -> None:
    answer = _listed()
    seen: Counter[Any] = Counter()
    for place in range(answer.found.size):
        row = plan_row(answer.found, place, answer.inputs)
        seen[row["engine"], row.get("expert_exchange"), row.get("redundant_experts", 0)] += 1
    assert len(seen) == 2 * 2 * 3  # without an exchange, and with two
    for place in range(0, answer.found.size, 5):
        row = plan_row(answer.found, place, answer.inputs)
        fields = estimate_fields(answer.found, row, place, answer.inputs)
        assert fields.get("redundant_experts", 0) == row.get("redundant_experts", 0)
        assert row[OBJECTIVE] == pytest.approx(perfatlas.estimate(**fields).results[OBJECTIVE])


def test_listed_sizes_keep_the_candidates_with_these_sizes() -> None:
    all_of_them = search(**{**MOE, "pp": None}).columns
    some = search(**{**MOE, "pp": None}, choices=("tp=1:4", "ep=4", "pp=1")).columns
    kept = [
        rate
        for rate, tp, ep, pp in zip(
            *(all_of_them[name] for name in (OBJECTIVE, "tp", "ep", "pp")), strict=True
        )
        if tp in (1, 4) and ep == 4 and pp == 1
    ]
    assert kept
    assert some[OBJECTIVE] == kept


def test_listed_tokens_and_draft_depths_are_tried_and_no_others() -> None:
    asked = {n: v for n, v in MOE.items() if n != "max_num_batched_tokens"} | {"tp": 4, "ep": 1}
    choices = ("max_num_batched_tokens=4096:8192", "speculative_depth=0:3")
    columns = search(**asked, choices=choices, speculative_acceptance=0.7).columns
    tokens, depths = columns["max_num_batched_tokens"], columns["speculative_depth"]
    assert sorted(zip(tokens, (depth or 0 for depth in depths), strict=True)) == [
        (4096, 0),
        (4096, 3),
        (8192, 0),
        (8192, 3),
    ]


def test_prefix_caching_is_searched_where_prompts_have_a_cached_part() -> None:
    asked = {**MOE, "tp": 4, "ep": 1, "prefix": 768}
    table = search(**asked).columns
    assert sorted(table["prefix_caching"]) == [False, True]
    off, on = (table[OBJECTIVE][table["prefix_caching"].index(value)] for value in (False, True))
    plain = search(**{**asked, "prefix": 0}).columns
    assert "prefix_caching" not in plain
    assert off == plain[OBJECTIVE][0] < on
    for value, rate in ((False, off), (True, on)):
        assert search(**asked, prefix_caching=value).columns[OBJECTIVE] == [rate]
    with pytest.raises(InvalidSpecError, match="prefix_caching"):
        read_search({**MOE, "prefix_caching": True})


def test_a_prediction_without_interval_meets_its_limit_or_misses_it() -> None:
    predicted, none = np.array([0.1, 2.0]), np.full(2, np.nan)
    assert probability_at_most(predicted, none, none, 1.0).tolist() == [1.0, 0.0]


def test_an_interval_without_an_upper_end_has_no_spread() -> None:
    predicted, unknown = np.array([0.9, 1.1]), np.full(2, np.nan)
    assert probability_at_most(predicted, predicted / 2, unknown, 1.0).tolist() == [1.0, 0.0]
    assert value_exceeded(predicted, unknown, 2 * predicted, 0.8).tolist() == predicted.tolist()
