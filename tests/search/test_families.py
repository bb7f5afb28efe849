"""Candidates of a search belong to the family whose settings they have."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any, Final

import numpy as np
import pytest

from perfatlas import estimate
from perfatlas.scenario.resolution import read_scenario, resolve_scenarios
from perfatlas.studies.deployments import space
from perfatlas.studies.deployments.choices import EXCHANGE
from perfatlas.studies.deployments.rows import estimate_fields, plan_row
from perfatlas.studies.deployments.space import SPREAD
from perfatlas.verbs.search import search as find_plans

MOE: Final[dict[str, Any]] = {
    "model": "Qwen/Qwen3-30B-A3B",
    "system": "h200_sxm",
    "isl": 1024,
    "osl": 128,
}


@pytest.mark.parametrize(
    ("mode", "searched"),
    [
        pytest.param(
            "disaggregated",
            {"choices": "engine=vllm:sglang,redundant_experts=0:16", "formats": "bf16,fp8"},
            marks=pytest.mark.study,
        ),
        ("aggregated", {"choices": "expert_exchange=deepep_low_latency:all_to_all", "prefix": 512}),
        (
            "aggregated",
            {"choices": "speculative_depth=0:2:3", "speculative_acceptance": 0.7, "format": "fp8"},
        ),
        (
            "disaggregated",
            {"systems": "h100_sxm", "kv_formats": "bf16,fp8", "sampling_penalties": True},
        ),
    ],
)
def test_the_first_candidate_of_each_family_is_what_estimate_prices(
    mode: str, searched: dict[str, Any]
) -> None:
    done = find_plans(**MOE, **searched, mode=mode, gpus=4, num_simulated=0)
    _, places = np.unique(done.found.leading["family"], return_index=True)
    assert places.size > 1
    for place in places.tolist():
        row = plan_row(done.found, place, done.inputs)
        again = estimate(**estimate_fields(done.found, row, place, done.inputs)).results
        for name in ("ttft_s", "tpot_s", "output_tokens_per_s_per_gpu"):
            assert row[name] == pytest.approx(again[name], rel=1e-9), (name, row)


def test_a_family_is_told_apart_by_all_that_its_plans_and_loads_do_not_replace() -> None:
    base, _ = resolve_scenarios([read_scenario(MOE)])
    assert base is not None
    shared, exchange = space._identity({}, base)
    for name in {one.name for one in fields(base)} - {*SPREAD, "assumptions", "profile"}:
        change: dict[str, Any] = {name: object()}
        other = replace(base, **change)
        assert space._identity({}, other)[0] != shared, name
    for one in fields(base.profile):
        own: dict[str, Any] = {one.name: object()}
        other = replace(base, profile=replace(base.profile, **own))
        found = space._identity({}, other)
        assert (found[0] == shared) == (one.name in EXCHANGE), one.name
        assert found != (shared, exchange)
