"""Pools whose weights have different number formats."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import pytest

from perfatlas.cli import main
from perfatlas.studies.deployments.rows import estimate_fields, plan_row
from perfatlas.verbs.estimate import estimate, estimate_table
from perfatlas.verbs.search import search
from perfatlas.verbs.simulate import simulate

if TYPE_CHECKING:
    from collections.abc import Mapping

POOLS: Final[dict[str, Any]] = {
    "model": "meta-llama/Llama-3.1-8B",
    "system": "h200_sxm",
    "mode": "disaggregated",
    "decode_batch": 16,
    "isl": 1024,
    "osl": 128,
}
NAMES: Final = ("ttft_s", "tpot_s", "energy_per_output_token_j", "output_tokens_per_s_per_gpu")


def _told(**fields: Any) -> Mapping[str, Any]:  # noqa: ANN401 - fields of estimate
    return estimate(**{**POOLS, **fields}).results


def test_each_pool_has_the_times_and_the_memory_of_its_format() -> None:
    plain, reduced, mixed = _told(), _told(format="fp8"), _told(prefill_format="fp8")
    assert mixed["tpot_s"] == plain["tpot_s"] > reduced["tpot_s"]
    # the first token waits for a decode step too
    assert reduced["ttft_s"] < mixed["ttft_s"] < plain["ttft_s"]
    weights = [
        one["prefill_memory"]["weights_bytes"] / one["memory"]["weights_bytes"]
        for one in (plain, reduced, mixed)
    ]
    assert weights[:2] == [1.0, 1.0]
    assert 0.5 < weights[2] < 0.6  # the embedding stays in 16 bits


def test_the_resolved_scenario_and_a_table_give_the_same_answer() -> None:
    for asked in ({"prefill_format": "fp8"}, {"format": "fp8", "decode_format": "bf16"}):
        answer = estimate(**{**POOLS, **asked})
        named = (answer.scenario["prefill_format"], answer.scenario["decode_format"])
        assert named == ("fp8_dynamic", "bf16")
        again = estimate(**answer.scenario)
        table = estimate_table({n: [v] for n, v in {**POOLS, **asked}.items()}).columns
        for name in NAMES:
            assert again.results[name] == answer.results[name]
            assert table[name][0] == pytest.approx(answer.results[name], rel=1e-13)


def test_pools_of_two_formats_are_simulated(capsys: pytest.CaptureFixture[str]) -> None:
    asked = {n: v for n, v in POOLS.items() if n != "decode_batch"}
    asked |= {"request_rate": 4.0, "num_requests": 40, "prefill_format": "fp8"}
    found = simulate(**asked)
    assert found.answer.scenario["prefill_format"] == "fp8_dynamic"
    slower = simulate(**{**asked, "prefill_format": "bf16"}).results
    assert found.results["ttft_s"]["mean"] < slower["ttft_s"]["mean"]
    words = [f"--{n.replace('_', '-')}={v}" for n, v in {**POOLS, "prefill_format": "fp8"}.items()]
    assert main(["estimate", *words]) == 0
    assert "prefill fp8_dynamic, decode bf16" in " ".join(capsys.readouterr().out.split())


@pytest.mark.study
def test_a_search_mixes_formats_of_pools() -> None:
    asked = {n: v for n, v in POOLS.items() if n != "decode_batch"}
    answer = search(**asked, gpus=2, tp=1, pp=1, formats="bf16,fp8", num_plans=20)
    pairs = set()
    for place in range(answer.found.size):
        row = plan_row(answer.found, place, answer.inputs)
        fields = estimate_fields(answer.found, row, place, answer.inputs)
        found = estimate(**fields).results
        pairs.add(tuple(row.get(f"{role}_gemm_format") for role in ("prefill", "decode")))
        for name in ("ttft_s", "tpot_s", "output_tokens_per_s_per_gpu"):
            assert row[name] == pytest.approx(found[name], rel=1e-12)
    assert pairs == {(None, None), ("bf16", "fp8_dynamic"), ("fp8_dynamic", "bf16")}
    assert json.dumps(answer.columns["prefill_gemm_format"])
