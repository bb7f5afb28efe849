"""Options without effect are refused, or have a remark if they are valid."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from perfatlas.quantities import InvalidSpecError
from perfatlas.scenario.deployments import refuse_unused_options
from perfatlas.scenario.resolution import split_fields
from perfatlas.verbs.estimate import estimate
from perfatlas.verbs.simulate import max_request_rate, simulate
from tests.examples import few

SERVED: dict[str, Any] = {
    "model": "meta-llama/Llama-3.1-8B-Instruct",
    "system": "h200_sxm",
    "num_requests": 30,
}
RATE: dict[str, Any] = {**SERVED, "request_rate": 20}


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "r.csv"
    path.write_text("arrival_s,isl,osl\n0,100,10\n0.5,200,20\n")
    return str(path)


@pytest.mark.parametrize(
    "formats",
    [{"moe_format": "bf16"}, {"format": "fp8", "moe_format": "fp8"}, {"gemm_format": "int8"}],
)
def test_the_default_of_a_field_that_does_not_apply_changes_nothing(
    formats: dict[str, str],
) -> None:
    """A table may have a column for the models with experts among its rows."""
    own = {"moe_format": formats.get("gemm_format", "bf16"), **formats}
    without = {name: value for name, value in own.items() if name != "moe_format"}
    asked = {"model": "meta-llama/Llama-3.1-8B", "system": "h200_sxm", "batch": 8}
    same = [estimate(**asked, **one).results for one in (own, without)]
    assert same[0] == same[1]


@pytest.mark.parametrize("name", ["isl", "osl", "length_spread"])
def test_lengths_are_set_once(file: str, name: str) -> None:
    drawn: dict[str, Any] = {"length_distribution": "empirical", "lengths_from": file, name: 2}
    with pytest.raises(InvalidSpecError, match=rf"{name} = 2 .*length.*{name}"):
        simulate(**RATE, **drawn)


@pytest.mark.parametrize(
    "fields",
    few([
        {"engine": "sglang", "mixed_chunk": True},
        {"num_seeds": 2},
        {"arrival": "constant", "num_seeds": 2, "speculative_depth": 2,
         "speculative_acceptance": 0.5},
        {"mode": "disaggregated", "tp": 4, "prefill_tp": 4, "decode_tp": 1},
        {"mode": "disaggregated", "tp": 4, "prefill_tp": 2},
        {"expert_distribution": "uniform"},
        {"model": "Qwen/Qwen3-30B-A3B", "expert_distribution": "balanced", "moe_format": "fp8"},
        {"tp": 2, "replica_kinds": [{"system": "h200_sxm"}, {"tp": 1}]},
    ], every=2),
)  # fmt: skip
def test_options_with_effect_are_accepted(fields: dict[str, Any]) -> None:
    served = {**RATE, **fields}
    refuse_unused_options(*split_fields(served))
    assert simulate(**served).answer.results["requests_completed"] == 30


def test_a_search_reads_the_percentile_of_its_objectives() -> None:
    found = max_request_rate(**{**SERVED, "num_requests": 100}, slo_ttft_s=0.1, slo_percentile=90)
    assert found.answer.scenario["slo_percentile"] == 90
    assert found.answer.results["max_requests_per_s"] > 0
