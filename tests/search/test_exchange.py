"""A search over plans with a setting of the exchange between attention data-parallel ranks."""

from __future__ import annotations

import pytest

from perfatlas import estimate
from perfatlas.studies.deployments.rows import estimate_fields, plan_row
from perfatlas.verbs.search import search as find_plans


def test_candidates_that_are_not_split_do_not_change_those_that_are() -> None:
    found = find_plans(
        model="Qwen/Qwen3-30B-A3B",
        system="h100_sxm",
        gpus=16,
        concurrency=256,
        num_simulated=0,
        expert_exchange="deepep",
        batch_overlap="two_batch",
    )
    seen = 0
    for place in range(found.found.size):
        row = plan_row(found.found, place, found.inputs)
        if (row["tp"], row["ep"]) == (8, 16):
            fields = estimate_fields(found.found, row, place, found.inputs)
            assert row["ttft_s"] == pytest.approx(estimate(**fields).results["ttft_s"], rel=1e-9)
            seen += 1
    assert seen > 0
