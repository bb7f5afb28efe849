"""Steps that differ in pipeline stages are priced once: against estimates of the candidates."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pytest

import perfatlas
from perfatlas.step import differs_by_transfers
from perfatlas.studies.deployments.find import METRICS, find_deployments
from perfatlas.studies.deployments.question import read_search
from perfatlas.studies.deployments.rows import estimate_fields, plan_row

DENSE: Final[dict[str, Any]] = {"model": "meta-llama/Llama-3.1-8B", "system": "h200_sxm"}
EXPERTS: Final[dict[str, Any]] = {"model": "Qwen/Qwen3-30B-A3B", "system": "h100_sxm"}
LENGTHS: Final[dict[str, Any]] = {"isl": 3000, "osl": 200, "slo_tpot_s": 0.03, "gpus": 16}


@pytest.mark.parametrize(
    "asked",
    [
        {**DENSE, "engine": "vllm"},
        {**DENSE, "engine": "sglang@0.5.6", "mode": "static"},
        {**DENSE, "engine": "ideal", "tier": "bound"},
        {**EXPERTS, "engine": "vllm", "choices": ("max_num_batched_tokens=8192",)},
        {**EXPERTS, "engine": "sglang", "choices": ("max_num_batched_tokens=4096:8192",)},
        {**DENSE, "choices": ("speculative_depth=3",), "speculative_acceptance": 0.7},
        {**EXPERTS, "engine": "trtllm", "choices": ("max_num_batched_tokens=8192",)},
    ],
)
def test_candidates_of_any_stages_have_the_numbers_of_an_estimate(asked: dict[str, Any]) -> None:
    inputs = read_search({**LENGTHS, **asked})
    found = find_deployments(inputs)
    assert all(differs_by_transfers(family.base.context()) for family in found.families)
    places = np.flatnonzero(found.candidates["pp"] != 2.0).tolist()[::3]
    rows = [plan_row(found, place, inputs) for place in places]
    fields = [estimate_fields(found, r, p, inputs) for r, p in zip(rows, places, strict=True)]
    estimates = perfatlas.estimate_table(
        {name: [one[name] for one in fields] for name in fields[0]}
    ).columns
    for name in (*METRICS, "tier"):
        if name not in rows[0]:
            continue
        for row, value in zip(rows, estimates[name], strict=True):
            near = value if value is None or name == "tier" else pytest.approx(value, rel=1e-11)
            assert row[name] == near, (name, row)
    assert max(row["pp"] for row in rows) >= 8


@pytest.mark.parametrize(
    "changed", [{"power_cap_w": 500}, {"engine": "sglang", "clock_ratio": 0.8}]
)
def test_steps_whose_clock_depends_on_their_time_are_priced_apart(changed: dict[str, Any]) -> None:
    inputs = read_search({**LENGTHS, **DENSE, **changed})
    found = find_deployments(inputs)
    assert not any(differs_by_transfers(family.base.context()) for family in found.families)
